// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package podreason

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// known holds the facts about the cluster in the tests.
type known struct {
	mu    sync.Mutex
	facts policy.Facts // guarded by mu
	asked int          // guarded by mu
}

func (k *known) Facts(context.Context, string, *policy.Parsed) (policy.Facts, []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	return k.facts, nil
}

func (k *known) set(nodes ...policy.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.facts.Nodes = nodes
}

// count returns how often facts were asked for since the last call.
func (k *known) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.asked
	k.asked = 0
	return n
}

// lab is a cluster without an API server, with a controller in it.
type lab struct {
	t      *testing.T
	client *fake.Clientset
	known  *known
	slow   bool // whether pods are told slowly
}

const slowWrites = 10 // per second

func run(t *testing.T, objects []runtime.Object, prepare, f func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, client: fake.NewClientset(objects...), known: &known{facts: policy.Facts{Kubernetes: 36}}}
		prepare(l)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		c := New(l.client, Config{Log: slog.New(slog.DiscardHandler), Facts: l.known,
			Informers: informers.NewSharedInformerFactory(l.client, 0)})
		if l.slow {
			c.writes = flowcontrol.NewTokenBucketRateLimiter(slowWrites, slowWrites)
		}
		go func() { done <- c.Run(ctx) }()
		settled(10 * time.Second)
		f(l)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func settled(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// condition reads what a pod was told, as STATUS REASON.
func (l *lab) condition(name string) string {
	l.t.Helper()
	p, err := l.client.CoreV1().Pods("default").Get(l.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	if c := reasonCondition(p); c != nil {
		return string(c.Status) + " " + c.Reason
	}
	return ""
}

// said are the events that are there, and takes them away.
func (l *lab) said() []string {
	l.t.Helper()
	events, err := l.client.CoreV1().Events("default").List(l.t.Context(), metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	var out []string
	for _, e := range events.Items {
		out = append(out, e.Type+" "+e.Reason+" "+e.Message)
		if err := l.client.CoreV1().Events("default").Delete(l.t.Context(), e.Name,
			metav1.DeleteOptions{}); err != nil {
			l.t.Fatal(err)
		}
	}
	return out
}

// patches counts the patches of pods since the last call.
func (l *lab) patches() int {
	n := 0
	for _, a := range l.client.Actions() {
		if a.Matches("patch", "pods/status") {
			n++
		}
	}
	l.client.ClearActions()
	return n
}

func (l *lab) node(name, build string, change func(*corev1.Node)) {
	l.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: build}}}
	if change != nil {
		change(n)
	}
	_, err := l.client.CoreV1().Nodes().Update(l.t.Context(), n, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = l.client.CoreV1().Nodes().Create(l.t.Context(), n, metav1.CreateOptions{})
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) update(p *corev1.Pod) {
	l.t.Helper()
	if _, err := l.client.CoreV1().Pods(p.Namespace).Update(l.t.Context(), p, metav1.UpdateOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

func called(p *corev1.Pod, name string) *corev1.Pod {
	p.Name, p.UID = name, "uid-of-"+p.UID
	return p
}

const (
	ltsc2016 = "mcr.microsoft.com/windows/servercore:ltsc2016"
	ltsc2022 = "mcr.microsoft.com/windows/servercore:ltsc2022"
)

func TestTellsAndTakesBack(t *testing.T) {
	pods := []runtime.Object{called(waiting(ltsc2022), "new"), called(waiting(servercore), "fits"),
		called(waiting("nginx", linuxPod), "linux")}
	run(t, pods, func(l *lab) { l.known.set(lin("l"), win("a", "2019")) }, func(l *lab) {
		if got := l.condition("new"); got != "False WindowsBuildMismatch" {
			t.Fatalf("condition %q", got)
		}
		said := l.said()
		if len(said) != 1 || !strings.HasPrefix(said[0], "Warning WindowsBuildMismatch container web: "+ltsc2022+
			" is built for Windows Server 2022 10.0.20348; no node can run it. Nodes: Windows Server 2019 10.0.17763; "+
			"use an image") {
			t.Errorf("events %q", said)
		}
		if a, b := l.condition("fits"), l.condition("linux"); a+b != "" {
			t.Errorf("told pods that need no word: %q, %q", a, b)
		}
		if n := l.patches(); n != 1 {
			t.Errorf("%d patches", n)
		}

		settled(30 * time.Minute) // judged again, nothing to say
		if n, said := l.patches(), l.said(); n != 0 || said != nil {
			t.Errorf("%d patches, events %q though nothing has changed", n, said)
		}
		settled(20 * time.Minute) // the API server is about to forget the event
		if n, said := l.patches(), l.said(); n != 1 || len(said) != 1 {
			t.Errorf("%d patches, events %q after 50 minutes", n, said)
		}

		l.known.set(lin("l"), win("a", "2019"), win("b", "2025"))
		l.node("b", "10.0.26100", nil)
		settled(10 * time.Second)
		if got := l.condition("new"); got != "True Fits" {
			t.Errorf("condition %q", got)
		}
		l.known.set(lin("l"))
		for _, n := range []string{"b"} {
			if err := l.client.CoreV1().Nodes().Delete(t.Context(), n, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		settled(10 * time.Second)
		for _, name := range []string{"new", "fits"} {
			if got := l.condition(name); got != "False NoWindowsNode" {
				t.Errorf("%s: condition %q", name, got)
			}
		}
		if said := l.said(); len(said) != 2 {
			t.Errorf("events %q", said)
		}
	})
}

// TestScheduled follows a pod from the queue to its node.
func TestScheduled(t *testing.T) {
	run(t, []runtime.Object{called(waiting(ltsc2022), "p")}, func(l *lab) { l.known.set(win("a", "2019")) },
		func(l *lab) {
			p, err := l.client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			l.known.set(win("a", "2019"), win("b", "2022"))
			p.Spec.NodeName = "b"
			for i := range p.Status.Conditions {
				if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled {
					c.Status, c.Reason = corev1.ConditionTrue, ""
				}
			}
			l.update(p)
			settled(time.Second)
			if got := l.condition("p"); got != "True Fits" {
				t.Errorf("on its node: %q", got)
			}
		})
	refused := called(waiting("example.test/app:1", on("a", "ContainerCreating", "")), "r")
	run(t, []runtime.Object{refused}, func(l *lab) { l.known.set(win("a", "2019")) }, func(l *lab) {
		if got := l.condition("r"); got != "" {
			t.Errorf("before anything happened: %q", got)
		}
		p := refused.DeepCopy()
		p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
			Message: noMatch}
		l.update(p)
		settled(time.Second)
		if got := l.condition("r"); got != "False WindowsBuildMismatch" {
			t.Errorf("refused: %q", got)
		}
	})
}

func TestRuntimeClassAppears(t *testing.T) {
	run(t, []runtime.Object{called(waiting(servercore, class("hyperv")), "p")}, func(l *lab) {
		l.known.set(win("a", "2019"))
	}, func(l *lab) {
		if got := l.condition("p"); got != "" {
			t.Errorf("without knowing the class: %q", got)
		}
		l.known.mu.Lock()
		l.known.facts.RuntimeClasses = map[string]policy.RuntimeClass{"hyperv": {Handler: "runhcs-wcow-hypervisor"}}
		l.known.mu.Unlock()
		rc := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "hyperv"}, Handler: "runhcs-wcow-hypervisor"}
		if _, err := l.client.NodeV1().RuntimeClasses().Create(t.Context(), rc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		settled(10 * time.Second)
		if got := l.condition("p"); got != "False RuntimeHandlerMissing" {
			t.Errorf("%q", got)
		}
	})
}

// TestWritesFail: what an API server may answer.
func TestWritesFail(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"unavailable":   {apierrors.NewServiceUnavailable("no"), "False WindowsBuildMismatch"}, // again
		"deleted":       {apierrors.NewNotFound(pods, "p"), ""},
		"another's UID": {apierrors.NewConflict(pods, "p", nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, []runtime.Object{called(waiting(ltsc2016), "p")}, func(l *lab) {
				l.known.set(win("a", "2019"))
				left, events := 3, 2
				l.client.PrependReactor("patch", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
					events--
					return events >= 0, nil, apierrors.NewServiceUnavailable("no")
				})
				l.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					left--
					return left >= 0, nil, tt.err
				})
			}, func(l *lab) {
				if got := l.condition("p"); got != tt.want {
					t.Errorf("condition %q, want %q", got, tt.want)
				}
				if events := len(l.said()); events != 1 { // before it is known that the pod is gone
					t.Errorf("%d events", events)
				}
			})
		})
	}
}

