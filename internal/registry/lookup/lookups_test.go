// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lookup

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/place"
	"github.com/mullion-k8s/mullion/internal/registry"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// mixed returns what is known of a cluster in which registries are worth asking.
func mixed() policy.Facts {
	return policy.Facts{
		Nodes:         []policy.Node{{Name: "w1", OS: "windows"}, {Name: "l1", OS: "linux"}},
		PresentImages: map[string][]string{"pulled:1": {"linux"}},
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// asker asks as package facts does.
type asker struct {
	*Images
	known policy.Facts
}

// start makes an asker, which is closed when the test ends.
func start(t testing.TB, known policy.Facts, cfg Config, objects ...runtime.Object) asker {
	t.Helper()
	l := New(fake.NewClientset(objects...), cfg, registry.NewParser(), discard(), nil)
	t.Cleanup(l.Close)
	return asker{l, known}
}

// Facts returns what is known with the images that were found.
func (a asker) Facts(ctx context.Context, namespace string, object map[string]any) (policy.Facts, []string) {
	f := a.known
	var warnings []string
	parsed := policy.Parse(object)
	f.Images, warnings = a.Find(ctx, namespace, parsed.References(), place.Unclear(parsed, f))
	return f, warnings
}

func pod(namespace string, images ...string) map[string]any {
	var containers []any
	for i, image := range images {
		containers = append(containers, map[string]any{"name": fmt.Sprintf("c%d", i), "image": image})
	}
	return map[string]any{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata":   map[string]any{"name": "p", "namespace": namespace},
		"spec":       map[string]any{"containers": containers},
	}
}

func dockerSecret(t testing.TB, namespace, name, location, user, password string) *corev1.Secret {
	t.Helper()
	raw, err := json.Marshal(
		map[string]any{"auths": map[string]any{location: map[string]string{"username": user, "password": password}}})
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: raw},
	}
}

func withSecret(object map[string]any, name string) map[string]any {
	object["spec"].(map[string]any)["imagePullSecrets"] = []any{map[string]any{"name": name}}
	return object
}

func TestLookUp(t *testing.T) {
	shelf := newShelf(t, false)
	shelf.image("acme/shop", "1", "windows", "10.0.17763.5", "ContainerUser")
	s := start(t, mixed(), Config{})
	image := shelf.host + "/acme/shop:1"
	for range 3 {
		f, warnings := s.Facts(t.Context(), "default", pod("default", image, image))
		if len(warnings) > 0 || len(f.Images[image].Platforms) != 1 ||
			f.Images[image].Platforms[0].OSVersion != "10.0.17763.5" {
			t.Fatalf("%+v, %q", f.Images, warnings)
		}
	}
	if n := shelf.asked.Load(); n != 1 {
		t.Errorf("the registry was asked %d times", n)
	}
	// What anyone may read, every namespace knows.
	s.Facts(t.Context(), "other", pod("other", image))
	if n := shelf.asked.Load(); n != 1 {
		t.Errorf("the registry was asked %d times", n)
	}
}

// TestNotAsked: no registry hears of pods that say enough, nor of any in a
// cluster without Windows.
func TestNotAsked(t *testing.T) {
	shelf := newShelf(t, false)
	shelf.image("acme/shop", "1", "windows", "10.0.17763.5", "")
	image := shelf.host + "/acme/shop:1"
	with := func(key string, value any) map[string]any {
		p := pod("default", image)
		p["spec"].(map[string]any)[key] = value
		return p
	}
	s := start(t, mixed(), Config{})
	for name, object := range map[string]map[string]any{
		"Linux":   with("nodeSelector", map[string]any{"kubernetes.io/os": "linux"}),
		"a build": with("nodeSelector", map[string]any{"node.kubernetes.io/windows-build": "10.0.17763"}),
		"a node":  with("nodeName", "l1"),
		"a base image": pod("default", "mcr.microsoft.com/windows/servercore:ltsc2019",
			shelf.host+"/a:nanoserver-ltsc2022"),
		"pulled":    pod("default", "pulled:1"),
		"a Service": {"apiVersion": "v1", "kind": "Service", "spec": map[string]any{}},
		"nothing":   nil,
	} {
		if f, warnings := s.Facts(t.Context(), "default", object); len(f.Images)+len(warnings) != 0 {
			t.Errorf("%s: %+v, %q", name, f.Images, warnings)
		}
	}
	linux := start(t, policy.Facts{Nodes: mixed().Nodes[1:]}, Config{})
	linux.Facts(t.Context(), "default", pod("default", image))
	cluster := start(t, mixed(), Config{NoLoopback: true})
	if _, warnings := cluster.Facts(t.Context(), "default", pod("default", image)); len(warnings) != 0 {
		t.Errorf("warnings %q", warnings)
	}
	if n := shelf.asked.Load(); n != 0 {
		t.Errorf("the registry was asked %d times", n)
	}
}

