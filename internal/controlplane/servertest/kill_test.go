// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
	"github.com/mullion-k8s/mullion/internal/supervise"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestKillUnderLoad kills the server with -9 at random moments while eight writers
// create and update objects. Whatever was acknowledged must be there afterwards,
// resource versions never go back, and a watcher misses nothing.
func TestKillUnderLoad(t *testing.T) {
	underLoad(t, testenv.Times(t, 20, 1000), (*controlplanetest.Server).Kill)
}

// TestTermUnderLoad is TestKillUnderLoad with SIGTERM: the server must also end in
// time, with exit code 0.
func TestTermUnderLoad(t *testing.T) {
	underLoad(t, testenv.Times(t, 3, 1000), (*controlplanetest.Server).Stop)
}

// underLoad starts a server and ends it with end again and again.
func underLoad(t *testing.T, rounds int, end func(*controlplanetest.Server)) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	s := controlplanetest.New(t, nil)
	s.Start()
	s.Ready()
	watcher := watch(t, s.Admin())
	h := &history{acked: map[string]string{}, gone: map[string]bool{}}
	var total int
	var newest uint64
	for round := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for w := range 8 {
			client := s.Admin()
			writers.Go(func() { h.write(ctx, client, fmt.Sprintf("r%d-w%d", round, w)) })
		}
		// the moment of the end is the point of the test
		time.Sleep(time.Duration(100+rnd.IntN(900)) * time.Millisecond)
		end(s)
		cancel()
		writers.Wait()
		s.Start()
		s.Component(plan.APIServer, string(supervise.Ready))
		list, err := s.Admin().CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		h.compare(t, round, list.Items)
		rv, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
		if err != nil || rv < max(newest, h.newest) {
			t.Errorf("round %d: resource version %s after %d", round, list.ResourceVersion, max(newest, h.newest))
		}
		newest = rv
		total += len(h.writes)
		h.writes = nil
		if len(h.acked) > 5000 { // a thousand rounds would fill the disk
			h.empty(t, s.Admin())
		}
	}
	t.Logf("%d ends under load, %d acknowledged writes, all there; resource version %d", rounds, total, newest)
	if total < 8*rounds {
		t.Errorf("only %d writes were acknowledged: the test has tested nothing", total)
	}
	list, err := s.Admin().CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watcher.sees(t, list.Items)
	s.Stop()
}

// watcher is a client that watches the objects all the while, as a controller does:
// it resumes from the last version that it has seen, or lists again if the server
// says that it must.
type watcher struct{ store cache.Store }

func watch(t *testing.T, client *kubernetes.Clientset) watcher {
	version := func(obj any) uint64 {
		cm, ok := obj.(*corev1.ConfigMap)
		if !ok {
			return 0 // a deletion that was missed
		}
		rv, err := strconv.ParseUint(cm.ResourceVersion, 10, 64)
		if err != nil {
			t.Error(err)
		}
		return rv
	}
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "configmaps", "default",
			fields.Everything()),
		ObjectType: &corev1.ConfigMap{},
		Handler: cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
			if version(after) < version(before) {
				t.Errorf("a watcher saw version %d after %d", version(after), version(before))
			}
		}},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { informer.Run(ctx.Done()) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return watcher{store}
}

// sees waits until the watcher knows the objects in these versions, and no others.
func (w watcher) sees(t *testing.T, want []corev1.ConfigMap) {
	t.Helper()
	testenv.Eventually(t, "the watcher knows all objects", func() error {
		if n := len(w.store.ListKeys()); n != len(want) {
			return fmt.Errorf("it knows %d objects of %d", n, len(want))
		}
		for _, cm := range want {
			got, _, err := w.store.GetByKey(cm.Namespace + "/" + cm.Name)
			if err != nil {
				return err
			}
			if have, ok := got.(*corev1.ConfigMap); !ok || have.ResourceVersion != cm.ResourceVersion {
				return fmt.Errorf("%s: %v", cm.Name, got)
			}
		}
		return nil
	})
}

