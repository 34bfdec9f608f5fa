// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package admission_test holds the webhooks against a real API server: objects
// are written with kubectl, and what the user sees and what is stored is looked
// at.
package admission_test

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

const (
	build2019 = "10.0.17763"
	build2022 = "10.0.20348"
	reason    = "placement.mullion.dev/reason"
)

// addNodes makes nodes up: one for Linux, one each of Windows Server 2019 and
// 2022.
func (c *cluster) addNodes() {
	c.t.Helper()
	api := c.Admin().CoreV1().Nodes()
	for name, build := range map[string]string{"linux-1": "", "win-1": build2019, "win-2": build2022} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}}}
		info := corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64",
			ContainerRuntimeVersion: "containerd://2.0.0"}
		if build != "" {
			n.Labels["kubernetes.io/os"], n.Labels["node.kubernetes.io/windows-build"] = "windows", build
			info.OperatingSystem, info.KernelVersion = "windows", build+".1"
		}
		if _, err := api.Create(c.t.Context(), n, metav1.CreateOptions{}); err != nil {
			c.t.Fatal(err)
		}
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"nodeInfo": info}})
		if err != nil {
			c.t.Fatal(err)
		}
		if _, err := api.Patch(c.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{},
			"status"); err != nil {
			c.t.Fatal(err)
		}
	}
}

// pod returns a manifest with one container; more is spliced into its spec.
func pod(name, image string, more ...string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name +
		", namespace: default}\nspec:\n  containers: [{name: c, image: \"" + image + "\"}]\n" + strings.Join(more, "")
}

const (
	ltsc2019 = "mcr.microsoft.com/windows/servercore:ltsc2019"
	ltsc2022 = "mcr.microsoft.com/windows/servercore:ltsc2022"
	ltsc2025 = "mcr.microsoft.com/windows/servercore:ltsc2025"
	linux    = "registry.invalid/app:1"
)

func TestAdmission(t *testing.T) {
	c := startCluster(t)
	c.addNodes()
	m, _ := c.startManager(offline)
	c.ready(m)
	for _, tc := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"pods are placed", placed},
		{"workloads are not touched, their pods are", workloads},
		{"DaemonSets are placed", daemonSets},
		{"refusals", refusals},
		{"warnings", warnings},
		{"opting out", optingOut},
		{"an update is not refused for what was there", ratchet},
		{"dry run", dryRun},
		{"mirror pods", mirror},
		{"GMSA", groupAccounts},
		{"another webhook", another},
		{"a mutating admission policy", mutatingPolicy},
		{"the registration is kept", kept},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sub := *c
			sub.t = t
			tc.run(t, &sub)
		})
	}
}

func placed(t *testing.T, c *cluster) {
	for _, tc := range []struct {
		name, manifest string
		os, build      string // of the nodeSelector
		declared       string
	}{
		{"silent", pod("silent", linux), "linux", "", ""},
		{"by-image", pod("by-image", ltsc2019), "windows", build2019, "windows"},
		{"by-selector", pod("by-selector", linux, "  nodeSelector: {kubernetes.io/os: windows}\n"), "windows", "",
			"windows"},
		{"skipped", strings.Replace(pod("skipped", ltsc2019), "namespace: default",
			`namespace: default, annotations: {placement.mullion.dev/skip: "true"}`, 1), "", "", ""},
	} {
		var got corev1.Pod
		c.must(tc.manifest, &got, "create", "-f", "-", "-o", "json")
		s := got.Spec
		declared := ""
		if s.OS != nil {
			declared = string(s.OS.Name)
		}
		if s.NodeSelector["kubernetes.io/os"] != tc.os ||
			s.NodeSelector["node.kubernetes.io/windows-build"] != tc.build || declared != tc.declared {
			t.Errorf("%s: %v, os %q; want %s %s, os %q", tc.name, s.NodeSelector, declared, tc.os, tc.build,
				tc.declared)
		}
		if (got.Annotations[reason] != "") != (tc.os != "") {
			t.Errorf("%s: the reason is %q", tc.name, got.Annotations[reason])
		}
	}
}

