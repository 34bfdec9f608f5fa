// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// gmsaYAML is the credential spec of Kubernetes' guide "Configure GMSA for
// Windows Pods and containers" (tasks/configure-pod-container/configure-gmsa),
// with a name that is one: the guide's gmsa-WebApp1 has capital letters.
const gmsaYAML = `
apiVersion: windows.k8s.io/v1
kind: GMSACredentialSpec
metadata: {name: e2e-webapp1}
credspec:
  ActiveDirectoryConfig:
    GroupManagedServiceAccounts:
    - Name: WebApp1
      Scope: CONTOSO
    - Name: WebApp1
      Scope: contoso.com
  CmsPlugins:
  - ActiveDirectory
  DomainJoinConfig:
    DnsName: contoso.com
    DnsTreeName: contoso.com
    Guid: 244818ae-87ac-4fcd-92ec-e79e5252348a
    MachineAccountName: WebApp1
    NetBiosName: CONTOSO
    Sid: S-1-5-21-2126449477-2524075714-3094792973
`

// gmsaRoleYAML is the guide's role and binding; %[1]s is the namespace.
const gmsaRoleYAML = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-webapp1-role}
rules:
- {apiGroups: [windows.k8s.io], resources: [gmsacredentialspecs], verbs: [use], resourceNames: [e2e-webapp1]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: allow-default-svc-account-read-on-gmsa-webapp1, namespace: %[1]s}
subjects: [{kind: ServiceAccount, name: default, namespace: %[1]s}]
roleRef: {kind: ClusterRole, name: e2e-webapp1-role, apiGroup: rbac.authorization.k8s.io}
`

const gmsaDeploymentYAML = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: with-creds, labels: {run: with-creds}}
spec:
  replicas: 1
  selector: {matchLabels: {run: with-creds}}
  template:
    metadata: {labels: {run: with-creds}}
    spec:
      securityContext: {windowsOptions: {gmsaCredentialSpecName: e2e-webapp1}}
      terminationGracePeriodSeconds: 1
      containers:
      - {name: iis, image: "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2019",
          imagePullPolicy: Always}
      nodeSelector: {kubernetes.io/os: windows}
`

// What nltest says in a pod.
const (
	contoso        = "contoso.com. (1)\r\nThe command completed successfully"
	noParentDomain = "Getting parent domain failed: Status = 1722 0x6ba RPC_S_SERVER_UNAVAILABLE"
	noLogonServers = "1311 0x51f ERROR_NO_LOGON_SERVERS"
)

// gmsaSetUp makes the credential spec; the test's end removes it.
func (c *shared) gmsaSetUp(t *testing.T, ns string) {
	t.Helper()
	c.apply(t, ns, gmsaYAML)
	t.Cleanup(func() {
		if _, err := c.kubectlErr(context.Background(), "delete", "--ignore-not-found",
			"gmsacredentialspec/e2e-webapp1", "clusterrole/e2e-webapp1-role"); err != nil {
			t.Errorf("remove credential spec: %v", err)
		}
	})
}

// gmsaAllow lets the default account of the namespace use it.
func (c *shared) gmsaAllow(t *testing.T, ns string) {
	t.Helper()
	c.apply(t, ns, fmt.Sprintf(gmsaRoleYAML, ns))
	eventually(t, time.Minute, "the right is known", func() error {
		_, err := c.kubectlErr(t.Context(), "auth", "can-i", "use", "gmsacredentialspecs.windows.k8s.io/e2e-webapp1",
			"-n", ns, "--as=system:serviceaccount:"+ns+":default")
		return err
	})
}

// nltest runs nltest in a container, whatever its exit code is.
func (c *shared) nltest(t *testing.T, ns, pod, container string, args ...string) string {
	t.Helper()
	out, err := c.kubectlErr(t.Context(), append([]string{"exec", "-n", ns, pod, "-c", container, "--", "nltest"},
		args...)...)
	if err != nil && !strings.Contains(err.Error(), "terminated with exit code 1") {
		t.Fatalf("nltest in %s: %v", pod, err)
	}
	return strings.TrimSpace(out)
}

