// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import "testing"

func TestNltest(t *testing.T) {
	contoso := domain{"contoso.com", "CONTOSO"}
	const done = "The command completed successfully\n"
	const channel = "Trusted DC Name \nTrusted DC Connection Status Status = 1311 0x51f ERROR_NO_LOGON_SERVERS\n"
	const verified = "Flags: 80\n" + channel + "Trust Verification Status = 1311 0x51f ERROR_NO_LOGON_SERVERS\n" + done
	const down = "I_NetLogonControl failed: Status = 1722 0x6ba RPC_S_SERVER_UNAVAILABLE\n"
	const unknown = "I_NetLogonControl failed: Status = 1355 0x54b ERROR_NO_SUCH_DOMAIN\n"
	for _, tt := range []struct {
		in   domain
		arg  string
		want string
		code int
	}{
		{contoso, "/parentdomain", "contoso.com. (1)\n" + done, 0},
		{contoso, "-PARENTDOMAIN", "contoso.com. (1)\n" + done, 0},
		{contoso, "/query", "Flags: 0\nConnection Status = 1311 0x51f ERROR_NO_LOGON_SERVERS\n" + done, 0},
		{contoso, "/sc_verify:contoso.com", verified, 0},
		{contoso, "/SC_VERIFY:Contoso", verified, 0},
		{contoso, "/sc_verify:contoso.com.", verified, 0},
		{contoso, "/sc_query:contoso.com", "Flags: 0\n" + channel + done, 0},
		{contoso, `/sc_reset:contoso.com\dc1`, "Flags: 0\n" + channel + done, 0},
		{contoso, "/sc_verify:fabrikam.com", unknown, 1},
		{contoso, "/sc_reset", nltestUsage, 1},
		{contoso, "/dsgetdc:contoso.com", "Getting DC name failed: Status = 1355 0x54b ERROR_NO_SUCH_DOMAIN\n", 1},
		{domain{}, "/parentdomain", "Getting parent domain failed: Status = 1722 0x6ba RPC_S_SERVER_UNAVAILABLE\n", 1},
		{domain{}, "/query", down, 1},
		{domain{}, "/sc_verify:contoso.com", down, 1},
		{domain{}, "/sc_reset:contoso.com", down, 1},
		{domain{}, "/dbflag:0", "nltest: /dbflag:0 is not known to this stand-in\n", unknownOption},
		{domain{"contoso.com", ""}, "/sc_verify:", nltestUsage, 1},
	} {
		if got, code := tt.in.answer([]string{tt.arg}); got != tt.want || code != tt.code {
			t.Errorf("%+v %s: exit %d\n%swant %d\n%s", tt.in, tt.arg, code, got, tt.code, tt.want)
		}
	}
	if got, code := contoso.answer(nil); got != nltestUsage || code != 0 {
		t.Errorf("no argument: %d, %s", code, got)
	}
}
