// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// reported is a Node with the last report of its kubelet.
func reported(at time.Time, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Message: "no network",
			LastHeartbeatTime: metav1.NewTime(at)}}}}
}

// TestNodeReady: a host is ready if its own process says that it runs, and its kubelet has said since that the node is.
func TestNodeReady(t *testing.T) {
	const pid = 4711
	since := time.Unix(1_800_000_000, 0)
	running := host.Status{PID: pid, Phase: host.Running, Since: since}
	damaged := []byte("{")
	for name, tt := range map[string]struct {
		file any
		node *corev1.Node
		want string
	}{
		"it has written nothing": {nil, reported(since, corev1.ConditionTrue), "starting"},
		"an earlier process was killed": {host.Status{PID: pid + 1, Phase: host.Running, Since: since},
			reported(since, corev1.ConditionTrue), "starting"},
		"it prepares": {host.Status{PID: pid, Phase: host.Preparing, Step: "Wine"}, nil, "preparing Wine"},
		"damaged": {damaged, reported(since, corev1.ConditionTrue),
			"read host status: read FILE: unexpected end of JSON input"},
		"no Node yet": {running, nil, "node win-1 has not reported yet"},
		"a report of its last boot": {running, reported(since.Add(-time.Second), corev1.ConditionTrue),
			"node win-1 has not reported yet"},
		"not ready": {running, reported(since, corev1.ConditionFalse), "node is not ready: no network"},
		"ready":     {running, reported(since, corev1.ConditionTrue), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{layout: Layout{DataDir: t.TempDir(), Name: "x"}}
			node := Node{Config: host.Config{Name: "win-1", Status: filepath.Join(t.TempDir(), "win-1.json")}}
			var err error
			switch file := tt.file.(type) {
			case host.Status:
				err = supervise.WriteStatus(node.Status, file)
			case []byte:
				err = os.WriteFile(node.Status, file, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := r.nodeReady(node, pid, tt.node); err != nil {
				got = strings.ReplaceAll(err.Error(), node.Status, "FILE")
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestWatchNode: each state of the Node is an event; a watch that ends, as with its API server, begins again, until the
// host is ready.
func TestWatchNode(t *testing.T) {
	client := fake.NewClientset()
	watches := make(chan *watch.FakeWatcher)
	client.PrependWatchReactor("nodes", func(a clienttesting.Action) (bool, watch.Interface, error) {
		list, ok := a.(clienttesting.WatchAction)
		if !ok || list.GetWatchRestrictions().Fields.String() != "metadata.name=win-1" {
			return true, nil, errors.New("all nodes are watched")
		}
		w := watch.NewFake()
		watches <- w
		return true, w, nil
	})
	r := &run{admin: client}
	var object atomic.Pointer[corev1.Node]
	end := make(chan error)
	go func() {
		end <- r.watchNode(t.Context(), "win-1", &object, func() error {
			if node := object.Load(); node != nil {
				return readySince(node, time.Time{})
			}
			return errors.New("no Node")
		})
	}()
	w := <-watches
	w.Add(reported(time.Now(), corev1.ConditionFalse))
	w.Delete(reported(time.Now(), corev1.ConditionFalse))
	w.Stop()
	w = <-watches
	w.Error(&metav1.Status{Message: "too old resource version"})
	w.Add(reported(time.Now(), corev1.ConditionTrue))
	if err := <-end; err != nil || object.Load() == nil {
		t.Errorf("%v, node %v", err, object.Load())
	}
}

// TestChildEnds: after the end of a process its status does not count, although it was killed and could not say so.
func TestChildEnds(t *testing.T) {
	l := Layout{DataDir: t.TempDir(), Name: "x"}
	if err := os.MkdirAll(l.Logs(), 0o700); err != nil {
		t.Fatal(err)
	}
	r := &run{layout: l, log: slog.New(slog.DiscardHandler), spawner: supervise.NewSpawner()}
	var pid atomic.Int64
	err := r.child(context.Background(), Program{Name: "win-1", Argv: []string{"/bin/sh", "-c", "kill -9 $$"}}, &pid)
	if err == nil || pid.Load() != 0 {
		t.Errorf("%v, process %d", err, pid.Load())
	}
}
