// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// fakeAPI answers lists from its tables, one object a page, and watches with the
// events that it is given.
type fakeAPI struct {
	*httptest.Server
	events chan string // for the watch of pods; closing the watch is "end"

	mu      sync.Mutex
	lists   map[string][]string // by the last part of the path; guarded by mu
	failing int                 // the status of every answer; guarded by mu
	listed  map[string]int      // guarded by mu
}

func newFakeAPI(t *testing.T) *fakeAPI {
	t.Helper()
	a := &fakeAPI{events: make(chan string), lists: map[string][]string{}, listed: map[string]int{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *fakeAPI) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	kind := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	failing, items := a.failing, a.lists[kind]
	if r.FormValue("watch") == "" {
		a.listed[kind]++
	}
	a.mu.Unlock()
	if failing != 0 {
		out.WriteHeader(failing)
		fmt.Fprint(out, `{"message":"no"}`)
		return
	}
	if r.FormValue("watch") == "" {
		first := 0
		_, _ = fmt.Sscan(r.FormValue("continue"), &first)
		more := ""
		if first+1 < len(items) {
			more = fmt.Sprint(first + 1)
		}
		page := items[min(first, len(items)):min(first+1, len(items))]
		fmt.Fprintf(out, `{"metadata":{"resourceVersion":"7","continue":%q},"items":[%s]}`, more,
			strings.Join(page, ","))
		return
	}
	for {
		out.(http.Flusher).Flush()
		events := a.events
		if kind != "pods" {
			events = nil
		}
		select {
		case <-r.Context().Done():
			return
		case e := <-events:
			if e == "end" {
				return
			}
			fmt.Fprintln(out, e)
		}
	}
}

func (a *fakeAPI) set(failing int, kind string, items ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failing = failing
	if kind != "" {
		a.lists[kind] = items
	}
}

func pod(name, ip string) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"x","name":%q,"resourceVersion":"8"},"spec":{"nodeName":"n"},`+
		`"status":{"podIPs":[{"ip":%q}]}}`, name, ip)
}

// addresses describes the known pods.
func addresses(w *Watcher) string {
	c, ok := w.Cluster()
	if !ok {
		return "nothing"
	}
	var words []string
	for _, p := range c.Pods {
		words = append(words, fmt.Sprint(p.Name, p.Addresses))
	}
	return strings.Join(words, " ")
}

func TestFollow(t *testing.T) {
	api := newFakeAPI(t)
	api.set(http.StatusForbidden, "pods", pod("a", "10.0.0.1"), pod("b", "10.0.0.2"))
	api.set(http.StatusForbidden, "namespaces", `{"metadata":{"name":"x","labels":{"a":"b"}}}`)
	api.set(http.StatusForbidden, "networkpolicies",
		`{"metadata":{"namespace":"x","name":"p"},"spec":{"podSelector":{}}}`)
	client := api.Client()
	w := New(api.URL, client, slog.New(slog.DiscardHandler))
	var done sync.WaitGroup
	done.Go(func() { w.Run(t.Context()) })
	t.Cleanup(done.Wait)
	want := func(text string) {
		t.Helper()
		testenv.Eventually(t, text, func() error {
			if got := addresses(w); got != text {
				return fmt.Errorf("known %q, want %q", got, text)
			}
			return nil
		})
	}
	testenv.Eventually(t, "the refusal is reported", func() error {
		if err := w.Err(); err == nil || !strings.Contains(err.Error(), "no (403)") {
			return fmt.Errorf("the error is another: %w", err)
		}
		return nil
	})
	want("nothing")
	api.set(0, "")
	want("a[10.0.0.1] b[10.0.0.2]")
	c, _ := w.Cluster()
	if len(c.Policies) != 1 || len(c.Namespaces) != 1 || c.Namespaces[0].Labels["a"] != "b" {
		t.Errorf("known %+v", c)
	}
	api.events <- `{"type":"ADDED","object":` + pod("c", "10.0.0.3") + `}`
	api.events <- `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}`
	api.events <- `{"type":"MODIFIED","object":` + pod("a", "10.0.0.9") + `}`
	api.events <- `{"type":"DELETED","object":` + pod("b", "10.0.0.2") + `}`
	want("a[10.0.0.9] c[10.0.0.3]")
	if err := w.Err(); err != nil {
		t.Error(err)
	}
	// The server ends the watch: another one follows, without a list.
	api.events <- "end"
	api.events <- `{"type":"DELETED","object":` + pod("c", "10.0.0.3") + `}`
	want("a[10.0.0.9]")
	// The version is too old: all is listed again.
	api.set(0, "pods", pod("d", "10.0.0.4"))
	api.events <- `{"type":"ERROR","object":{"code":410,"message":"too old"}}`
	want("d[10.0.0.4]")
	// The server is away: what is known stays.
	api.set(http.StatusServiceUnavailable, "")
	api.events <- "end"
	testenv.Eventually(t, "the absence is reported", func() error {
		if w.Err() == nil {
			return errors.New("no error")
		}
		return nil
	})
	want("d[10.0.0.4]")
}

// TestReadPod reads what upstream's types write.
func TestReadPod(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	doc, err := json.Marshal(corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p", Labels: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{NodeName: "n", HostNetwork: true,
			Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80},
				{ContainerPort: 81}}}},
			InitContainers: []corev1.Container{
				{Ports: []corev1.ContainerPort{{Name: "once", ContainerPort: 1}}},
				{RestartPolicy: &always,
					Ports: []corev1.ContainerPort{{Name: "side", ContainerPort: 2, Protocol: "UDP"}}},
			}},
		Status: corev1.PodStatus{Phase: corev1.PodFailed, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	key, got, err := readPod(doc)
	want := netpolicy.Pod{Namespace: "x", Name: "p", Node: "n", Labels: map[string]string{"a": "b"},
		HostNetwork: true, Done: true,
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		Ports:     []netpolicy.ContainerPort{{Name: "http", Number: 80}, {Name: "side", Protocol: "UDP", Number: 2}}}
	if err != nil || key != "x/p" || !reflect.DeepEqual(got, want) {
		t.Errorf("got %s %+v, %v, want %+v", key, got, err, want)
	}
}

func TestReadDNS(t *testing.T) {
	_, got, err := readDNS([]byte(`{"metadata":{"namespace":"kube-system","name":"s"},"endpoints":[` +
		`{"addresses":["10.0.0.1"],"targetRef":{"kind":"Pod"}},{"addresses":["10.89.0.1"]}],` +
		`"ports":[{"name":"dns","port":53,"protocol":"UDP"}]}`))
	want := []netpolicy.Pod{{Namespace: "kube-system", Name: "s-1",
		Labels:    map[string]string{"k8s-app": "kube-dns"},
		Addresses: []netip.Addr{netip.MustParseAddr("10.89.0.1")},
		Ports:     []netpolicy.ContainerPort{{Name: "dns", Protocol: "UDP", Number: 53}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(pod("a", "10.0.0.1")))
	f.Add([]byte(`{"endpoints":[{"addresses":["x"]}],"ports":[{"port":1}]}`))
	f.Add([]byte(`{"spec":{"ingress":[{"ports":[{"port":"a"}]}]}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, k := range kinds() {
			if _, o, err := k.read(doc); err == nil && o == nil {
				t.Errorf("%s: nothing and no error", k.name)
			}
		}
	})
}