// TestGMSA follows Kubernetes' guide and its Troubleshooting. There is no
// domain: the pod is one on a node that reaches no domain controller.
func TestGMSA(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	c.gmsaSetUp(t, ns)

	// Without the right there is no pod, and the ReplicaSet says why.
	c.apply(t, ns, gmsaDeploymentYAML)
	const refusal = "service account \"default\" is not authorized to `use` GMSA cred spec \"e2e-webapp1\""
	eventually(t, time.Minute, "the ReplicaSet says why", func() error {
		out, err := c.kubectlErr(t.Context(), "describe", "rs", "-n", ns)
		if err == nil && (!strings.Contains(out, "FailedCreate") || !strings.Contains(out, refusal)) {
			err = errNotYet
		}
		return err
	})
	if out := c.kubectl(t, "get", "deployment", "-n", ns, "with-creds", "-o",
		`jsonpath={.status.conditions[?(@.type=="ReplicaFailure")].message}`); !strings.Contains(out, refusal) {
		t.Errorf("the Deployment says %q", out)
	}
	if out := c.kubectl(t, "get", "pods", "-n", ns, "-o", "name"); out != "" {
		t.Errorf("there are pods: %s", out)
	}

	// With it the pod comes, without another hand.
	c.gmsaAllow(t, ns)
	c.kubectl(t, "wait", "-n", ns, "--for=condition=Available", "deployment/with-creds", "--timeout=120s")
	pod := c.kubectl(t, "get", "pods", "-n", ns, "-o", "jsonpath={.items[0].metadata.name}")
	if node := c.get(t, ns, pod, "{.spec.nodeName}"); !strings.HasPrefix(node, "win-") {
		t.Errorf("the pod is on %q", node)
	}
	var spec struct {
		DomainJoinConfig struct{ DnsName, Sid string }
	}
	contents := c.get(t, ns, pod, "{.spec.securityContext.windowsOptions.gmsaCredentialSpec}")
	if err := json.Unmarshal([]byte(contents), &spec); err != nil || spec.DomainJoinConfig.DnsName != "contoso.com" ||
		spec.DomainJoinConfig.Sid != "S-1-5-21-2126449477-2524075714-3094792973" {
		t.Errorf("contents %q, %v", contents, err)
	}

	// Troubleshooting: the pod got the credential spec, and reaches no domain
	// controller. Who runs the program is the same as ever.
	for args, want := range map[string]string{
		"/parentdomain": contoso,
		"/query": "Flags: 0\r\nConnection Status = " + noLogonServers +
			"\r\nThe command completed successfully",
		"/sc_verify:contoso.com": "Flags: 80\r\nTrusted DC Name \r\nTrusted DC Connection Status Status = " +
			noLogonServers + "\r\nTrust Verification Status = " + noLogonServers +
			"\r\nThe command completed successfully",
		"/sc_reset:contoso.com": "Flags: 0\r\nTrusted DC Name \r\nTrusted DC Connection Status Status = " +
			noLogonServers + "\r\nThe command completed successfully",
		"/sc_verify:fabrikam.com": "I_NetLogonControl failed: Status = 1355 0x54b ERROR_NO_SUCH_DOMAIN",
	} {
		if got := c.nltest(t, ns, pod, "iis", args); got != want {
			t.Errorf("nltest %s: %q, want %q", args, got, want)
		}
	}
	if out := c.exec(t, ns, pod, "whoami"); out != `user manager\containeradministrator` {
		t.Errorf("whoami: %q", out)
	}
	if out, err := c.execErr(t.Context(), ns, pod, "whoami", "/upn"); err == nil ||
		!strings.Contains(err.Error(), "Unable to get User Principal Name (UPN)") {
		t.Errorf("whoami /upn: %q, %v", out, err)
	}

	// One container has it, the other not; the account matters to neither.
	const core = "mcr.microsoft.com/windows/servercore:ltsc2019"
	c.pod(t, ns, "one", onNode+`
  terminationGracePeriodSeconds: 1
  containers:
  - {name: with, image: "`+core+`", command: [ping, -t, localhost],
      securityContext: {windowsOptions: {gmsaCredentialSpecName: e2e-webapp1,
        runAsUserName: 'NT AUTHORITY\NETWORK SERVICE'}}}
  - {name: without, image: "`+core+`", command: [ping, -t, localhost]}`)
	c.ready(t, ns, "one")
	if got := c.nltest(t, ns, "one", "with", "/parentdomain"); got != contoso {
		t.Errorf("the container with it: %q", got)
	}
	if got := c.nltest(t, ns, "one", "without", "/parentdomain"); got != noParentDomain {
		t.Errorf("the container without it: %q", got)
	}
	if got, want := c.nltest(t, ns, "one", "without", "/query"),
		"I_NetLogonControl failed: Status = 1722 0x6ba RPC_S_SERVER_UNAVAILABLE"; got != want {
		t.Errorf("the container without it: %q, want %q", got, want)
	}
	if got := c.get(t, ns, "one",
		"{.spec.containers[0].securityContext.windowsOptions.gmsaCredentialSpec}"); got != contents {
		t.Errorf("contents of the container %q, of the pod %q", got, contents)
	}
}

