// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package admission_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

const credentialSpec = `apiVersion: windows.k8s.io/v1
kind: GMSACredentialSpec
metadata: {name: web}
credspec:
  CmsPlugins: [ActiveDirectory]
  DomainJoinConfig: {DnsName: example.com, DnsTreeName: example.com, Guid: 244818ae-87ac-4fcd-92ec-e79e5252348a,
    MachineAccountName: web, NetBiosName: EXAMPLE, Sid: S-1-5-21-2126449477-2524175714-3194792973}
  ActiveDirectoryConfig: {GroupManagedServiceAccounts: [{Name: web, Scope: example.com}, {Name: web, Scope: EXAMPLE}]}
`

const mayUse = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: use-web}
rules: [{apiGroups: [windows.k8s.io], resources: [gmsacredentialspecs], verbs: [use], resourceNames: [web]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: use-web, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: use-web}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
`

// groupAccounts goes through what upstream's integration tests do, and through
// the containers that upstream's webhook overlooks.
func groupAccounts(t *testing.T, c *cluster) {
	c.must(credentialSpec, nil, "create", "-f", "-")
	onPod := func(name, options string) string {
		return pod(name, ltsc2019, "  securityContext: {windowsOptions: {"+options+"}}\n")
	}
	on := func(list, name, options string) string {
		return pod(name, ltsc2019, "  "+list+": [{name: i, image: \""+ltsc2019+
			"\", securityContext: {windowsOptions: {"+options+"}}}]\n")
	}
	refused := func(name, manifest string, want ...string) {
		t.Helper()
		out, code := c.kubectl(manifest, "create", "-f", "-")
		if code == 0 {
			t.Errorf("%s: accepted", name)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: %q is not in it:\n%s", name, w, out)
			}
		}
	}
	refused("none", onPod("none", "gmsaCredentialSpecName: none"), "denied the request: cred spec none does not exist")
	for name, manifest := range map[string]string{
		"pod":            onPod("g", "gmsaCredentialSpecName: web"),
		"init container": on("initContainers", "g", "gmsaCredentialSpecName: web"),
	} {
		refused("no right, "+name, manifest,
			"service account \"default\" is not authorized to `use` GMSA cred spec \"web\"")
	}
	// Two webhooks refuse it; who is first is heard.
	refused("no name", onPod("g", `gmsaCredentialSpec: "{}"`), "denied the request")

	c.must(mayUse, nil, "create", "-f", "-")
	testenv.Until(t, "the right is known", func() bool {
		_, code := c.kubectl(onPod("g", "gmsaCredentialSpecName: web"), "create", "-f", "-", "--dry-run=server")
		return code == 0
	})
	var got corev1.Pod
	c.must(onPod("g-pod", "gmsaCredentialSpecName: web"), &got, "create", "-f", "-", "-o", "json")
	contents := got.Spec.SecurityContext.WindowsOptions.GMSACredentialSpec
	if contents == nil || !strings.Contains(*contents, `"Sid":"S-1-5-21-2126449477-2524175714-3194792973"`) {
		t.Errorf("the pod's contents: %v", contents)
	}
	c.must(on("initContainers", "g-init", "gmsaCredentialSpecName: web"), &got, "create", "-f", "-", "-o", "json")
	if o := got.Spec.InitContainers[0].SecurityContext.WindowsOptions; o.GMSACredentialSpec == nil {
		t.Error("the init container's contents were not filled in")
	}
	refused("other contents",
		on("initContainers", "g", `gmsaCredentialSpecName: web, gmsaCredentialSpec: "{\"secret\": \"hunter2\"}"`),
		`the GMSA cred spec contents for container "i" does not match the contents of GMSA resource "web"`)

	// Ephemeral containers come later, through a subresource.
	api := c.Admin().CoreV1().Pods("default")
	_, err := api.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "debugged"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: ltsc2019}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	add := func(name string, o corev1.WindowsSecurityContextOptions) (*corev1.Pod, error) {
		var out *corev1.Pod
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // controllers write to it too
			p, err := api.Get(t.Context(), "debugged", metav1.GetOptions{})
			if err != nil {
				return err
			}
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers,
				corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
					Name:                     name,
					Image:                    ltsc2019,
					TerminationMessagePolicy: corev1.TerminationMessageReadFile,
					ImagePullPolicy:          corev1.PullAlways,
					SecurityContext:          &corev1.SecurityContext{WindowsOptions: &o},
				}})
			out, err = api.UpdateEphemeralContainers(t.Context(), p.Name, p, metav1.UpdateOptions{})
			return err
		})
		return out, err
	}
	name, other := "web", "{}"
	if _, err := add("bad", corev1.WindowsSecurityContextOptions{GMSACredentialSpecName: &name,
		GMSACredentialSpec: &other}); err == nil || !strings.Contains(err.Error(), "does not match") {
		t.Errorf("an ephemeral container with other contents: %v", err)
	}
	after, err := add("good", corev1.WindowsSecurityContextOptions{GMSACredentialSpecName: &name})
	if err != nil {
		t.Errorf("an ephemeral container: %v", err)
	} else if o := after.Spec.EphemeralContainers[0].SecurityContext.WindowsOptions; o.GMSACredentialSpec == nil {
		t.Error("the ephemeral container's contents were not filled in")
	}
	// A label of a pod with a GMSA may change.
	c.must("", nil, "label", "pod", "g-pod", "x=y")
}
