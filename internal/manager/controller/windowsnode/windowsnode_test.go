// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package windowsnode

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// node is a node as its kubelet registers it; taints as kubectl writes them.
func node(name, kernel string, labels map[string]string, taints ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7",
		Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
	maps.Copy(n.Labels, labels)
	n.Status.NodeInfo = corev1.NodeSystemInfo{OperatingSystem: "windows", KernelVersion: kernel}
	for _, t := range taints {
		p, err := policy.ParseTaint(t)
		if err != nil {
			panic(err)
		}
		n.Spec.Taints = append(n.Spec.Taints,
			corev1.Taint{Key: p.Key, Value: p.Value, Effect: corev1.TaintEffect(p.Effect)})
	}
	return n
}

func recorded(n *corev1.Node, taint string) *corev1.Node {
	n.Annotations = map[string]string{TaintAnnotation: taint}
	return n
}

func taint(s string) policy.Taint {
	if s == "" {
		return policy.Taint{}
	}
	t, err := policy.ParseTaint(s)
	if err != nil {
		panic(err)
	}
	return t
}

func TestPatch(t *testing.T) {
	const os = "os=windows:NoSchedule"
	labelled := map[string]string{corev1.LabelWindowsBuild: "10.0.17763"}
	tainted := `"spec":{"taints":[{"key":"os","value":"windows","effect":"NoSchedule"}]}`
	record := `"annotations":{"placement.mullion.dev/taint":"os=windows:NoSchedule"}`
	lin := node("l", "6.1.0", nil)
	lin.Labels[corev1.LabelOSStable], lin.Status.NodeInfo.OperatingSystem = "linux", "linux"
	bare := node("w", "10.0.20348.1", nil)
	bare.Labels = nil
	for _, tt := range []struct {
		name   string
		node   *corev1.Node
		policy string
		want   string // without the resourceVersion; "" for no patch
		note   string
	}{
		{"label missing", node("w", "10.0.17763.7919", nil), "",
			`{"metadata":{"labels":{"node.kubernetes.io/windows-build":"10.0.17763"}}}`, ""},
		{"no labels at all", bare, "", `{"metadata":{"labels":{"node.kubernetes.io/windows-build":"10.0.20348"}}}`, ""},
		{"a build that is not known", node("w", "10.0.99999.1", nil), "",
			`{"metadata":{"labels":{"node.kubernetes.io/windows-build":"10.0.99999"}}}`, ""},
		{"label there", node("w", "10.0.17763.7919", labelled), "", "", ""},
		{"label of another build", node("w", "10.0.20348.1", labelled), "", "", ""},
		{"status not yet there", node("w", "", nil), "", "", ""},
		{"not a version", node("w", "Windows", nil), "", "", ""},
		{"Linux", lin, os, "", ""},

		{"taint", node("w", "", nil), os, `{"metadata":{` + record + `},` + tainted + `}`, ""},
		{"taint and label", node("w", "10.0.17763.1", nil), os,
			`{"metadata":{"labels":{"node.kubernetes.io/windows-build":"10.0.17763"},` + record + `},` + tainted + `}`,
			""},
		{"beside another", node("w", "", nil, "a=b:NoExecute"), os, `{"metadata":{` + record +
			`},"spec":{"taints":[{"key":"a","value":"b","effect":"NoExecute"},{"key":"os","value":"windows",` +
			`"effect":"NoSchedule"}]}}`, ""},
		{"there by the kubelet's flag", node("w", "", nil, os), os, "", ""},
		{"there by us", recorded(node("w", "", nil, os), os), os, "", ""},
		{"removed by a user", recorded(node("w", "", nil), os), os, `{"metadata":{},` + tainted + `}`, ""},
		{"policy off", recorded(node("w", "", nil, os), os), "",
			`{"metadata":{"annotations":{"placement.mullion.dev/taint":null}},"spec":{"taints":null}}`, ""},
		{"policy off, others stay", recorded(node("w", "", nil, "a=b:NoExecute", os), os), "",
			`{"metadata":{"annotations":{"placement.mullion.dev/taint":null}},"spec":{"taints":[{"key":"a",` +
				`"value":"b","effect":"NoExecute"}]}}`, ""},
		{"policy off, gone already", recorded(node("w", "", nil), os), "",
			`{"metadata":{"annotations":{"placement.mullion.dev/taint":null}}}`, ""},
		{"policy off, not ours", node("w", "", nil, os), "", "", ""},
		{"policy changed", recorded(node("w", "", nil, "sku=windows:NoSchedule"), "sku=windows:NoSchedule"), os,
			`{"metadata":{` + record + `},` + tainted + `}`, ""},
		{"value changed", recorded(node("w", "", nil, "os=Windows:NoSchedule"), "os=Windows:NoSchedule"), os,
			`{"metadata":{` + record + `},` + tainted + `}`, ""},
		{"policy changed to a user's", recorded(node("w", "", nil, os, "sku=windows:NoSchedule"),
			"sku=windows:NoSchedule"), os, `{"metadata":{"annotations":{"placement.mullion.dev/taint":null}},` +
			tainted + `}`, ""},
		{"another value by a user",
			node("w", "", nil, "os=Windows:NoSchedule"), os, "",
			"the node carries os=Windows:NoSchedule, which is not ours; the taint os=windows:NoSchedule cannot stand " +
				"beside it"},
		{"same key, other effect", node("w", "", nil, "os=windows:NoExecute"), os, `{"metadata":{` + record +
			`},"spec":{"taints":[{"key":"os","value":"windows","effect":"NoExecute"},{"key":"os","value":"windows",` +
			`"effect":"NoSchedule"}]}}`, ""},
		{"an annotation that is no taint", recorded(node("w", "", nil, os), "x"), os,
			`{"metadata":{"annotations":{"placement.mullion.dev/taint":null}}}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.node.DeepCopy()
			got, note, err := Patch(tt.node, taint(tt.policy))
			if err != nil {
				t.Fatal(err)
			}
			rv := `"resourceVersion":"7"`
			if text := strings.Replace(strings.Replace(string(got), rv+",", "", 1), rv, "", 1); text != tt.want ||
				note != tt.note {
				t.Errorf("patch %s\nwant  %s\nnote %q, want %q", text, tt.want, note, tt.note)
			}
			if got != nil && !strings.Contains(string(got), rv) {
				t.Error("the patch does not say of which version it is")
			}
			a, _ := json.Marshal(before)
			if b, _ := json.Marshal(tt.node); string(a) != string(b) {
				t.Error("the node was changed")
			}
		})
	}
}

// run calls f in a bubble where a controller with a policy runs.
func run(t *testing.T, client *fake.Clientset, want string, f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- New(client, Config{Log: slog.New(slog.DiscardHandler), Taint: taint(want),
			Informers: informers.NewSharedInformerFactory(client, 0)}).Run(ctx)
	}()
	settle()
	f()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// state is the part of a node that matters: label, taints, annotation.
func state(t *testing.T, client *fake.Clientset, name string) string {
	t.Helper()
	n, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var taints []string
	for _, x := range n.Spec.Taints {
		taints = append(taints, toPolicy(x).String())
	}
	return strings.Join([]string{n.Labels[corev1.LabelWindowsBuild], strings.Join(taints, ","),
		n.Annotations[TaintAnnotation]}, " ")
}

func patches(client *fake.Clientset) int {
	n := 0
	for _, a := range client.Actions() {
		if a.GetVerb() == "patch" {
			n++
		}
	}
	client.ClearActions()
	return n
}

func TestPolicyOnAndOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(node("a", "10.0.17763.1", nil),
			node("b", "10.0.20348.1", nil, "os=windows:NoSchedule"))
		run(t, client, "os=windows:NoSchedule", func() {
			if s := state(t, client, "a"); s != "10.0.17763 os=windows:NoSchedule os=windows:NoSchedule" {
				t.Errorf("a: %s", s)
			}
			if s := state(t, client, "b"); s != "10.0.20348 os=windows:NoSchedule " {
				t.Errorf("b: %s", s)
			}
			if n := patches(client); n != 2 {
				t.Errorf("%d patches", n)
			}
			late := node("c", "", nil)
			if _, err := client.CoreV1().Nodes().Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			settle()
			late.Status.NodeInfo.KernelVersion = "10.0.26100.1"
			late.Spec.Taints = nil // a user's removal
			if _, err := client.CoreV1().Nodes().Update(t.Context(), late, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			settle()
			if s := state(t, client, "c"); s != "10.0.26100 os=windows:NoSchedule os=windows:NoSchedule" {
				t.Errorf("c: %s", s)
			}
			if n := patches(client); n != 2 {
				t.Errorf("%d patches of c", n)
			}
		})
		run(t, client, "os=windows:NoSchedule", func() {
			if n := patches(client); n != 0 {
				t.Errorf("%d patches after a restart", n)
			}
		})
		run(t, client, "", func() {
			for name, want := range map[string]string{"a": "10.0.17763  ", "b": "10.0.20348 os=windows:NoSchedule ",
				"c": "10.0.26100  "} {
				if s := state(t, client, name); s != want {
					t.Errorf("%s without a policy: %q", name, s)
				}
			}
		})
	})
}

func TestConflictsAndDeletedNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(node("a", "10.0.17763.1", nil))
		left := 3
		client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			left--
			if left == 0 { // deleted just now
				return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "a")
			}
			return left > 0, nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "a", nil)
		})
		run(t, client, "os=windows:NoSchedule", func() {
			if n := patches(client); n != 3 {
				t.Errorf("%d patches", n)
			}
			if _, err := client.CoreV1().Nodes().Update(t.Context(), node("a", "10.0.17763.2", nil),
				metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			settle()
			if s := state(t, client, "a"); s != "10.0.17763 os=windows:NoSchedule os=windows:NoSchedule" {
				t.Errorf("a: %s", s)
			}
		})
	})
}
