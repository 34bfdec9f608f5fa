// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package loadbalancer

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// bothFamilies makes a Service as the API server stores it in a cluster of two families, with IPv6 first.
func bothFamilies(policy corev1.IPFamilyPolicy) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.IPFamilyPolicy = &policy
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	}
}

func onlyIPv6(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }

// TestFamilies: a Service gets an address of each of its families for which there is a pool, in its own order.
func TestFamilies(t *testing.T) {
	both, one, six := pools{testPool, testPool6}, pools{testPool}, pools{testPool6}
	prefer := bothFamilies(corev1.IPFamilyPolicyPreferDualStack)
	require := bothFamilies(corev1.IPFamilyPolicyRequireDualStack)
	wish := func(edit func(*corev1.Service), ip string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			if edit != nil {
				edit(s)
			}
			s.Spec.LoadBalancerIP = ip
		}
	}
	for _, c := range []struct {
		name  string
		has   pools
		edit  func(*corev1.Service)
		want  string
		fails string
	}{
		{name: "IPv4", has: both, want: "10.90.0.1"},
		{name: "IPv6", has: both, edit: onlyIPv6, want: "fd00:10:90::1"},
		{name: "preferred", has: both, edit: prefer, want: "fd00:10:90::1 10.90.0.1"},
		{name: "required", has: both, edit: require, want: "fd00:10:90::1 10.90.0.1"},
		{name: "IPv4 first", has: both, edit: func(s *corev1.Service) {
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		}, want: "10.90.0.1 fd00:10:90::1"},
		{name: "no families", has: both, edit: func(s *corev1.Service) { s.Spec.IPFamilies = nil }, want: "10.90.0.1"},

		{name: "IPv6 without a pool", has: one, edit: onlyIPv6,
			fails: "spec.ipFamilies: IPv6: the cluster's load balancer has IPv4 addresses only"},
		{name: "IPv4 without a pool", has: six,
			fails: "spec.ipFamilies: IPv4: the cluster's load balancer has IPv6 addresses only"},
		{name: "preferred without a pool", has: one, edit: prefer, want: "10.90.0.1"},
		{name: "preferred without a pool of IPv4", has: six, edit: prefer, want: "fd00:10:90::1"},
		{name: "required without a pool", has: one, edit: require,
			fails: "spec.ipFamilyPolicy: RequireDualStack: the cluster's load balancer has IPv4 addresses only; with " +
				"PreferDualStack the Service gets one"},

		{name: "wish of IPv4", has: both, edit: wish(prefer, "10.90.0.5"), want: "fd00:10:90::1 10.90.0.5"},
		{name: "wish of IPv6", has: both, edit: wish(prefer, "fd00:10:90::5"), want: "fd00:10:90::5 10.90.0.1"},
		{name: "wish of the only family", has: both, edit: wish(onlyIPv6, "fd00:10:90:0::7"), want: "fd00:10:90::7"},
		{name: "wish of the network's address", has: both, edit: wish(onlyIPv6, "fd00:10:90::"),
			fails: "this cluster has the addresses fd00:10:90::1 to fd00:10:90::7; choose one of them"},
		{name: "wish with a zone", has: both, edit: wish(onlyIPv6, "fd00:10:90::5%eth0"),
			fails: "this cluster has the addresses fd00:10:90::1 to fd00:10:90::7; choose one of them"},
		{name: "wish of another family", has: both, edit: wish(nil, "fd00:10:90::5"),
			fails: "spec.loadBalancerIP fd00:10:90::5: the Service has no IPv6; add it to spec.ipFamilies, or choose " +
				"one of 10.90.0.1 to 10.90.0.6"},
		{name: "wish of no pool", has: both, edit: wish(prefer, "fd00::1"),
			fails: "has the addresses fd00:10:90::1 to fd00:10:90::7 and 10.90.0.1 to 10.90.0.6; choose one of them"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := newLabWith(t, c.has).ensure(service("s", c.edit))
			if got != c.want || (err == nil) != (c.fails == "") ||
				err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("got %q, %v, want %q %q", got, err, c.want, c.fails)
			}
		})
	}
}

// TestExhaustedFamily: a Service that wants two addresses gets none while the pool of one family is exhausted. It
// leaves the other's addresses alone.
func TestExhaustedFamily(t *testing.T) {
	l := newLabWith(t, pools{testPool, netip.MustParsePrefix("fd00:10:90::4/127")})
	prefer := bothFamilies(corev1.IPFamilyPolicyPreferDualStack)
	for _, c := range []struct{ name, want string }{
		{"a", "fd00:10:90::4 10.90.0.1"}, {"b", "fd00:10:90::5 10.90.0.2"},
	} {
		if got, err := l.ensure(service(c.name, prefer)); err != nil || got != c.want {
			t.Fatalf("got %s, %v, want %s", got, err, c.want)
		}
	}
	const full = "all 2 addresses of the pool fd00:10:90::4/127 are in use"
	if got, err := l.ensure(service("c", prefer)); err == nil || !strings.Contains(err.Error(), full) {
		t.Fatalf("got %s, %v, want %q", got, err, full)
	}
	if got, err := l.ensure(service("d", nil)); err != nil || got != "10.90.0.3" {
		t.Fatalf("got %s, %v", got, err)
	}
	// A Service that gives a family up gives its address back, and keeps the other.
	if got, err := l.ensure(service("a", nil)); err != nil || got != "10.90.0.1" {
		t.Fatalf("got %s, %v", got, err)
	}
	if got, err := l.ensure(service("c", prefer)); err != nil || got != "fd00:10:90::4 10.90.0.4" {
		t.Fatalf("got %s, %v", got, err)
	}
}