// TestPrivateImagesStayPrivate: what one namespace may read, another does not
// learn from the cache; nor does a pod without the secret.
func TestPrivateImagesStayPrivate(t *testing.T) {
	shelf := newShelf(t, false)
	shelf.image("acme/secret", "1", "windows", "10.0.17763.5", "")
	shelf.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == basic("u", "p") {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "theirs", Name: "puller"},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s"}}}
	s := start(t, mixed(), Config{}, account,
		dockerSecret(t, "theirs", "s", shelf.host, "u", "p"), dockerSecret(t, "theirs", "old", shelf.host, "u", "old"))
	image := shelf.host + "/acme/secret:1"
	for _, c := range []struct {
		name, namespace string
		object          map[string]any
		knows           bool
	}{
		{"with the secret", "theirs", withSecret(pod("theirs", image), "s"), true},
		{"again", "theirs", withSecret(pod("theirs", image), "s"), true},
		{"without", "theirs", pod("theirs", image), false},
		{"with another", "theirs", withSecret(pod("theirs", image), "old"), false},
		{"of the service account", "theirs", func() map[string]any {
			p := pod("theirs", image)
			p["spec"].(map[string]any)["serviceAccountName"] = "puller"
			return p
		}(), true},
		{"another namespace, same names", "mine", withSecret(pod("theirs", image), "s"), false},
		{"another namespace", "mine", pod("mine", image), false},
	} {
		f, warnings := s.Facts(t.Context(), c.namespace, c.object)
		if _, ok := f.Images[image]; ok != c.knows || c.knows == (len(warnings) > 0) {
			t.Errorf("%s: %+v, %q", c.name, f.Images, warnings)
		}
		for _, w := range warnings {
			if !strings.Contains(w, "denies access") {
				t.Errorf("%s: %q", c.name, w)
			}
		}
	}
}

// TestSlowRegistryGoesOn: the budget ends, the lookup does not; the next one
// knows. Those who come meanwhile do not wait again.
func TestSlowRegistryGoesOn(t *testing.T) {
	shelf := newShelf(t, false)
	shelf.image("a/b", "1", "windows", "10.0.17763.5", "")
	release := make(chan struct{})
	shelf.before = func(_ http.ResponseWriter, r *http.Request) bool {
		<-release
		return false
	}
	s := start(t, mixed(), Config{Budget: time.Millisecond})
	image := shelf.host + "/a/b:1"
	ask := func() (policy.Facts, []string) { return s.Facts(t.Context(), "default", pod("default", image)) }
	for range 3 {
		f, warnings := ask()
		if len(f.Images) != 0 || len(warnings) != 1 || !strings.Contains(warnings[0], "has not answered yet") {
			t.Fatalf("%+v, %q", f.Images, warnings)
		}
	}
	close(release)
	testenv.Until(t, "the answer", func() bool { f, _ := ask(); return len(f.Images) == 1 })
	if n := shelf.asked.Load(); n != 1 {
		t.Errorf("the registry was asked %d times", n)
	}
}

// TestSingleFlight: many pods at once are one question, in each of their
// namespaces.
func TestSingleFlight(t *testing.T) {
	shelf := newShelf(t, false)
	shelf.image("a/b", "1", "windows", "10.0.17763.5", "")
	s := start(t, mixed(), Config{Budget: 30 * time.Second})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			f, warnings := s.Facts(t.Context(), "default", pod("default", shelf.host+"/a/b:1"))
			if len(f.Images) != 1 {
				t.Errorf("%q", warnings)
			}
		})
	}
	all.Wait()
	if n := shelf.asked.Load(); n != 1 {
		t.Errorf("the registry was asked %d times", n)
	}
}