func workloads(t *testing.T, c *cluster) {
	manifest := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: default}\nspec:\n" +
		"  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n" +
		"    spec: {containers: [{name: c, image: \"" + ltsc2022 + "\"}]}\n"
	var d appsv1.Deployment
	c.must(manifest, &d, "create", "-f", "-", "-o", "json")
	if len(d.Spec.Template.Spec.NodeSelector) > 0 || d.Spec.Template.Spec.OS != nil {
		t.Errorf("the template was changed: %+v", d.Spec.Template.Spec)
	}
	testenv.Until(t, "a pod of the Deployment is placed", func() bool {
		pods, err := c.Admin().CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		return err == nil && len(pods.Items) == 1 && pods.Items[0].Spec.NodeSelector["kubernetes.io/os"] == "windows" &&
			pods.Items[0].Annotations[reason] != ""
	})
	if out := c.must(manifest, nil, "diff", "-f", "-"); out != "" {
		t.Errorf("kubectl diff sees a drift:\n%s", out)
	}
}

func daemonSets(t *testing.T, c *cluster) {
	manifest := "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent, namespace: default}\nspec:\n" +
		"  selector: {matchLabels: {app: agent}}\n  template:\n    metadata: {labels: {app: agent}}\n" +
		"    spec: {tolerations: [{operator: Exists}], containers: [{name: c, image: \"" + linux + "\"}]}\n"
	c.must(manifest, nil, "apply", "-f", "-")
	get := func() (d appsv1.DaemonSet) {
		c.must("", &d, "get", "daemonset", "agent", "-o", "json")
		return d
	}
	d := get()
	if d.Spec.Template.Spec.NodeSelector["kubernetes.io/os"] != "linux" {
		t.Errorf("the template's selector: %v", d.Spec.Template.Spec.NodeSelector)
	}
	c.must(manifest, nil, "apply", "-f", "-")
	if again := get(); again.Generation != d.Generation {
		t.Errorf("applying the same again made generation %d of %d", again.Generation, d.Generation)
	}
	c.must(strings.ReplaceAll(manifest, linux, linux+".1"), nil, "apply", "-f", "-")
	if s := get().Spec.Template.Spec; s.NodeSelector["kubernetes.io/os"] != "linux" ||
		s.Containers[0].Image != linux+".1" {
		t.Errorf("after an update: %v %s", s.NodeSelector, s.Containers[0].Image)
	}
	testenv.Until(t, "the pod of the only Linux node is there", func() bool {
		pods, err := c.Admin().CoreV1().Pods("default").List(t.Context(),
			metav1.ListOptions{LabelSelector: "app=agent"})
		return err == nil && len(pods.Items) == 1
	})
}

func refusals(t *testing.T, c *cluster) {
	for _, tc := range []struct {
		name, manifest string
		want           []string
	}{
		{"no node has the build", pod("newer", ltsc2025), []string{
			`Error from server (Forbidden)`, `admission webhook "placement.mullion.dev" denied the request`, "WIN412",
			build2019, build2022, "fix:"}},
		{"a device", pod("device", ltsc2019, "  volumes: [{name: d, hostPath: {path: /dev/sda, type: BlockDevice}}]\n"),
			[]string{"WIN212", "spec.volumes[0]", "fix:"}},
		{"a template", "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: newer, namespace: default}\nspec:\n" +
			"  schedule: 0 0 * * *\n  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: " +
			"[{name: c, image: \"" + ltsc2025 + "\"}]}}}}\n", []string{
			"WIN412", "spec.jobTemplate.spec.template.spec.containers[0].image"}},
	} {
		out, code := c.kubectl(tc.manifest, "create", "-f", "-")
		if code == 0 {
			t.Errorf("%s: accepted: %s", tc.name, out)
		}
		for _, w := range tc.want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: %q is not in it:\n%s", tc.name, w, out)
			}
		}
	}
	// Programs find the fields in the causes.
	_, err := c.Admin().CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "newer"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: ltsc2025}}},
	}, metav1.CreateOptions{})
	status, ok := err.(apierrors.APIStatus)
	if !ok || status.Status().Code != 403 || status.Status().Details == nil ||
		len(status.Status().Details.Causes) == 0 ||
		status.Status().Details.Causes[0].Field != "spec.containers[0].image" {
		t.Errorf("for programs: %+v", err)
	}
	// What upstream's own validation says ("cannot be set for a windows pod") comes
	// later, and without the fix.
	if out, code := c.kubectl(pod("ipc", ltsc2019, "  hostIPC: true\n  os: {name: windows}\n"), "create", "-f",
		"-"); code == 0 || !strings.Contains(out, "WIN005 spec.hostIPC") {
		t.Errorf("hostIPC: %d\n%s", code, out)
	}
}