// dualNodes are a host of Windows Server 2022, one of 2019, whose kube-proxy has one family, a Linux worker, and a node
// with one address.
func dualNodes() []*corev1.Node {
	node := func(labels map[string]string, addresses ...string) *corev1.Node {
		n := node(addresses[0], 1, addresses...)
		n.Labels = labels
		return n
	}
	windows := func(build string) map[string]string {
		return map[string]string{corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: build}
	}
	return []*corev1.Node{
		node(windows("10.0.20348"), "10.89.0.10", "fd00:10:89::10"),
		node(windows("10.0.17763"), "10.89.0.11", "fd00:10:89::11"),
		node(map[string]string{corev1.LabelOSStable: "linux"}, "10.89.0.110", "fd00:10:89::110"),
		node(map[string]string{corev1.LabelOSStable: "linux"}, "10.89.0.111"),
	}
}

// TestTwoFronts: the router is told of each address, and sends IPv6 only to nodes that serve it. With Local, a node is
// asked in the family of the address.
func TestTwoFronts(t *testing.T) {
	l := newLabWith(t, pools{testPool, testPool6})
	s := service("s", bothFamilies(corev1.IPFamilyPolicyPreferDualStack))
	ensure := func() {
		t.Helper()
		if _, err := l.EnsureLoadBalancer(t.Context(), "c", s, dualNodes()); err != nil {
			t.Fatal(err)
		}
	}
	ensure()
	expect := func(six, four string) {
		t.Helper()
		if got, want := l.to.String(), "fd00:10:90::1 tcp 80"+six+"\n10.90.0.1 tcp 80"+four; got != want {
			t.Errorf("the router was told\n%s\nwant\n%s", got, want)
		}
	}
	expect(" 10.89.0.10 10.89.0.110", " 10.89.0.10 10.89.0.11 10.89.0.110 10.89.0.111")

	s = s.DeepCopy()
	s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 31234
	l.sick[probe{netip.MustParseAddr("fd00:10:89::10"), 31234}] = true
	l.sick[probe{netip.MustParseAddr("10.89.0.11"), 31234}] = true
	l.sick[probe{netip.MustParseAddr("10.89.0.111"), 31234}] = true
	ensure()
	expect(" (10.89.0.10) 10.89.0.110", " 10.89.0.10 (10.89.0.11) 10.89.0.110 (10.89.0.111)")
	l.sick = map[probe]bool{}
	if err := l.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(" 10.89.0.10 10.89.0.110", " 10.89.0.10 10.89.0.11 10.89.0.110 10.89.0.111")

	// The nodes change.
	if err := l.UpdateLoadBalancer(t.Context(), "c", s, dualNodes()[1:3]); err != nil {
		t.Fatal(err)
	}
	expect(" 10.89.0.110", " 10.89.0.11 10.89.0.110")
	if err := l.EnsureLoadBalancerDeleted(t.Context(), "c", s); err != nil || l.to.String() != "" {
		t.Errorf("the router was told %q, %v", l.to, err)
	}
}

// TestSourcesOfFamilies: a list of clients without any of a family lets none of it in.
func TestSourcesOfFamilies(t *testing.T) {
	for _, c := range []struct{ ranges, want string }{
		{"", "[] false, [] false"},
		{"10.0.0.0/8 fd00::/8", "[fd00::/8] false, [10.0.0.0/8] false"},
		{"10.0.0.0/8", "[] true, [10.0.0.0/8] false"},
		{"fd00::/8 fd00:1::/32", "[fd00::/8] false, [] true"},
		{"0.0.0.0/0 fd00::/8", "[fd00::/8] false, [] false"},
		{"::/0 10.0.0.0/8", "[] false, [10.0.0.0/8] false"},
	} {
		l := newLabWith(t, pools{testPool, testPool6})
		s := service("s", bothFamilies(corev1.IPFamilyPolicyPreferDualStack))
		s.Spec.LoadBalancerSourceRanges = strings.Fields(c.ranges)
		if _, err := l.ensure(s); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range l.to.fronts {
			got = append(got, fmt.Sprint(f.Sources, f.Closed))
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%q: the router was told %s, want %s", c.ranges, got, c.want)
		}
	}
	l := newLabWith(t, pools{testPool, testPool6})
	_, err := l.ensure(service("s", func(s *corev1.Service) {
		onlyIPv6(s)
		s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"}
	}))
	const want = "spec.loadBalancerSourceRanges: 10.0.0.0/8: no IPv6 range among them, so no client could connect"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}
