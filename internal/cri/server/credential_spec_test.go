// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/store"
)

// webApp is the example of Microsoft's documents.
const webApp = `{"CmsPlugins":["ActiveDirectory"],` +
	`"DomainJoinConfig":{"Sid":"S-1-5-21-702590844-1001920913-2680819671","MachineAccountName":"webapp01",` +
	`"Guid":"56d9b66c-d746-4f87-bd26-26760cfdca2e","DnsTreeName":"contoso.com","DnsName":"contoso.com",` +
	`"NetBiosName":"CONTOSO"},"ActiveDirectoryConfig":{"GroupManagedServiceAccounts":[{"Name":"webapp01",` +
	`"Scope":"contoso.com"},{"Name":"webapp01","Scope":"CONTOSO"}]}}`

func TestParseCredentialSpec(t *testing.T) {
	for text, ok := range map[string]bool{
		webApp: true, " " + webApp + "\n": true, strings.Replace(webApp, `"CmsPlugins"`, `"Unknown":1,"CmsPlugins"`,
			1): true, "{}": true,
		"": false, "null": false, "[]": false, `"x"`: false, "{": false, webApp + webApp: false, webApp + "}": false,
		strings.TrimSuffix(webApp, "}"):                                      false,
		strings.Replace(webApp, `"DnsName":"contoso.com"`, `"DnsName":1`, 1): false,
		strings.Repeat("[", maxCredentialSpecBytes):                          false,
		webApp + strings.Repeat(" ", maxCredentialSpecBytes):                 false,
	} {
		if _, err := parseCredentialSpec(text); (err == nil) != ok {
			t.Errorf("%.60q: %v", text, err)
		}
	}
	if _, err := parseCredentialSpec(strings.Repeat("x", maxCredentialSpecBytes+1)); err == nil ||
		err.Error() != "the credential spec has 65537 bytes, want at most 65536" {
		t.Errorf("too large: %v", err)
	}
}

func FuzzCredentialSpec(f *testing.F) {
	for _, text := range []string{webApp, `{"CmsPlugins":null,"DomainJoinConfig":[]}`,
		`{"DomainJoinConfig":{"DnsName":"a\nb\u0000.\ud800"}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := parseCredentialSpec(text)
		if name := oneLine(spec.DomainJoinConfig.DnsName); err != nil && name != "" ||
			strings.ContainsAny(name, "\r\n\x00") {
			t.Errorf("name %q, %v", name, err)
		}
	})
}

const badSpec = "failed to create containerd task: failed to create shim task: failed to generate container " +
	"credential guard instance: hcs::ModifyServiceSettings: The virtual machine or container JSON document is invalid."

func TestCredentialSpec(t *testing.T) {
	l := newLab(t)
	sb := l.runSandbox(sandboxConfig("web"))
	with := func(name, spec string) *runtime.ContainerConfig {
		c := runAs(containerConfig(name, "read", "/"+domainFile), `NT AUTHORITY\NETWORK SERVICE`)
		c.Windows.SecurityContext.CredentialSpec = spec
		return c
	}
	for name, spec := range map[string]string{"json": "{", "object": "[]", "type": `{"CmsPlugins":"secret"}`} {
		id := l.create(sb, with(name, spec))
		_, err := l.Runtime.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: id})
		if err == nil || !strings.Contains(err.Error(), badSpec) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
		if got := l.status(id); got.Reason != "StartError" || got.ExitCode != 128 ||
			!strings.Contains(got.Message, badSpec) {
			t.Errorf("%s: %v", name, got)
		}
		_, err = l.Runtime.RemoveContainer(t.Context(), &runtime.RemoveContainerRequest{ContainerId: id})
		must(t, err)
	}
	if err := l.joinDomain(store.Container{Config: with("host", "{")}, store.Sandbox{HostProcess: true}); err != nil {
		t.Errorf("host process: %v", err)
	}
	id := l.run(sb, with("good", webApp))
	if got := l.wait(id); got.ExitCode != 0 {
		t.Errorf("%v", got)
	}
	if got, err := os.ReadFile(l.dir(id, upperDir, domainFile)); err != nil ||
		string(got) != "contoso.com\nCONTOSO\n" {
		t.Errorf("domain %q, %v", got, err)
	}
	r, err := l.Runtime.ContainerStatus(t.Context(), &runtime.ContainerStatusRequest{ContainerId: id, Verbose: true})
	must(t, err)
	var info struct {
		User   string
		Config struct {
			Windows struct {
				SecurityContext struct {
					CredentialSpec string `json:"credential_spec"`
				} `json:"security_context"`
			}
		}
	}
	must(t, json.Unmarshal([]byte(r.Info["info"]), &info))
	if info.Config.Windows.SecurityContext.CredentialSpec != webApp || info.User != `NT AUTHORITY\NETWORK SERVICE` {
		t.Errorf("info %s", r.Info["info"])
	}
}

// TestCredentialSpecOfSandbox: the kubelet hands the pod's specification to the
// sandbox too, whose pause container would get it on Windows.
func TestCredentialSpecOfSandbox(t *testing.T) {
	l := newLab(t)
	config := sandboxConfig("web")
	config.Windows = &runtime.WindowsPodSandboxConfig{SecurityContext: &runtime.WindowsSandboxSecurityContext{
		CredentialSpec: "{"}}
	if _, err := l.Runtime.RunPodSandbox(t.Context(), &runtime.RunPodSandboxRequest{Config: config}); err == nil ||
		!strings.Contains(err.Error(), badSpec) {
		t.Errorf("%v", err)
	}
	if n := len(l.store.Sandboxes.List()) + len(l.cfg.Namespaces.Namespaces()); n != 0 {
		t.Errorf("%d sandboxes and namespaces are left", n)
	}
	config.Windows.SecurityContext.CredentialSpec = webApp // under the same name
	l.runSandbox(config)
}
