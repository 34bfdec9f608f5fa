// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"os"
	"strings"
)

// domainFile is where the emulated host writes which domain the credential
// specification of a container names; see internal/cri/server. On real Windows
// there is no such file, and no stand-in either.
const domainFile = `C:\run\mullion\domain`

// nltest answers as on a computer that has no domain or, with a group managed
// service account, whose domain controllers do not answer: an emulated host has
// none. Both are what the guides show as failures.
func nltest(_ context.Context, env *Env) int {
	if len(env.Args) == 0 {
		env.printf("Usage: nltest [/OPTIONS]\n\n    /QUERY - Query <ServerName> netlogon service\n    /PARENTDOMAIN - Get the name of the parent domain of this machine\n" +
			"    /DSGETDC:<DomainName> - Call DsGetDcName\n    /SC_QUERY:<DomainName> - Query secure channel for <Domain> on <ServerName>\n" +
			"    /SC_VERIFY:<DomainName> - Verify secure channel for <Domain> on <ServerName>\n")
		return 0
	}
	option := strings.ToLower(strings.TrimLeft(env.Args[0], "/-"))
	name, _, _ := strings.Cut(option, ":")
	switch name {
	case "parentdomain", "dsgetdc", "dclist", "dsgetsite":
		if domain, err := os.ReadFile(domainFile); err == nil && len(domain) > 0 {
			what := "DC name"
			if name == "parentdomain" {
				what = "parent domain"
			}
			env.printf("Getting %s failed: Status = 1722 0x6ba RPC_S_SERVER_UNAVAILABLE\n", what)
			return 1
		}
		env.printf("Getting DC name failed: Status = 1355 0x54b ERROR_NO_SUCH_DOMAIN\n")
		return 1
	case "query", "sc_query", "sc_verify", "sc_reset":
		env.printf("I_NetLogonControl failed: Status = 1722 0x6ba RPC_S_SERVER_UNAVAILABLE\n")
		return 1
	}
	env.errorf("nltest: /%s is not known to this stand-in\n", name)
	return 1
}
