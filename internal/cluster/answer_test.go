// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
)

// TestAwaitAnswer: the wait ends with the first connection; until then it says
// what the Service lacks.
func TestAwaitAnswer(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "shop", Labels: map[string]string{"app": "web"}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
		}}},
	}
	ready := true
	endpoints := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "web-x", Namespace: "shop",
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Endpoints: []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + listener.Addr().String()
	if err := AwaitAnswer(t.Context(), fake.NewClientset(service), "shop", "web", address,
		func(string) {}); err != nil {
		t.Errorf("with a listener: %v", err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for want, objects := range map[string][]runtime.Object{
		"no pod has the labels that it selects, app=web": {service},
		"waiting for pods: web-1 (ImagePullBackOff)":     {service, pod},
		"waiting for kube-proxy to open its port":        {service, pod, endpoints},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		err := AwaitAnswer(ctx, fake.NewClientset(objects...), "shop", "web", address, func(what string) {
			got = append(got, what)
			cancel()
		})
		if !slices.Contains(got, want) || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
		cancel()
	}
	if err := AwaitAnswer(t.Context(), fake.NewClientset(), "shop", "web", address, func(string) {}); err == nil {
		t.Error("a Service that does not exist answers")
	}
}

// TestAwaitAnswerAsksSeldom: at the end there is a reason, not an error of a client that asked too often.
func TestAwaitAnswerAsksSeldom(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body := `{"items": []}`
		if strings.HasSuffix(r.URL.Path, "/services/web") {
			body = `{"metadata": {"namespace": "shop", "name": "web"}, "spec": {"selector": {"app": "web"}}}`
		}
		_, _ = io.WriteString(w, body) // the client says what is missing
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: 5, Burst: 5})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err = AwaitAnswer(ctx, client, "shop", "web", "http://127.0.0.1:1", func(string) {})
	if want := "no pod has the labels that it selects, app=web"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %q", err, want)
	}
}
