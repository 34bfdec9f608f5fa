// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package loadbalancer

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
)

// FuzzService: whatever a Service and the addresses of a node say, the router is told only what it can carry out: one
// front that it cannot would keep it from all the others.
func FuzzService(f *testing.F) {
	seed := func(edit func(*corev1.Service), node string) {
		s, err := json.Marshal(service("s", edit))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s, node)
	}
	seed(nil, "10.89.0.10")
	seed(nil, "10.89.0.1")
	seed(bothFamilies(corev1.IPFamilyPolicyRequireDualStack), "fd00:10:89::a")
	seed(func(s *corev1.Service) { s.Spec.LoadBalancerIP = "::ffff:10.90.0.3" }, "::ffff:10.89.0.10")
	seed(func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.1/8", "fd00::/8"} }, "0.0.0.0")
	seed(func(s *corev1.Service) {
		s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 30000
		s.Spec.Ports[0].Protocol = corev1.ProtocolUDP
	}, "fe80::1%eth0")
	f.Fuzz(func(t *testing.T, doc []byte, node string) {
		var s corev1.Service
		invalid := func(p corev1.ServicePort) bool { return p.Port < 1 || p.Port > 65535 } // the API server refuses it
		if json.Unmarshal(doc, &s) != nil || slices.ContainsFunc(s.Spec.Ports, invalid) {
			return
		}
		l := newLabWith(t, pools{testPool, testPool6})
		nodes := append(testNodes(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: node}}}})
		if _, err := l.EnsureLoadBalancer(t.Context(), "c", &s, nodes); err != nil {
			return // the Service's owner sees it in an event
		}
		for _, front := range l.to.fronts {
			a := front.Address
			if a.Zone() != "" || a.Is4In6() || !testPool.Contains(a) && !testPool6.Contains(a) {
				t.Errorf("address %s", a)
			}
			if front.Port == 0 || front.Protocol != "tcp" && front.Protocol != "udp" {
				t.Errorf("port %s %d", front.Protocol, front.Port)
			}
			for i, p := range front.Sources {
				if p != p.Masked() || p.Addr().Is4() != a.Is4() || slices.ContainsFunc(front.Sources[:i], p.Overlaps) {
					t.Errorf("sources %v", front.Sources)
				}
			}
			for _, n := range front.Nodes {
				if !fabric.IsHost(testNetworks[0], n.Address) {
					t.Errorf("node %s", n.Address)
				}
			}
		}
		if err := fabric.CheckFronts([]netip.Prefix{testPool, testPool6}, l.to.fronts); err != nil {
			t.Error(err)
		}
		for _, p := range l.asked {
			if !fabric.IsHost(testNetworks[0], p.node) && !fabric.IsHost(testNetworks[1], p.node) {
				t.Errorf("asked %v", p)
			}
		}
	})
}