func warnings(t *testing.T, c *cluster) {
	out, code := c.kubectl(pod("warned", ltsc2019, "  terminationGracePeriodSeconds: 5\n  hostIPC: true\n"),
		"create", "-f", "-")
	if code != 0 || !strings.Contains(out, "Warning: WIN") {
		t.Errorf("%d\n%s", code, out)
	}
	t.Log(out)
}

func optingOut(t *testing.T, c *cluster) {
	c.must("apiVersion: v1\nkind: Namespace\nmetadata: {name: free, labels: {admission.mullion.dev/disabled: "+
		"\"true\"}}\n", nil, "create", "-f", "-")
	for _, ns := range []string{"free", "kube-system", "mullion-system"} {
		var got corev1.Pod
		c.must(strings.Replace(pod("free", ltsc2025), "namespace: default", "namespace: "+ns, 1), &got, "create", "-f",
			"-", "-o", "json")
		if got.Spec.NodeSelector != nil || got.Spec.OS != nil || got.Annotations[reason] != "" {
			t.Errorf("in %s: %+v", ns, got.Spec)
		}
	}
}

func ratchet(t *testing.T, c *cluster) {
	manifest := func(image, label string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: old, namespace: later}\nspec:\n" +
			"  replicas: 0\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b, l: " + label +
			"}}\n    spec: {containers: [{name: c, image: \"" + image + "\"}]}\n"
	}
	c.must("apiVersion: v1\nkind: Namespace\nmetadata: {name: later, labels: {admission.mullion.dev/disabled: "+
		"\"true\"}}\n", nil, "create", "-f", "-")
	c.must(manifest(ltsc2025, "one"), nil, "apply", "-f", "-")
	c.must("", nil, "label", "namespace", "later", "admission.mullion.dev/disabled-")
	testenv.Until(t, "the namespace is judged", func() bool {
		_, code := c.kubectl(strings.Replace(pod("newer", ltsc2025), "namespace: default", "namespace: later", 1),
			"create", "-f", "-", "--dry-run=server")
		return code != 0
	})
	if out, code := c.kubectl(manifest(ltsc2025, "two"), "apply", "-f", "-"); code != 0 ||
		!strings.Contains(out, "Warning: WIN412") {
		t.Errorf("what was there: %d\n%s", code, out)
	}
	c.must(manifest(ltsc2019, "two"), nil, "apply", "-f", "-")
	if out, code := c.kubectl(manifest(ltsc2025, "two"), "apply", "-f", "-"); code == 0 {
		t.Errorf("what is new was accepted:\n%s", out)
	}
	c.must("", nil, "delete", "deployment", "-n", "later", "old")
}

func dryRun(t *testing.T, c *cluster) {
	var got corev1.Pod
	c.must(pod("dry", ltsc2019), &got, "create", "-f", "-", "--dry-run=server", "-o", "json")
	if got.Spec.NodeSelector["kubernetes.io/os"] != "windows" {
		t.Errorf("a dry run does not show the placement: %v", got.Spec.NodeSelector)
	}
	if _, err := c.Admin().CoreV1().Pods("default").Get(t.Context(), "dry",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run left something: %v", err)
	}
}

func mirror(t *testing.T, c *cluster) {
	manifest := strings.Replace(pod("mirrored", ltsc2025, "  nodeName: win-1\n"), "namespace: default",
		"namespace: default, annotations: {kubernetes.io/config.mirror: abc}", 1)
	var got corev1.Pod
	c.must(manifest, &got, "create", "-f", "-", "-o", "json")
	if got.Spec.OS != nil || got.Spec.NodeSelector != nil || got.Annotations[reason] != "" {
		t.Errorf("changed: %+v", got.Spec)
	}
}
