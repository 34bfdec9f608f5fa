// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestServiceURL(t *testing.T) {
	node := func(name, ip string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Message: "kubelet is starting"}},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name},
				{Type: corev1.NodeInternalIP, Address: ip}}}}
	}
	service := func(name string, ports ...corev1.ServicePort) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports}}
	}
	balanced := service("balanced", corev1.ServicePort{Port: 443})
	balanced.Spec.Type = corev1.ServiceTypeLoadBalancer
	pending := balanced.DeepCopy()
	pending.Name = "pending"
	balanced.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.90.0.1"}}
	six := service("six", corev1.ServicePort{Port: 80, NodePort: 30081})
	six.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	both := service("both", corev1.ServicePort{Port: 80, NodePort: 30082})
	both.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	balanced6 := six.DeepCopy()
	balanced6.Name, balanced6.Spec.Type = "balanced6", corev1.ServiceTypeLoadBalancer
	balanced6.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "fd00:10:90::1"}}
	// kube-proxy of Windows Server 2019 has one family, whatever addresses its node has.
	old := node("win-2", "10.89.0.11", corev1.ConditionTrue)
	old.Labels = map[string]string{corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: "10.0.17763"}
	old.Status.Addresses = append(old.Status.Addresses,
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fd00:10:89::11"})
	client := fake.NewClientset(balanced, pending, six, both, balanced6,
		node("win-1", "10.89.0.10", corev1.ConditionFalse), old,
		service("web", corev1.ServicePort{Name: "http", Port: 80, NodePort: 30080},
			corev1.ServicePort{Name: "https", Port: 443, NodePort: 30443}),
		service("inner", corev1.ServicePort{Port: 80}),
	)
	for _, tc := range []struct{ service, port, want, err string }{
		{"web", "", "http://10.89.0.11:30080", ""},
		{"web", "https", "https://10.89.0.11:30443", ""},
		{"balanced", "", "https://10.90.0.1:443", ""},
		{"pending", "", "", "type LoadBalancer, which has no node port"},
		{"web", "metrics", "", `has no port "metrics"`},
		{"six", "", "", "service shop/six has IPv6 only, and no node that is ready serves its node port 30081 in it; " +
			"set spec.ipFamilyPolicy to PreferDualStack, or use 'mullion kubectl port-forward service/six'"},
		{"balanced6", "", "http://[fd00:10:90::1]:80", ""},
		{"both", "", "http://10.89.0.11:30082", ""},
		{"inner", "", "", "port-forward service/inner"},
		{"none", "", "", "not found"},
	} {
		got, err := ServiceURL(t.Context(), client, "shop", tc.service, tc.port)
		if got != tc.want || (tc.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("ServiceURL(%s, %q) = %q, %v", tc.service, tc.port, got, err)
		}
	}
	win3 := node("win-3", "10.89.0.12", corev1.ConditionTrue)
	win3.Labels = map[string]string{corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: "10.0.20348"}
	win3.Status.Addresses = append(win3.Status.Addresses,
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fd00:10:89::12"})
	if _, err := client.CoreV1().Nodes().Create(t.Context(), win3, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err := ServiceURL(t.Context(), client, "shop", "six", ""); got != "http://[fd00:10:89::12]:30081" {
		t.Errorf("ServiceURL(six) = %q, %v", got, err)
	}
	if err := NodeReady(t.Context(), client, "win-1"); err == nil ||
		!strings.Contains(err.Error(), "kubelet is starting") {
		t.Errorf("win-1: %v", err)
	}
}
