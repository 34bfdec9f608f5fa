// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// namesYAML is a pod that a headless Service names, so that the suffix would find
// it by a name with a dot.
const namesYAML = onNode + `
  hostname: named-0
  subdomain: named
  hostAliases: [{ip: 192.0.2.77, hostnames: [alias.example, alias]}]
  dnsConfig: {options: [{name: ndots, value: "5"}]}
  containers:
  - name: main
    image: mcr.microsoft.com/windows/servercore:ltsc2019
    command: [ping.exe, -t, localhost]`

// testNamesInPods: which names resolve in a pod, and that all places where a program may
// look for its settings tell the same.
func testNamesInPods(t *testing.T, c *shared, ns string) {
	c.apply(t, ns, "apiVersion: v1\nkind: Service\nmetadata: {name: named}\n"+
		"spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: named}}")
	c.pod(t, ns, "named", namesYAML)
	c.ready(t, ns, "named")
	shell := func(script string) string {
		out := c.exec(t, ns, "named", "powershell", "-NoProfile", "-Command", script)
		return strings.TrimSpace(strings.ReplaceAll(out, "\r", ""))
	}
	resolve := func(name string) string {
		return shell("try { [System.Net.Dns]::GetHostAddresses('" + name + "').IPAddressToString } catch { 'no' }")
	}
	own := c.get(t, ns, "named", "{.status.podIP}")
	full := "named-0.named." + ns + ".svc.cluster.local"
	eventually(t, 20*time.Second, "the pod's record", func() error {
		_, err := c.kubectlErr(t.Context(), "exec", "-n", ns, "named", "--", "nslookup.exe", full)
		return err
	})
	for name, want := range map[string]string{
		full: own, full + ".": own, "named": own, "named-0.named": "no", "named-0.named." + ns: "no",
		"alias.example": "192.0.2.77", "alias": "192.0.2.77", "nosuch": "no", "192.0.2.9": "192.0.2.9",
	} {
		if got := resolve(name); got != want {
			t.Errorf("%s resolves to %q, want %q", name, got, want)
		}
	}
	suffix := ns + ".svc.cluster.local"
	server := c.kubectl(t, "get", "service", "-n", "kube-system", "kube-dns", "-o", "jsonpath={.spec.clusterIP}")
	const key = `HKLM:\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters`
	for script, want := range map[string]string{
		"(Get-ItemProperty " + key + ").SearchList":                                             suffix,
		"(Get-ItemProperty " + key + ").Domain":                                                 "",
		"(Get-NetIPConfiguration).DNSServer.ServerAddresses":                                    server,
		"(Resolve-DnsName named -Server " + server + ").IPAddress":                              own,
		"(Resolve-DnsName _https._tcp.kubernetes.default.svc.cluster.local -Type SRV).Port":     "443",
		"(ipconfig /all | Select-String 'Suffix Search List|Connection-specific' | Out-String)": "",
	} {
		got := shell(script)
		if strings.HasPrefix(script, "(ipconfig") {
			if strings.Count(got, ": "+suffix) != 2 {
				t.Errorf("ipconfig /all prints %q, want the suffix %s twice", got, suffix)
			}
		} else if got != want {
			t.Errorf("%s is %q, want %q", script, got, want)
		}
	}
	for _, command := range []string{
		"(Get-NetAdapter).Name",
		"(Get-NetIPInterface -AddressFamily IPv4 | Where-Object InterfaceAlias -notlike Loopback*).InterfaceAlias",
		"(cmd /c netsh interface ipv4 show interfaces | Select-String vEthernet | Out-String)",
		"(ipconfig | Select-String vEthernet | Out-String)"} {
		// The endpoint has the sandbox's ID, 64 digits, and the network's name.
		if got := shell(command); !regexp.MustCompile(`vEthernet \([0-9a-f]{64}_`).MatchString(got) {
			t.Errorf("%s is %q, want vEthernet and the name of the endpoint", command, got)
		}
	}
	adapter := c.exec(t, ns, "named", "reg.exe", "query",
		`HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters\Interfaces`, "/s")
	for _, value := range []string{
		"NameServer    REG_SZ    " + server, "Domain    REG_SZ    " + suffix, "IPAddress    REG_MULTI_SZ    " + own,
	} {
		if !strings.Contains(adapter, value) {
			t.Errorf("the registry of the adapter lacks %q:\n%s", value, adapter)
		}
	}
}