// TestManyPods has very many pods that no node can run: they are told at a
// bounded rate, heartbeats of nodes cost nothing, and so do more nodes of a
// build that is there.
func TestManyPods(t *testing.T) {
	const count = 600
	var pods []runtime.Object
	for i := range count {
		pods = append(pods, called(waiting(ltsc2022), fmt.Sprintf("p%d", i)))
	}
	run(t, pods, func(l *lab) {
		l.slow = true
		l.known.set(win("a", "2019"))
	}, func(l *lab) {
		settled(50 * time.Second) // a minute since the start
		if n := l.patches(); n < slowWrites || n > 62*slowWrites {
			t.Errorf("%d pods told in the first minute", n)
		}
		settled(4 * time.Minute)
		if n := len(l.said()); n != count {
			t.Errorf("%d events for %d pods", n, count)
		}
		l.patches()
		l.node("a", "10.0.17763", nil)
		settled(10 * time.Second)
		l.known.count()
		for i := range 100 {
			l.node("a", "10.0.17763", func(n *corev1.Node) {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady,
					LastHeartbeatTime: metav1.NewTime(time.Now())}}
			})
			l.node(fmt.Sprintf("a%d", i), "10.0.17763", nil)
			settled(100 * time.Millisecond)
		}
		settled(5 * time.Second)
		// Each pod is judged again every two minutes in any case: 15 s of that.
		if n := l.known.count(); n > count*15/120*2 {
			t.Errorf("asked %d times for facts while nothing changed", n)
		}
		if n := l.patches(); n != 0 {
			t.Errorf("%d patches while nothing changed", n)
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	nodes := []policy.Node{}
	for i := range 100 {
		nodes = append(nodes, win(fmt.Sprintf("w%d", i), []string{"2019", "2022", "2025"}[i%3]),
			lin(fmt.Sprintf("l%d", i)))
	}
	k := &known{facts: policy.Facts{Kubernetes: 36, Nodes: nodes}}
	c := New(nil, Config{Log: slog.New(slog.DiscardHandler), Facts: k})
	pod := waiting(ltsc2016)
	b.ReportAllocs()
	for b.Loop() {
		if v, err := c.evaluate(b.Context(), pod); err != nil || v.Reason != BuildMismatch {
			b.Fatal(v, err)
		}
	}
}