// TestGMSAOfKubelet is Kubernetes' own test that the kubelet hands credential
// specs to the runtime (test/e2e/windows/gmsa_kubelet.go). It inlines contents
// without a name, which needs a namespace without the webhooks.
func TestGMSAOfKubelet(t *testing.T) {
	c := alone(t)
	ns := c.namespace(t)
	c.kubectl(t, "label", "namespace", ns, "admission.mullion.dev/disabled=true")
	inline := func(domain string) string {
		short, _, _ := strings.Cut(domain, ".")
		short = strings.ToUpper(short)
		return fmt.Sprintf(`'{"ActiveDirectoryConfig":{"GroupManagedServiceAccounts":[{"Name":"WebApplication",`+
			`"Scope":"%[2]s"},{"Name":"WebApplication","Scope":"%[1]s"}]},`+
			`"CmsPlugins":["ActiveDirectory"],"DomainJoinConfig":{"DnsName":"%[1]s","DnsTreeName":"%[1]s",`+
			`"Guid":"244818ae-87ca-4fcd-92ec-e79e5252348a",`+
			`"MachineAccountName":"WebApplication","NetBiosName":"%[2]s",`+
			`"Sid":"S-1-5-21-2126729477-2524175714-3194792973"}}'`, domain, short)
	}
	const core = "mcr.microsoft.com/windows/servercore:ltsc2019"
	c.pod(t, ns, "with-correct-gmsa-specs", onNode+`
  terminationGracePeriodSeconds: 1
  securityContext: {windowsOptions: {gmsaCredentialSpec: `+inline("acme.com")+`}}
  containers:
  - {name: container1, image: "`+core+`", command: [powershell.exe, -Command, "sleep -Seconds 600"]}
  - {name: container2, image: "`+core+`", command: [powershell.exe, -Command, "sleep -Seconds 600"],
     securityContext: {windowsOptions: {gmsaCredentialSpec: `+inline("contoso.org")+`}}}`)
	c.ready(t, ns, "with-correct-gmsa-specs")
	for container, domain := range map[string]string{"container1": "acme.com", "container2": "contoso.org"} {
		if out := c.nltest(t, ns, "with-correct-gmsa-specs", container, "/PARENTDOMAIN"); !strings.HasPrefix(out,
			domain) || !strings.Contains(out, "The command completed successfully") {
			t.Errorf("%s: %q", container, out)
		}
	}

	// An invalid credential spec of a pod makes its sandbox fail, one of a
	// container makes its start fail. Both pods can be deleted and leave nothing.
	const invalid = "failed to generate container credential guard instance: hcs::ModifyServiceSettings: The virtual " +
		"machine or container JSON document is invalid."
	c.pod(t, ns, "bad-pod", onNode+`
  terminationGracePeriodSeconds: 1
  securityContext: {windowsOptions: {gmsaCredentialSpec: "no JSON"}}
  containers: [{name: main, image: "`+core+`", command: [cmd, /c, ver]}]`)
	c.pod(t, ns, "bad-container", onNode+`
  restartPolicy: Never
  containers: [{name: main, image: "`+core+`", command: [cmd, /c, ver],
    securityContext: {windowsOptions: {gmsaCredentialSpec: "[]"}}}]`)
	c.event(t, ns, "bad-pod", invalid)
	c.until(t, ns, "bad-container", "{.status.containerStatuses[0].state.terminated.reason}", "StartError")
	if msg := c.get(t, ns, "bad-container",
		"{.status.containerStatuses[0].state.terminated.message}"); !strings.Contains(msg, invalid) {
		t.Errorf("message %q", msg)
	}
	c.kubectl(t, "delete", "pod", "-n", ns, "bad-pod", "bad-container", "--timeout=180s")
}

