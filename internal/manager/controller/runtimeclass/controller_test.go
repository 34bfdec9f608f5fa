// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package runtimeclass

import (
	"context"
	"log/slog"
	"strings"
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
	"k8s.io/client-go/tools/record"
)

// lab is a cluster without an API server, with a controller in it.
type lab struct {
	t      *testing.T
	client *fake.Clientset
	events *record.FakeRecorder
}

// run calls f in a bubble where a controller runs. prepare may add reactors.
func run(t *testing.T, objects []runtime.Object, prepare func(*lab), f func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, client: fake.NewClientset(objects...), events: record.NewFakeRecorder(100)}
		if prepare != nil {
			prepare(l)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- New(l.client, Config{Log: slog.New(slog.DiscardHandler), Events: l.events,
				Informers: informers.NewSharedInformerFactory(l.client, 0)}).Run(ctx)
		}()
		l.settle()
		f(l)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// settle lets everything happen that is to happen within a minute.
func (l *lab) settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// class reads a RuntimeClass; nil if there is none.
func (l *lab) class(name string) *nodev1.RuntimeClass {
	l.t.Helper()
	c, err := l.client.NodeV1().RuntimeClasses().Get(l.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// want checks the tolerations of a class, by their keys and values.
func (l *lab) want(name, tolerations string) {
	l.t.Helper()
	c := l.class(name)
	if c == nil {
		l.t.Fatalf("no RuntimeClass %s", name)
	}
	var got []string
	for _, t := range c.Scheduling.Tolerations {
		got = append(got, t.Key+"="+t.Value)
	}
	if strings.Join(got, " ") != tolerations {
		l.t.Errorf("%s tolerates %q, want %q", name, got, tolerations)
	}
	if c.Handler != Handler || !ours(c) {
		l.t.Errorf("%s: handler %s, labels %v", name, c.Handler, c.Labels)
	}
}

func (l *lab) put(n *corev1.Node) {
	l.t.Helper()
	_, err := l.client.CoreV1().Nodes().Update(l.t.Context(), n, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = l.client.CoreV1().Nodes().Create(l.t.Context(), n, metav1.CreateOptions{})
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.settle()
}

// writes lists what was written to RuntimeClasses since the last call.
func (l *lab) writes() string {
	var out []string
	for _, a := range l.client.Actions() {
		if a.GetResource().Resource == "runtimeclasses" && a.GetVerb() != "list" && a.GetVerb() != "watch" &&
			a.GetVerb() != "get" {
			out = append(out, a.GetVerb())
		}
	}
	l.client.ClearActions()
	return strings.Join(out, " ")
}

func (l *lab) event() string {
	select {
	case e := <-l.events.Events:
		return e
	default:
		return ""
	}
}

func TestFollowsNodes(t *testing.T) {
	run(t, []runtime.Object{linux("l"), node("a", "10.0.17763")}, nil, func(l *lab) {
		l.want("windows-2019", "")
		l.put(node("b", "10.0.20348", "os=windows:NoSchedule"))
		l.want("windows-2022", "os=windows")
		l.put(node("a", "10.0.17763", "os=windows:NoSchedule"))
		l.want("windows-2019", "os=windows")
		l.put(node("c", "10.0.17763"))
		l.want("windows-2019", "")
		l.writes()
		for range 3 { // heartbeats, and taints that say nothing
			n := node("c", "10.0.17763", "node.kubernetes.io/not-ready=:NoExecute")
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
			l.put(n)
			l.put(node("c", "10.0.17763"))
		}
		if w := l.writes(); w != "" {
			t.Errorf("written without a reason: %s", w)
		}
		for _, name := range []string{"a", "c"} {
			if err := l.client.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		l.settle()
		l.want("windows-2019", "") // stays
		l.put(node("d", "10.0.26100"))
		l.put(node("d", "10.0.20348")) // updated in place
		l.want("windows-2025", "")
		l.want("windows-2022", "")
	})
}

func TestTakesCareOfItsOwn(t *testing.T) {
	mine := class2019(func(c *nodev1.RuntimeClass) { c.Handler, c.UID = "old-handler", "1" })
	run(t, []runtime.Object{node("a", "10.0.17763"), mine}, nil, func(l *lab) {
		l.want("windows-2019", "")
		if w := l.writes(); w != "delete create" {
			t.Errorf("writes: %s", w)
		}
		if err := l.client.NodeV1().RuntimeClasses().Delete(t.Context(), "windows-2019",
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(vacancy - time.Second)
		if l.class("windows-2019") != nil {
			t.Error("created again at once")
		}
		l.settle()
		l.want("windows-2019", "")

		c := l.class("windows-2019")
		c.Scheduling.NodeSelector["a"] = "b"
		c.Overhead = &nodev1.Overhead{}
		if _, err := l.client.NodeV1().RuntimeClasses().Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.settle()
		if c := l.class("windows-2019"); len(c.Scheduling.NodeSelector) != 2 || c.Overhead == nil {
			t.Errorf("after a user's change: %+v", c)
		}
	})
}

func class2019(change func(*nodev1.RuntimeClass)) *nodev1.RuntimeClass {
	c := desired([]*corev1.Node{node("n", "10.0.17763")})[0]
	change(c)
	return c
}

func TestLeavesOthersAlone(t *testing.T) {
	foreign := class2019(func(c *nodev1.RuntimeClass) {
		c.Labels, c.Handler, c.Scheduling = nil, "example-container-runtime-handler", nil
	})
	run(t, []runtime.Object{node("a", "10.0.17763"), foreign}, nil, func(l *lab) {
		l.put(node("a", "10.0.17763", "os=windows:NoSchedule"))
		l.put(node("b", "10.0.17763"))
		if c := l.class("windows-2019"); c.Handler != "example-container-runtime-handler" || c.Scheduling != nil {
			t.Errorf("changed: %+v", c)
		}
		if w := l.writes(); w != "" {
			t.Errorf("writes: %s", w)
		}
		if e := l.event(); !strings.HasPrefix(e, "Normal NotManaged RuntimeClass windows-2019 has no label") {
			t.Errorf("event %q", e)
		}
		if e := l.event(); e != "" {
			t.Errorf("said again: %q", e)
		}
		// A user's class goes, the controller's comes.
		if err := l.client.NodeV1().RuntimeClasses().Delete(t.Context(), "windows-2019",
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		l.settle()
		l.want("windows-2019", "")
		// Taken over: the label goes.
		c := l.class("windows-2019")
		c.Labels = nil
		if _, err := l.client.NodeV1().RuntimeClasses().Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.writes()
		l.put(node("a", "10.0.17763", "os=windows:NoSchedule"))
		l.put(node("b", "10.0.17763", "os=windows:NoSchedule"))
		if w := l.writes(); w != "" {
			t.Errorf("writes after it was taken over: %s", w)
		}
	})
}

func TestNoHandler(t *testing.T) {
	n := node("a", "10.0.17763")
	n.Status.RuntimeHandlers = []corev1.NodeRuntimeHandler{{Name: ""}, {Name: "mine"}}
	run(t, []runtime.Object{n}, nil, func(l *lab) {
		if l.class("windows-2019") != nil {
			t.Error("made, though a node lacks the handler")
		}
		if e := l.event(); !strings.Contains(e, "the containerd of a has no runtime handler runhcs-wcow-process") {
			t.Errorf("event %q", e)
		}
		n := n.DeepCopy()
		n.Status.RuntimeHandlers = append(n.Status.RuntimeHandlers, corev1.NodeRuntimeHandler{Name: Handler})
		l.put(n)
		l.want("windows-2019", "")
	})
}

// TestRetries fails each write some times, in the ways in which an API server
// does.
func TestRetries(t *testing.T) {
	resource := schema.GroupResource{Group: "node.k8s.io", Resource: "runtimeclasses"}
	for name, err := range map[string]error{
		"conflict":       apierrors.NewConflict(resource, "windows-2019", nil),
		"unavailable":    apierrors.NewServiceUnavailable("no"),
		"already exists": apierrors.NewAlreadyExists(resource, "windows-2019"),
	} {
		for _, verb := range []string{"create", "patch", "delete"} {
			if (verb == "create") != (name == "already exists") && name == "already exists" {
				continue
			}
			t.Run(name+" "+verb, func(t *testing.T) {
				left := 3
				existing := class2019(func(c *nodev1.RuntimeClass) {
					c.UID = "1"
					switch verb {
					case "patch":
						c.Scheduling = nil
					case "delete":
						c.Handler = "old"
					}
				})
				objects := []runtime.Object{node("a", "10.0.17763")}
				if verb != "create" {
					objects = append(objects, existing)
				}
				run(t, objects, func(l *lab) {
					l.client.PrependReactor(verb, "runtimeclasses",
						func(clienttesting.Action) (bool, runtime.Object, error) {
							left--
							return left >= 0, nil, err
						})
				}, func(l *lab) {
					if name == "already exists" { // whose it is comes by the watch; it does not, here
						l.put(node("b", "10.0.17763"))
						l.put(node("c", "10.0.17763"))
						l.put(node("d", "10.0.17763"))
					}
					l.want("windows-2019", "")
				})
			})
		}
	}
}
