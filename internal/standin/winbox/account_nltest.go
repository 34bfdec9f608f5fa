// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"os"
	"strings"
)

// domainFile is where the container runtime writes which domain the credential
// specification of a container names: a line with its DNS name, and one with its
// NetBIOS name; see internal/cri/server. On real Windows there is no such file,
// and no stand-in either.
const domainFile = `C:\Windows\System32\config\mullion-domain`

// Answers of the original.
const (
	// A computer that is in no domain does not run the service netlogon:
	// kubernetes.io/docs/tasks/configure-pod-container/configure-gmsa (Troubleshooting).
	noNetlogon     = "1722 0x6ba RPC_S_SERVER_UNAVAILABLE\n"
	noLogonServers = "1311 0x51f ERROR_NO_LOGON_SERVERS\n"
	noSuchDomain   = "1355 0x54b ERROR_NO_SUCH_DOMAIN\n"
	completed      = "The command completed successfully\n"
)

const nltestUsage = "Usage: nltest [/OPTIONS]\n\n    /QUERY - Query <ServerName> netlogon service\n" +
	"    /SC_QUERY:<DomainName> - Query secure channel for <Domain> on <ServerName>\n" +
	"    /SC_RESET:<DomainName>[\\<DcName>] - Reset secure channel for <Domain> on <ServerName> to <DcName>\n" +
	"    /SC_VERIFY:<DomainName> - Verify secure channel for <Domain> on <ServerName>\n" +
	"    /DSGETDC:<DomainName> - Call DsGetDcName\n" +
	"    /PARENTDOMAIN - Get the name of the parent domain of this machine\n"

// nltest answers as on a computer without a domain or, in a container with a
// credential specification, as on one whose domain controllers are unreachable:
// an emulated host has no domain. Windows does the same with a credential
// specification on a node outside the domain (KEP-689, "failure scenarios").
func nltest(_ context.Context, env *Env) int {
	content, err := os.ReadFile(domainFile)
	if err != nil {
		content = nil // no credential specification
	}
	dns, netbios, _ := strings.Cut(strings.ReplaceAll(string(content), "\r", ""), "\n")
	answer, code := domain{strings.TrimSuffix(dns, "."), strings.TrimSpace(netbios)}.answer(env.Args)
	if code == unknownOption {
		env.errorf("%s", answer)
		return 1
	}
	env.printf("%s", answer)
	return code
}

// domain is the domain that a credential specification names; the zero value
// means no domain.
type domain struct{ dns, netbios string }

// unknownOption is not an exit code of the original.
const unknownOption = -1

// answer returns nltest's output and exit code.
func (d domain) answer(args []string) (string, int) {
	if len(args) == 0 {
		return nltestUsage, 0
	}
	option, name, _ := strings.Cut(strings.ToLower(strings.TrimLeft(args[0], "/-")), ":")
	name, _, _ = strings.Cut(name, `\`)
	name = strings.TrimSuffix(name, ".")
	switch option {
	case "parentdomain":
		// The name is read from the computer's own settings: it is shown even if the
		// domain does not exist (kubernetes/kubernetes test/e2e/windows/gmsa_kubelet.go).
		// The form follows a container in moby/moby@53e0c50.
		if d.dns == "" {
			return "Getting parent domain failed: Status = " + noNetlogon, 1
		}
		return d.dns + ". (1)\n" + completed, 0
	case "dsgetdc":
		return "Getting DC name failed: Status = " + noSuchDomain, 1
	case "query":
		if d.dns == "" {
			return "I_NetLogonControl failed: Status = " + noNetlogon, 1
		}
		// A pod of Kubernetes' own test: github.com/kubernetes/kubernetes/pull/99862.
		return "Flags: 0\nConnection Status = " + noLogonServers + completed, 0
	case "sc_query", "sc_reset", "sc_verify":
		return d.secureChannel(option, name)
	}
	return "nltest: " + args[0] + " is not known to this stand-in\n", unknownOption
}

// secureChannel handles the options for the channel to a domain. The failure
// of /sc_verify follows a pod in github.com/microsoft/SDN/issues/339; the
// others have the form of their success.
func (d domain) secureChannel(option, name string) (string, int) {
	switch {
	case name == "":
		return nltestUsage, 1
	case d.dns == "":
		return "I_NetLogonControl failed: Status = " + noNetlogon, 1
	case !strings.EqualFold(name, d.dns) && !strings.EqualFold(name, d.netbios):
		return "I_NetLogonControl failed: Status = " + noSuchDomain, 1
	}
	flags, verified := "0", ""
	if option == "sc_verify" {
		flags, verified = "80", "Trust Verification Status = "+noLogonServers
	}
	return "Flags: " + flags + "\nTrusted DC Name \nTrusted DC Connection Status Status = " + noLogonServers +
		verified + completed, 0
}
