// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package facts

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	name "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	discoveryfake "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/registry/lookup"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// newClient is an API server of version 1.36 with some objects.
func newClient(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	client.Discovery().(*discoveryfake.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: "v1.36.3"}
	return client
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// start runs a Source until the test ends, and waits until it knows everything.
func start(t testing.TB, client *fake.Clientset, cfg Config) *Source {
	t.Helper()
	cfg.Log = discard()
	s := New(client, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	testenv.Until(t, "the source to know everything", s.Synced)
	return s
}

func windowsNode(name, kernel string, images ...string) *corev1.Node {
	n := linuxNode(name, images...)
	n.Labels = map[string]string{corev1.LabelOSStable: "windows"}
	n.Spec.Taints = []corev1.Taint{{Key: "os", Value: "windows", Effect: corev1.TaintEffectNoSchedule}}
	n.Status.NodeInfo = corev1.NodeSystemInfo{OperatingSystem: "windows", KernelVersion: kernel,
		ContainerRuntimeVersion: "containerd://1.7.13"}
	return n
}

func linuxNode(name string, images ...string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux", ContainerRuntimeVersion: "containerd://2.1.0"},
			Images:   []corev1.ContainerImage{{Names: images}},
		},
	}
}

func pod(namespace string, images ...string) map[string]any {
	var containers []any
	for i, image := range images {
		containers = append(containers, map[string]any{"name": fmt.Sprintf("c%d", i), "image": image})
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "p", "namespace": namespace},
		"spec":     map[string]any{"containers": containers},
	}
}

func build(t testing.TB, number int) winver.Build {
	t.Helper()
	b, ok := winver.Find(number)
	if !ok {
		t.Fatalf("no build %d", number)
	}
	return b
}

// TestPresent: no registry is asked about images that all Windows nodes have, and
// no other node.
func TestPresent(t *testing.T) {
	client := newClient(
		windowsNode("w1", "10.0.17763.6893", "docker.io/acme/shop:1", "docker.io/acme/some:1", "docker.io/acme/both:1"),
		windowsNode("w2", "10.0.20348.1", "docker.io/acme/shop:1", "docker.io/acme/both:1"),
		linuxNode("l1", "docker.io/acme/both:1"),
	)
	s := start(t, client, Config{Registry: lookup.Config{Off: true}, DefaultOS: "linux"})
	images := []string{"acme/shop:1", "acme/some:1", "acme/both:1", "unheard:1", "NOT A REFERENCE"}
	got := s.withoutPresent([][]string{nil, images})
	want := [][]string{nil, {"acme/some:1", "acme/both:1", "unheard:1", "NOT A REFERENCE"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("images to ask about (-want +got):\n%s", d)
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), "l1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the image to be on Windows nodes only", func() bool {
		return len(s.withoutPresent([][]string{{"acme/both:1"}})[0]) == 0
	})
}

