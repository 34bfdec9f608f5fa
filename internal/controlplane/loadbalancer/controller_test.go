// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package loadbalancer

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestController runs upstream's controller on a fake API server: addresses, the finalizer, and events
// that say why there is no address.
func TestController(t *testing.T) {
	class := "example.com/other"
	client := fake.NewClientset(service("web", nil),
		service("wish", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.7" }),
		service("classed", func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class }),
		service("both", func(s *corev1.Service) {
			bothFamilies(corev1.IPFamilyPolicyPreferDualStack)(s)
			s.Spec.LoadBalancerIP = "10.90.0.5" // web's is the first
		}),
		service("plain", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }),
		node("forged", 1, "192.0.2.1"))
	to, log := &fakeRouter{}, &logged{}
	c := Controller{Client: client, Cluster: "c", Pools: []netip.Prefix{testPool}, NodeCIDRs: testNetworks, Router: to,
		Log: slog.New(slog.NewTextHandler(log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	services := client.CoreV1().Services("default")
	testenv.Eventually(t, "web has an address", func() error {
		s, err := services.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		in := s.Status.LoadBalancer.Ingress
		if len(s.Finalizers) != 1 || len(in) != 1 || in[0].IP != "10.90.0.1" ||
			*in[0].IPMode != corev1.LoadBalancerIPModeVIP {
			return fmt.Errorf("got %v, %v", s.Finalizers, in)
		}
		return nil
	})
	for _, e := range []struct{ object, reason, text string }{
		{"wish", "SyncLoadBalancerFailed", `spec.loadBalancerIP "192.0.2.7": this cluster has the addresses`},
		{"classed", "LoadBalancerClassNotOurs", `spec.loadBalancerClass is "example.com/other"`},
		{"both", "LoadBalancerFamilyMissing", "spec.ipFamilies: IPv6: the cluster's load balancer has no pool for it"},
	} {
		hasEvent(t, client, e.object, e.reason, e.text)
	}
	for i := range 4 { // web and both have two of the pool's six addresses
		create(t, client, fmt.Sprint("more", i))
		hasEvent(t, client, fmt.Sprint("more", i), "EnsuredLoadBalancer", "")
	}
	create(t, client, "late")
	hasEvent(t, client, "late", "SyncLoadBalancerFailed", "all 6 addresses of the pool 10.90.0.0/29 are in use")
	for _, name := range []string{"classed", "plain"} {
		s, err := services.Get(ctx, name, metav1.GetOptions{})
		if err != nil || len(s.Status.LoadBalancer.Ingress) != 0 || len(s.Finalizers) != 0 {
			t.Errorf("%s: got %v, %v, %v", name, s.Status, s.Finalizers, err)
		}
	}
	testenv.Eventually(t, "a line about the node's address", func() error {
		if got := log.String(); !strings.Contains(got, "of node forged: not one for nodes") {
			return fmt.Errorf("got %q", got)
		}
		return nil
	})
}

// logged keeps the text that was logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func create(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	_, err := client.CoreV1().Services("default").Create(t.Context(), service(name, nil), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// hasEvent waits for an event about a Service.
func hasEvent(t *testing.T, client kubernetes.Interface, object, reason, text string) {
	t.Helper()
	testenv.Eventually(t, "an event about "+object, func() error {
		list, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, ev := range list.Items {
			if ev.InvolvedObject.Name == object && ev.Reason == reason && strings.Contains(ev.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("got %v", list.Items)
	})
}