// history holds the writes that the server has acknowledged.
type history struct {
	mu     sync.Mutex
	acked  map[string]string // guarded by mu; name to the last value
	writes []write           // guarded by mu
	gone   map[string]bool   // names whose removal was acknowledged
	newest uint64            // guarded by mu; the highest revision
}

// write is one acknowledged write.
type write struct {
	name, value string
	revision    uint64
}

// compare checks that the objects have at least what was acknowledged.
func (h *history) compare(t *testing.T, round int, objects []corev1.ConfigMap) {
	t.Helper()
	have := map[string]string{}
	for _, cm := range objects {
		have[cm.Name] = cm.Data["n"]
		if h.gone[cm.Name] {
			t.Errorf("round %d: %s is there again after its removal was acknowledged", round, cm.Name)
		}
	}
	for name, value := range h.acked {
		// A write whose answer was lost may be there, too: newer is right.
		got, err := strconv.Atoi(have[name])
		if want, werr := strconv.Atoi(value); err != nil || werr != nil || got < want {
			t.Errorf("round %d: %s was acknowledged with n=%s and is %q", round, name, value, have[name])
		}
	}
}

// empty removes all objects.
func (h *history) empty(t *testing.T, client *kubernetes.Clientset) {
	t.Helper()
	// The roles of the administrator are there once the bootstrap has run.
	testenv.Eventually(t, "objects removed", func() error {
		return client.CoreV1().ConfigMaps("default").DeleteCollection(t.Context(), metav1.DeleteOptions{},
			metav1.ListOptions{})
	})
	for name := range h.acked {
		h.gone[name] = true
	}
	h.acked = map[string]string{}
}

func (h *history) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.writes)
}

// write creates objects and updates each once until the server is gone.
func (h *history) write(ctx context.Context, client *kubernetes.Clientset, prefix string) {
	api := client.CoreV1().ConfigMaps("default")
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("%s-%d", prefix, i)
		cm, err := api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name},
			Data: map[string]string{"n": "1"}}, metav1.CreateOptions{})
		if err != nil {
			return
		}
		h.note(cm)
		cm.Data["n"] = "2"
		if cm, err = api.Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
			return
		}
		h.note(cm)
	}
}

func (h *history) note(cm *corev1.ConfigMap) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked[cm.Name] = cm.Data["n"]
	if rv, err := strconv.ParseUint(cm.ResourceVersion, 10, 64); err == nil {
		h.newest = max(h.newest, rv)
		h.writes = append(h.writes, write{cm.Name, cm.Data["n"], rv})
	}
}

// TestKillWhileStarting kills the very first start at each of its stages, one
// after the other in the same directory, and then at random moments; the start
// after that must succeed.
func TestKillWhileStarting(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	s := controlplanetest.New(t, nil)
	stages := []struct {
		name string
		wait func()
	}{
		{"at once", func() {}},
		{"the keys are being made", func() { time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond) }},
		{"etcd starts", func() { s.Component(plan.Etcd, string(supervise.Starting)) }},
		{"etcd is ready", func() { s.Component(plan.Etcd, string(supervise.Ready)) }},
		{"the API server starts", func() { time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond) }},
		{"the API server is ready", func() { s.Component(plan.APIServer, string(supervise.Ready)) }},
		{"the first objects are written", func() { s.Component(plan.Bootstrap, string(supervise.Ready)) }},
	}
	for _, stage := range stages {
		s.Start()
		stage.wait()
		s.Kill()
	}
	for range testenv.Times(t, 3, 200) {
		s.Start()
		time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
		s.Kill()
	}
	s.Start()
	s.Ready()
	if _, err := s.Admin().RbacV1().ClusterRoleBindings().Get(t.Context(), "mullion:cluster-admins",
		metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := s.Admin().CoreV1().ConfigMaps("kube-public").Get(t.Context(), "cluster-info",
		metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := s.Admin().CoreV1().Services("kube-system").Get(t.Context(), "kube-dns",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a DNS service without a DNS server: %v", err)
	}
	s.Stop()
}