// TestGMSABadInput checks that no container gets a credential spec that the user
// preset, or one that is too large.
func TestGMSABadInput(t *testing.T) {
	c := alone(t)
	ns := c.namespace(t)
	c.gmsaSetUp(t, ns)
	c.gmsaAllow(t, ns)
	// The API server says it too, later.
	const wrongSize = "WIN102 spec.securityContext.windowsOptions.gmsaCredentialSpec: gmsaCredentialSpec"
	const differs = `the GMSA cred spec contents for pod "p" does not match the contents of GMSA resource "e2e-webapp1"`
	good := c.kubectl(t, "get", "gmsacredentialspec", "e2e-webapp1", "-o", "jsonpath={.credspec}")
	create := func(credspec, options string) (string, error) {
		manifest := "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeSelector: {kubernetes.io/os: " +
			"windows}, securityContext: {windowsOptions: {gmsaCredentialSpecName: " +
			credspec + options + "}}, containers: [{name: c, image: 'mcr.microsoft.com/windows/servercore:ltsc2019'}]}}"
		return c.try(t.Context(), manifest, "kubectl", "--name", c.name, "--data-dir", c.dir, "create", "-n",
			ns, "-f", "-")
	}
	for what, tt := range map[string]struct{ contents, want string }{
		"no JSON":       {"no JSON", differs + ": they are not JSON"},
		"no object":     {"[]", differs},
		"another":       {"{}", differs},
		"two":           {good + good, differs + ": they are not JSON"},
		"one key twice": {`{"DomainJoinConfig":{"DnsName":"other.example"},` + strings.TrimPrefix(good, "{"), differs},
		"empty":         {"", wrongSize + " has 0 bytes"},
		"huge":          {good + strings.Repeat(" ", 64<<10), wrongSize},
	} {
		quoted, err := json.Marshal(tt.contents)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := create("e2e-webapp1", ", gmsaCredentialSpec: "+string(quoted)); err == nil ||
			!strings.Contains(out, tt.want) {
			t.Errorf("%s: %v, %.400s, want %s", what, err, out, tt.want)
		}
	}
	for credspec, want := range map[string]string{
		"e2e-none":     "cred spec e2e-none does not exist",
		"gmsa-WebApp1": "a lowercase RFC 1123 subdomain must consist of",
	} {
		if out, err := create(credspec, ""); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, %s, want %s", credspec, err, out, want)
		}
	}
	// The API has its limit for pods, but none for credential specs.
	c.apply(t, ns, strings.NewReplacer("e2e-webapp1", "e2e-huge", "Sid: S-", "Sid: "+strings.Repeat("S", 64<<10)+
		"-").Replace(gmsaYAML+"---"+
		fmt.Sprintf(strings.NewReplacer("e2e-webapp1-role", "e2e-huge-role", "allow-default",
			"allow-huge").Replace(gmsaRoleYAML), ns)))
	t.Cleanup(func() {
		if _, err := c.kubectlErr(context.Background(), "delete", "--ignore-not-found", "gmsacredentialspec/e2e-huge",
			"clusterrole/e2e-huge-role"); err != nil {
			t.Errorf("remove credential spec: %v", err)
		}
	})
	if out, err := create("e2e-huge", ""); err == nil || !strings.Contains(out, wrongSize) {
		t.Errorf("huge credential spec: %v, %.400s", err, out)
	}
	if out := c.kubectl(t, "get", "pods", "-n", ns, "-o", "name"); out != "" {
		t.Errorf("there are pods: %s", out)
	}
}

// TestGMSARestart kills what a pod with a GMSA lives on. What it was admitted
// with it keeps, even if the credential spec and the right have gone since
// (KEP-689, "any pod update").
func TestGMSARestart(t *testing.T) {
	c := alone(t)
	ns := c.namespace(t)
	c.gmsaSetUp(t, ns)
	c.gmsaAllow(t, ns)
	c.pod(t, ns, "kept", onNode+`
  terminationGracePeriodSeconds: 1
  securityContext: {windowsOptions: {gmsaCredentialSpecName: e2e-webapp1}}
  containers: [{name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019", command: [ping, -t, localhost]}]`)
	c.ready(t, ns, "kept")
	container := func() string { return c.get(t, ns, "kept", "{.status.containerStatuses[0].containerID}") }
	first, contents := container(), c.get(t, ns, "kept", "{.spec.securityContext.windowsOptions.gmsaCredentialSpec}")
	c.kubectl(t, "delete", "gmsacredentialspec/e2e-webapp1", "clusterrole/e2e-webapp1-role")
	for _, tc := range []struct {
		name, argv string
		lives      bool // the container lives on
	}{
		{"kubelet.exe", "kubelet.exe", true},
		{"CRI server", "winhost serve", true},
		{"the whole host", "winhost --config", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			victims := c.kill(t, tc.argv, "win-1", true)
			eventually(t, 90*time.Second, "the pod knows its domain again", func() error {
				if _, err := c.try(t.Context(), "", "status", "--name", c.name, "--data-dir", c.dir); err != nil {
					return err
				}
				if now := c.processes(t, tc.argv, "win-1", true); len(now) == 0 || slices.Equal(now, victims) {
					return fmt.Errorf("%s is not back", tc.argv)
				}
				out, err := c.execErr(t.Context(), ns, "kept", "nltest", "/parentdomain")
				if err == nil && out != contoso {
					err = fmt.Errorf("nltest printed %q", out)
				}
				return err
			})
			if tc.lives && container() != first {
				t.Error("it is another container; the first must live on")
			}
		})
	}
	if now := c.get(t, ns, "kept", "{.spec.securityContext.windowsOptions.gmsaCredentialSpec}"); now != contents {
		t.Errorf("contents %q, before %q", now, contents)
	}
}
