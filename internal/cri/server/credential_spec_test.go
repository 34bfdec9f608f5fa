// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// webApp is the example of Microsoft's documents.
const webApp = `{"CmsPlugins":["ActiveDirectory"],"DomainJoinConfig":{"Sid":"S-1-5-21-702590844-1001920913-2680819671","MachineAccountName":"webapp01","Guid":"56d9b66c-d746-4f87-bd26-26760cfdca2e","DnsTreeName":"contoso.com","DnsName":"contoso.com","NetBiosName":"CONTOSO"},"ActiveDirectoryConfig":{"GroupManagedServiceAccounts":[{"Name":"webapp01","Scope":"contoso.com"},{"Name":"webapp01","Scope":"CONTOSO"}]}}`

func TestParseCredentialSpec(t *testing.T) {
	for text, ok := range map[string]bool{
		webApp: true, strings.Replace(webApp, `"CmsPlugins"`, `"Unknown":1,"CmsPlugins"`, 1): true,
		"{}": false, "": false, "[]": false, `"x"`: false, webApp + webApp: false, strings.TrimSuffix(webApp, "}"): false,
		strings.Replace(webApp, "ActiveDirectory", "Other", 1): false, strings.Replace(webApp, `"DnsName":"contoso.com"`, `"DnsName":1`, 1): false,
		webApp + strings.Repeat(" ", maxCredentialSpecBytes): false,
	} {
		if _, err := parseCredentialSpec(text); (err == nil) != ok {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

func FuzzCredentialSpec(f *testing.F) {
	f.Add(webApp)
	f.Add(`{"CmsPlugins":null,"DomainJoinConfig":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if spec, err := parseCredentialSpec(text); err == nil && spec.DomainJoinConfig.DnsName == "" {
			t.Error("no domain")
		}
	})
}

func TestCredentialSpec(t *testing.T) {
	l := newLab(t)
	sb := l.runSandbox(sandboxConfig("web"))
	with := func(name, spec string) *runtime.ContainerConfig {
		c := runAs(containerConfig(name, "read", "/run/mullion/domain"), `NT AUTHORITY\NETWORK SERVICE`)
		c.Windows.SecurityContext.CredentialSpec = spec
		return c
	}
	id := l.create(sb, with("bad", "{"))
	_, err := l.Runtime.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: id})
	if err == nil || !strings.Contains(err.Error(), "failed to generate container credential guard instance: hcs::ModifyServiceSettings: The virtual machine or container JSON document is invalid.") {
		t.Errorf("%v", err)
	}
	if got := l.status(id); got.Reason != "StartError" {
		t.Errorf("%v", got)
	}
	id = l.run(sb, with("good", webApp))
	if got := l.wait(id); got.ExitCode != 0 {
		t.Errorf("%v", got)
	}
	r, err := l.Runtime.ContainerStatus(t.Context(), &runtime.ContainerStatusRequest{ContainerId: id, Verbose: true})
	must(t, err)
	if !strings.Contains(r.Info["info"], "S-1-5-21-702590844-1001920913-2680819671") || !strings.Contains(r.Info["info"], `"user":"NT AUTHORITY\\NETWORK SERVICE"`) {
		t.Errorf("info %s", r.Info["info"])
	}
}