func TestFacts(t *testing.T) {
	client := newClient(
		windowsNode("w1", "10.0.17763.6893", "docker.io/acme/shop:1", "docker.io/library/both:1"),
		linuxNode("l1", "docker.io/library/nginx:latest", "docker.io/library/both:1"),
		&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "windows-2019"}, Handler: "runhcs-wcow-process",
			Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{corev1.LabelOSStable: "windows"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
			Labels:      map[string]string{policy.DefaultOSLabel: "windows"},
			Annotations: map[string]string{"linkerd.io/inject": "enabled"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
	)
	s := start(t, client, Config{Registry: lookup.Config{Off: true}, DefaultOS: "linux"})
	if err := RecordLoaded(t.Context(), client, "",
		[]Loaded{{Reference: "mine", OS: "windows", Arch: "amd64", OSVersion: "10.0.20348.1"}}); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the loaded image", func() bool { return s.loaded.Load() != nil })

	got, warnings := s.Facts(t.Context(), "shop",
		policy.Parse(pod("shop", "acme/shop:1", "nginx", "both:1", "mine", "unheard:1", "NOT A REFERENCE")))
	want := policy.Facts{
		Kubernetes: 36,
		DefaultOS:  "linux",
		Nodes: []policy.Node{
			{Name: "l1", OS: "linux", Containerd: "2.1.0", Labels: map[string]string{corev1.LabelOSStable: "linux"}},
			{Name: "w1", OS: "windows", Build: build(t, 17763).WithUBR(6893), Containerd: "1.7.13",
				Labels: map[string]string{corev1.LabelOSStable: "windows"},
				Taints: []policy.Taint{{Key: "os", Value: "windows", Effect: "NoSchedule"}}},
		},
		RuntimeClasses: map[string]policy.RuntimeClass{"windows-2019": {Handler: "runhcs-wcow-process",
			NodeSelector: map[string]string{corev1.LabelOSStable: "windows"}}},
		Images: map[string]policy.Image{
			"mine": {Platforms: []policy.Platform{{OS: "windows", Arch: "amd64", OSVersion: "10.0.20348.1"}}}},
		PresentImages: map[string][]string{"acme/shop:1": {"windows"}, "nginx": {"linux"},
			"both:1": {"linux", "windows"}},
		Namespaces: map[string]policy.Namespace{"shop": {
			Labels:      map[string]string{policy.DefaultOSLabel: "windows"},
			Annotations: map[string]string{"linkerd.io/inject": "enabled"},
		}},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(policy.Related{})); d != "" {
		t.Errorf("facts (-want +got):\n%s", d)
	}
	if warnings != nil {
		t.Errorf("warnings %q", warnings)
	}
}

func TestFactsFollowTheCluster(t *testing.T) {
	client := newClient(windowsNode("w1", "10.0.17763.1", "acme/shop:1"))
	s := start(t, client, Config{Registry: lookup.Config{Off: true}})
	ask := func() policy.Facts {
		f, _ := s.Facts(t.Context(), "default", policy.Parse(pod("default", "acme/shop:1")))
		return f
	}
	if f := ask(); len(f.Nodes) != 1 || len(f.PresentImages) != 1 {
		t.Fatalf("%+v", f)
	}
	updated := windowsNode("w1", "10.0.26100.1")
	updated.Labels["eks.amazonaws.com/nodegroup"] = "w"
	if _, err := client.CoreV1().Nodes().Update(t.Context(), updated, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the node's new build", func() bool { f := ask(); return f.Nodes[0].Build.Number == 26100 })
	if f := ask(); len(f.PresentImages) != 0 || f.Platform != "eks" {
		t.Errorf("%+v", f)
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), "w1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the node to be gone", func() bool { f := ask(); return f.Nodes != nil && len(f.Nodes) == 0 })
}

// TestUnseen: a namespace, a RuntimeClass and their pods often come in one file,
// faster than a watch.
func TestUnseen(t *testing.T) {
	client := newClient()
	s := start(t, client, Config{Registry: lookup.Config{Off: true}})
	client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: map[string]string{"a": "b"}}},
			nil
	})
	client.PrependReactor("get", "runtimeclasses", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Handler: "h"}, nil
	})
	object := pod("new", "x")
	object["spec"].(map[string]any)["runtimeClassName"] = "c"
	f, _ := s.Facts(t.Context(), "new", policy.Parse(object))
	if f.Namespaces["new"].Labels["a"] != "b" || f.RuntimeClasses["c"].Handler != "h" {
		t.Errorf("%+v", f)
	}
	if all := s.classes.all(); len(all) != 0 {
		t.Errorf("the shared map was changed: %v", all)
	}
}

func forbid(client *fake.Clientset, resources ...string) {
	for _, r := range resources {
		client.PrependReactor("list", r, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: r}, "",
				fmt.Errorf("ask your administrator"))
		})
	}
}

func TestForbiddenIsUnknown(t *testing.T) {
	client := newClient(windowsNode("w1", "10.0.17763.1"))
	forbid(client, "runtimeclasses", "configmaps")
	s := start(t, client, Config{Registry: lookup.Config{Off: true}})
	f, warnings := s.Facts(t.Context(), "default", policy.Parse(pod("default", "x")))
	if f.RuntimeClasses != nil || len(f.Nodes) != 1 || len(warnings) != 0 {
		t.Errorf("%+v, %q", f, warnings)
	}
}

// serveImage serves an image for Windows Server 2022 from a registry of its own
// until the test ends, and returns its reference.
func serveImage(t testing.TB, reference string) string {
	t.Helper()
	image, _ := serveCounted(t, reference)
	return image
}

// serveCounted serves an image, and returns how many requests came for it after it was written.
func serveCounted(t testing.TB, reference string) (served string, requests *atomic.Int64) {
	t.Helper()
	requests = &atomic.Int64{}
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "windows", Architecture: "amd64",
		OSVersion: "10.0.20348.5"})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(server.Listener.Addr().String() + "/" + reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image); err != nil {
		t.Fatal(err)
	}
	requests.Store(0)
	return tag.String(), requests
}

// TestImagesOfRegistries: registries are asked, unless that is turned off.
func TestImagesOfRegistries(t *testing.T) {
	image := serveImage(t, "acme/shop:1")
	var outcomes []lookup.Outcome
	var mu sync.Mutex
	count := func(o lookup.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		outcomes = append(outcomes, o)
	}
	node := windowsNode("w1", "10.0.17763.6893")
	on := start(t, newClient(node), Config{Looked: count})
	if f, warnings := on.Facts(t.Context(), "default",
		policy.Parse(pod("default", image))); len(f.Images[image].Platforms) != 1 || len(warnings) > 0 {
		t.Errorf("%+v, %q", f.Images, warnings)
	}
	off := start(t, newClient(node), Config{Looked: count, Registry: lookup.Config{Off: true}})
	if f, warnings := off.Facts(t.Context(), "default", policy.Parse(pod("default", image))); len(f.Images)+
		len(warnings) > 0 {
		t.Errorf("turned off: %+v, %q", f.Images, warnings)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(outcomes, []lookup.Outcome{lookup.Found}) {
		t.Errorf("outcomes %v", outcomes)
	}
}
