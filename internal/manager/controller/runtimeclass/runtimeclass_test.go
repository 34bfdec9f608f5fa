// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package runtimeclass

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// node is a Windows node of a build, with taints as kubectl writes them.
func node(name, build string, taints ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: build}}}
	for _, t := range taints {
		kv, effect, _ := strings.Cut(t, ":")
		key, value, _ := strings.Cut(kv, "=")
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return n
}

func linux(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
}

func TestNames(t *testing.T) {
	want := []string{"windows-2016", "windows-1709", "windows-1803", "windows-2019", "windows-1903", "windows-1909",
		"windows-2004", "windows-20h2", "windows-2022", "windows-23h2", "windows-2025"}
	if got := classNames(); !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
}

func TestDesired(t *testing.T) {
	nodes := []*corev1.Node{
		linux("lin-1"),
		node("win-2025-a", "10.0.26100", "os=windows:NoSchedule", "node.kubernetes.io/unschedulable=:NoSchedule"),
		node("win-2019-a", "10.0.17763", "os=Windows:NoSchedule", "team=a:NoSchedule", "windows=true:NoExecute"),
		node("win-2019-b", "10.0.17763", "windows=true:NoExecute", "team=a:NoSchedule", "os=Windows:NoSchedule",
			"os=windows:PreferNoSchedule"),
		node("win-2022-a", "10.0.20348", "node.kubernetes.io/os=windows:NoSchedule"),
		node("win-2022-b", "10.0.20348"),
		node("win-1709", "10.0.16299"),
		node("win-new", "10.0.99999"), node("win-bad", "ten"), node("win-none", ""),
	}
	render := func(nodes []*corev1.Node) []byte {
		var out bytes.Buffer
		for _, c := range desired(nodes) {
			data, err := yaml.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "---\n%s", data)
		}
		return out.Bytes()
	}
	got := render(nodes)
	testenv.Golden(t, "desired.yaml", got)
	slices.Reverse(nodes)
	if !bytes.Equal(render(nodes), got) {
		t.Error("the order of the nodes matters")
	}
	if len(desired(nil)) != 0 {
		t.Error("without nodes there are classes")
	}
}

func TestPatch(t *testing.T) {
	b, err := winver.Parse("2019")
	if err != nil {
		t.Fatal(err)
	}
	desired := class(b, []*corev1.Node{node("n", "10.0.17763", "os=windows:NoSchedule")})
	for name, tt := range map[string]struct {
		change func(*nodev1.RuntimeClass)
		want   string
	}{
		"equal":               {func(*nodev1.RuntimeClass) {}, ""},
		"annotated by others": {func(c *nodev1.RuntimeClass) { c.Annotations = map[string]string{"a": "b"} }, ""},
		"overhead by others":  {func(c *nodev1.RuntimeClass) { c.Overhead = &nodev1.Overhead{} }, ""},
		"no scheduling":       {func(c *nodev1.RuntimeClass) { c.Scheduling = nil }, "whole"},
		"other tolerations":   {func(c *nodev1.RuntimeClass) { c.Scheduling.Tolerations = nil }, "whole"},
		"one more label":      {func(c *nodev1.RuntimeClass) { c.Scheduling.NodeSelector["a"] = "b" }, "whole"},
		"other build": {func(c *nodev1.RuntimeClass) {
			c.Scheduling.NodeSelector[corev1.LabelWindowsBuild] = "10.0.1"
		}, "whole"},
		"empty and no toleration": {func(c *nodev1.RuntimeClass) {
			c.Scheduling.Tolerations = []corev1.Toleration{}
		}, "whole"},
	} {
		current := desired.DeepCopy()
		tt.change(current)
		got, err := patch(current, desired)
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if tt.want != "" {
			want = `[{"op":"test","path":"/metadata/labels/app.kubernetes.io~1managed-by","value":"mullion"},` +
				`{"op":"add","path":"/scheduling","value":{"nodeSelector":{"kubernetes.io/os":"windows",` +
				`"node.kubernetes.io/windows-build":"10.0.17763"},"tolerations":[{"key":"os","operator":"Equal",` +
				`"value":"windows","effect":"NoSchedule"}]}}]`
		}
		if string(got) != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