// TestRegistryDown: one that does not answer is not asked again for other
// images, for a while.
func TestRegistryDown(t *testing.T) {
	shelf := newShelf(t, false)
	shelf.Close()
	s := start(t, mixed(), Config{})
	_, warnings := s.Facts(t.Context(), "default", pod("default", shelf.host+"/a/b:1"))
	if len(warnings) != 1 || !strings.Contains(warnings[0], "the registry "+shelf.host+" does not answer") {
		t.Fatalf("warnings %q", warnings)
	}
	_, warnings = s.Facts(t.Context(), "other", pod("other", shelf.host+"/c/d:1"))
	if len(warnings) != 1 || len(s.flights) != 0 {
		t.Errorf("warnings %q", warnings)
	}
	if _, ok := fresh(s.kept, question{shelf.host + "/c/d:1", newPuller("other", "", nil)}); ok {
		t.Error("the second image was asked for")
	}
}

func TestOverload(t *testing.T) {
	shelf := newShelf(t, false)
	release := make(chan struct{})
	defer close(release)
	shelf.before = func(http.ResponseWriter, *http.Request) bool { <-release; return true }
	s := start(t, mixed(), Config{Budget: time.Millisecond})
	var images []string
	for i := range 100 {
		images = append(images, fmt.Sprintf("%s/a/b:%d", shelf.host, i))
	}
	_, warnings := s.Facts(t.Context(), "greedy", pod("greedy", images...))
	// One warning for those that were asked about, and one for want of room.
	pending := fmt.Sprintf("and %d more: the registry %s was not queried, because too many queries",
		maxImages-maxPerNamespace-1, shelf.host)
	if len(warnings) != 2 ||
		!slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, pending) }) {
		t.Errorf("warnings %q, want 2, one with %q", warnings, pending)
	}
	// Others are served.
	_, warnings = s.Facts(t.Context(), "modest", pod("modest", shelf.host+"/c/d:1"))
	if len(warnings) != 1 || !strings.Contains(warnings[0], "has not answered yet") {
		t.Errorf("warnings %q", warnings)
	}
}

// TestStop: Close ends lookups, however long registries take.
func TestStop(t *testing.T) {
	shelf := newShelf(t, false)
	release := make(chan struct{})
	defer close(release)
	shelf.before = func(http.ResponseWriter, *http.Request) bool { <-release; return true }
	l := start(t, mixed(), Config{Budget: time.Millisecond})
	object := pod("default", shelf.host+"/a/b:1")
	l.Facts(t.Context(), "default", object)
	l.Close()
	if len(l.flights) != 0 || len(l.running) != 0 {
		t.Errorf("%d flights, %v running", len(l.flights), l.running)
	}
	if _, w := l.Facts(t.Context(), "default", object); len(w) != 1 {
		t.Errorf("warnings %q", w)
	}
}

// TestKeptFor: tags may move, digests do not, and what only some may read is
// not kept long.
func TestKeptFor(t *testing.T) {
	shelf := newShelf(t, false)
	digest := shelf.image("a/b", "1", "windows", "10.0.17763.5", "")
	l := start(t, mixed(), Config{}, dockerSecret(t, "mine", "s", shelf.host, "u", "p"))
	for _, c := range []struct {
		ref     string
		secrets []string
		key     puller
		age     time.Duration
	}{
		{"a/b:1", nil, puller{}, tagAge},
		{"a/b@" + digest, nil, puller{}, digestAge},
		{"a/b@" + digest, []string{"s"}, newPuller("mine", "", []string{"s"}), privateAge},
		{"a/none:1", nil, newPuller("mine", "", nil), problemAge},
	} {
		q := question{shelf.host + "/" + c.ref, newPuller("mine", "", c.secrets)}
		before := time.Now()
		l.lookUp(t.Context(), q, parse(t, q.ref))
		got, ok := fresh(l.kept, question{q.ref, c.key})
		if left := got.until.Sub(before); !ok || left < c.age || left > c.age+time.Minute {
			t.Errorf("%s with %v: kept %v for %v, want %v", c.ref, c.secrets, ok, left, c.age)
		}
	}
}

// TestAnswersGrowOld: what is no longer true is asked again.
func TestAnswersGrowOld(t *testing.T) {
	l := start(t, mixed(), Config{})
	q := question{ref: "docker.io/library/x:1"}
	l.kept.Add(q, result{until: time.Now().Add(-time.Second)})
	if _, ok := l.cached(q); ok {
		t.Error("an old answer was given")
	}
}
