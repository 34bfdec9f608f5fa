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
	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// TestKillUnderLoad kills the server at random moments while eight writers
// create and update objects. Whatever was acknowledged must be there afterwards,
// and resource versions never go back.
func TestKillUnderLoad(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	s := controlplanetest.New(t, nil)
	s.Start()
	s.Ready()
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	var newest uint64
	acked := map[string]string{} // name to the last acknowledged value
	for round := range rounds {
		h := &history{acked: acked}
		ctx, cancel := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for w := range 8 {
			client := s.Admin()
			writers.Go(func() { h.write(ctx, client, fmt.Sprintf("r%d-w%d", round, w)) })
		}
		// the moment of the kill is the point of the test
		time.Sleep(time.Duration(100+rnd.IntN(1500)) * time.Millisecond)
		s.Kill()
		cancel()
		writers.Wait()
		s.Start()
		s.Component(plan.APIServer, string(supervise.Ready))
		list, err := s.Admin().CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]string{}
		for _, cm := range list.Items {
			have[cm.Name] = cm.Data["n"]
		}
		for name, value := range acked {
			// A write whose answer was lost may be there, too: newer is right.
			got, err := strconv.Atoi(have[name])
			if want, werr := strconv.Atoi(value); err != nil || werr != nil || got < want {
				t.Errorf("round %d: %s was acknowledged with n=%s and is %q", round, name, value, have[name])
			}
		}
		rv, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
		if err != nil || rv < max(newest, h.newest) {
			t.Errorf("round %d: resource version %s after %d", round, list.ResourceVersion, max(newest, h.newest))
		}
		newest = rv
		t.Logf("round %d: %d objects acknowledged so far, all there; resource version %d", round, len(acked), rv)
		s.Ready()
	}
	if len(acked) < 8*rounds {
		t.Errorf("only %d writes were acknowledged: the test has tested nothing", len(acked))
	}
	s.Stop()
}

// history holds the writes that the server has acknowledged.
type history struct {
	mu     sync.Mutex
	acked  map[string]string // guarded by mu; name to the last value
	writes []write           // guarded by mu
	newest uint64            // guarded by mu; the highest revision
}

// write is one acknowledged write.
type write struct {
	name, value string
	revision    uint64
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
