// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mullion-k8s/mullion/internal/manager/controller"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestWork: what fails comes back, what panics ends nothing, a conflict is not
// worth a line in the log.
func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		queue := controller.NewQueue()
		for _, key := range []string{"good", "fails", "panics", "conflict", "waits"} {
			queue.Add(key)
		}
		tries := map[string]int{}
		done := make(chan error, 1)
		go func() {
			w := controller.Watch{Log: slog.New(slog.NewTextHandler(&log, nil)), Queue: queue}
			w.Handle = func(_ context.Context, key string) error {
				tries[key]++
				switch {
				case key == "good" || tries[key] > 2:
					return nil
				case key == "panics":
					panic("no such thing")
				case key == "conflict":
					return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", errors.New("changed"))
				case key == "waits":
					return fmt.Errorf("%w for the node", controller.ErrWait)
				}
				return errors.New("no luck")
			}
			done <- w.Run(ctx, nil)
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for key, want := range map[string]int{"good": 1, "fails": 3, "panics": 3, "conflict": 3, "waits": 3} {
			if tries[key] != want {
				t.Errorf("%s was tried %d times, want %d", key, tries[key], want)
			}
		}
		for text, want := range map[string]int{"no luck": 2, "no such thing": 2, "changed": 0, "for the node": 0} {
			if n := strings.Count(log.String(), text); n != want {
				t.Errorf("%q %d times in the log, want %d:\n%s", text, n, want, log.String())
			}
		}
	})
}

func TestStopsBeforeItBegan(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	nodes := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Nodes().Informer() // never started
	w := controller.Watch{Log: slog.New(slog.DiscardHandler), Queue: controller.NewQueue()}
	if err := w.Run(ctx, []controller.Source{{Informer: nodes}}); err != nil {
		t.Error(err)
	}
}

// TestWatch: the handlers see objects that are there, come, change and go, also if a shared informer lives on; changes
// without a meaning are left out. A controller that ends takes its handlers away.
func TestWatch(t *testing.T) {
	node := func(name, build string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"build": build}}}
	}
	client := fake.NewClientset(node("a", "1"))
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes().Informer()
	alive, end := context.WithCancel(t.Context())
	defer end()
	for range 2 {
		ctx, cancel := context.WithCancel(alive)
		w := controller.Watch{Log: slog.New(slog.DiscardHandler), Queue: controller.NewQueue()}
		handled, done := make(chan string), make(chan error, 1)
		w.Handle = func(_ context.Context, key string) error {
			found := controller.Find[corev1.Node](nodes, key)
			handled <- fmt.Sprint(key, " ", found != nil)
			return nil
		}
		var puts atomic.Int64
		go func() {
			done <- w.Run(ctx, []controller.Source{{Informer: nodes, Handlers: controller.Changes(
				func(old, now *corev1.Node) bool { return old.Labels["build"] == now.Labels["build"] },
				func(n *corev1.Node) { puts.Add(1); w.Queue.Add(n.Name) })}}, started{factory, alive.Done()})
		}()
		last := ""
		want := func(key string) {
			t.Helper()
			got := <-handled
			for ; got == last; got = <-handled { // two states may be handled one after the other
			}
			if last = got; got != key {
				t.Errorf("handled %q, want %q", got, key)
			}
		}
		want("a true")
		api := client.CoreV1().Nodes()
		if _, err := api.Create(ctx, node("b", "1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		want("b true")
		heartbeat := node("b", "1")
		heartbeat.Status.Phase = "Running"
		for _, change := range []*corev1.Node{heartbeat, node("b", "2")} {
			if _, err := api.Update(ctx, change, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		testenv.Until(t, "the change is seen", func() bool { return puts.Load() == 4 })
		if err := api.Delete(ctx, "b", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		want("b false")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		// a; b, both states of its change, and its end
		if n := puts.Load(); n != 5 {
			t.Errorf("%d objects were put into the queue, want 5", n)
		}
	}
	end()
	factory.Shutdown()
	w := controller.Watch{Log: slog.New(slog.DiscardHandler), Queue: controller.NewQueue()}
	if err := w.Run(t.Context(), []controller.Source{{Informer: nodes}}); err == nil {
		t.Error("a controller works with informers that have ended")
	}
	if err := w.Run(alive, []controller.Source{{Informer: nodes}}); err != nil {
		t.Errorf("the informers end with the controller: %v", err)
	}
}

// started is a factory that another has started, whose informers live longer.
type started struct {
	informers.SharedInformerFactory
	stop <-chan struct{}
}

func (s started) Start(<-chan struct{}) { s.SharedInformerFactory.Start(s.stop) }
