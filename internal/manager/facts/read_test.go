// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package facts

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

func TestReadOnce(t *testing.T) {
	client := newClient(
		windowsNode("w1", "10.0.20348.1", "docker.io/library/app:latest", "registry.example.com/x:1"), linuxNode("l1"),
		&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Handler: "runhcs-wcow-process"},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}},
	)
	if err := RecordLoaded(t.Context(), client, "", []Loaded{{Reference: "acme/mine", OS: "windows"}}); err != nil {
		t.Fatal(err)
	}
	f, notes, err := Read(t.Context(), client)
	if err != nil || len(notes) > 0 {
		t.Fatalf("notes %q, error %v", notes, err)
	}
	if f.Kubernetes != 36 || len(f.Nodes) != 2 || f.RuntimeClasses["c"].Handler == "" ||
		f.Namespaces["n"].Labels["a"] != "b" || f.SomeClasses {
		t.Errorf("%+v", f)
	}
	w := []string{"windows"}
	want := map[string][]string{"docker.io/library/app:latest": w, "library/app:latest": w, "app:latest": w,
		"docker.io/library/app": w, "library/app": w, "app": w, "registry.example.com/x:1": w}
	if d := cmp.Diff(want, f.PresentImages); d != "" {
		t.Errorf("images of nodes (-want +got):\n%s", d)
	}
	if _, ok := f.Images["acme/mine"]; !ok {
		t.Errorf("loaded images %v", f.Images)
	}
}

func TestReadOnceForbidden(t *testing.T) {
	client := newClient(windowsNode("w1", "10.0.20348.1"))
	forbid(client, "nodes", "runtimeclasses")
	f, notes, err := Read(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if f.Nodes != nil || f.RuntimeClasses != nil || len(notes) != 2 ||
		!strings.HasPrefix(notes[0], "nodes are not known: nodes is forbidden") {
		t.Errorf("%+v, %q", f, notes)
	}
}

func TestReadOnceNoAnswer(t *testing.T) {
	client := newClient()
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	if _, _, err := Read(t.Context(), client); err == nil || err.Error() != "read nodes: connection refused" {
		t.Errorf("error %v", err)
	}
}

// TestPages: large clusters are read in pieces, as of one moment.
func TestPages(t *testing.T) {
	var asked []string
	err := pages(func(o metav1.ListOptions) (string, error) {
		asked = append(asked, o.Continue)
		return map[string]string{"": "a", "a": "b", "b": ""}[o.Continue], nil
	})
	if d := cmp.Diff([]string{"", "a", "b"}, asked); d != "" || err != nil {
		t.Error(d, err)
	}
}

func TestDescribeNode(t *testing.T) {
	n := windowsNode("w", "10.0.22621.1")
	n.Labels[corev1.LabelWindowsBuild] = "10.0.26100"
	n.Labels["eks.amazonaws.com/nodegroup"] = "g"
	n.Status.RuntimeHandlers = []corev1.NodeRuntimeHandler{{Name: ""}, {Name: "runhcs-wcow-process"}}
	if got := describeNode(n); got.Build.Number != 26100 || len(got.Handlers) != 2 {
		t.Errorf("%+v", got)
	}
	if nodePlatform(n) != "eks" || nodePlatform(windowsNode("w", "")) != "" {
		t.Error("whose cluster it is")
	}
	delete(n.Labels, corev1.LabelWindowsBuild)
	if got := describeNode(n).Build; got.Number != 22621 || got.String() != "Windows 10.0.22621" {
		t.Errorf("a build that is not known here: %v", got)
	}
	n.Status.NodeInfo.KernelVersion = "rubbish"
	delete(n.Labels, corev1.LabelOSStable)
	if got := describeNode(n); got.Build.Number != 0 || got.OS != "windows" {
		t.Errorf("%+v", got)
	}
}
