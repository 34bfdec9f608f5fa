// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
)

var testPool, testPool6 = netip.MustParsePrefix("10.90.0.0/29"), netip.MustParsePrefix("fd00:10:90::/125")

var testNetworks = []netip.Prefix{netip.MustParsePrefix("10.89.0.0/24"), netip.MustParsePrefix("fd00:10:89::/64")}

// fakeRouter remembers what it was told last.
type fakeRouter struct {
	mu     sync.Mutex
	fronts []fabric.Front
	calls  int
	err    error
}

func (r *fakeRouter) Set(_ context.Context, fronts []fabric.Front) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fronts, r.calls = fronts, r.calls+1
	return r.err
}

// String lists the fronts: "10.90.0.1 tcp 80 10.89.0.10 (10.89.0.11)", with nodes that are not fit
// in parentheses.
func (r *fakeRouter) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, f := range r.fronts {
		line := fmt.Sprint(f.Address, " ", f.Protocol, " ", f.Port)
		for _, n := range f.Nodes {
			if n.Fit {
				line += " " + n.Address.String()
			} else {
				line += " (" + n.Address.String() + ")"
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// lab is a balancer with its surroundings.
type lab struct {
	*balancer
	t     *testing.T
	store cache.Indexer
	to    *fakeRouter
	sick  map[probe]bool
	mu    sync.Mutex
	asked []probe // guarded by mu
}

func newLab(t *testing.T, existing ...*corev1.Service) *lab {
	t.Helper()
	return newLabWith(t, pools{testPool}, existing...)
}

func newLabWith(t *testing.T, has pools, existing ...*corev1.Service) *lab {
	t.Helper()
	l := &lab{t: t, to: &fakeRouter{}, sick: map[probe]bool{},
		store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
	for _, s := range existing {
		l.put(s)
	}
	l.balancer = &balancer{pools: has, networks: testNetworks, router: l.to,
		services: corelisters.NewServiceLister(l.store),
		ask: func(_ context.Context, p probe) error {
			l.mu.Lock()
			l.asked = append(l.asked, p)
			l.mu.Unlock()
			if l.sick[p] {
				return errors.New("503")
			}
			return nil
		}}
	if err := l.begin(); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lab) put(s *corev1.Service) {
	l.t.Helper()
	if err := l.store.Add(s); err != nil {
		l.t.Fatal(err)
	}
}

// ensure does what upstream's controller does with a Service.
func (l *lab) ensure(s *corev1.Service) (string, error) {
	l.t.Helper()
	st, err := l.EnsureLoadBalancer(l.t.Context(), "c", s, testNodes())
	if err != nil {
		return "", err
	}
	s = s.DeepCopy()
	s.Finalizers, s.Status.LoadBalancer = []string{servicehelper.LoadBalancerCleanupFinalizer}, *st
	l.put(s)
	var out []string
	for _, in := range st.Ingress {
		out = append(out, in.IP)
	}
	return strings.Join(out, " "), nil
}

func service(name string, edit func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}},
	}
	if edit != nil {
		edit(s)
	}
	return s
}

// withAddress is a Service of an earlier life.
func withAddress(name, ip string) *corev1.Service {
	return service(name, func(s *corev1.Service) {
		s.Finalizers = []string{servicehelper.LoadBalancerCleanupFinalizer}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
	})
}

func testNodes() []*corev1.Node {
	return []*corev1.Node{node("first", 1, "10.89.0.10"), node("second", 1, "10.89.0.110")}
}

// node is one that registered at a time, in seconds.
func node(name string, at int64, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(at, 0)}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "x"}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

func TestAddresses(t *testing.T) {
	l := newLab(t)
	for i, want := range []string{"10.90.0.1", "10.90.0.2", "10.90.0.3"} {
		s := service(fmt.Sprint("s", i), nil)
		for range 2 { // asking again changes nothing
			if got, err := l.ensure(s); err != nil || got != want {
				t.Fatalf("got %s, %v, want %s", got, err, want)
			}
		}
	}
	wish := service("wish", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "10.90.0.6" })
	if got, err := l.ensure(wish); err != nil || got != "10.90.0.6" {
		t.Fatalf("got %s, %v", got, err)
	}
	for _, c := range []struct{ ip, want string }{
		{"10.90.0.6", "Service default/wish has this address"},
		{"10.90.0.0", "has the addresses 10.90.0.1 to 10.90.0.6"},
		{"10.90.0.7", "choose one of them"},
		{"192.0.2.1", "choose one of them"},
		{"fd00::1", "choose one of them"},
		{"nonsense", `spec.loadBalancerIP "nonsense"`},
	} {
		s := service("other", func(s *corev1.Service) { s.Spec.LoadBalancerIP = c.ip })
		if got, err := l.ensure(s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %s, %v, want %q", c.ip, got, err, c.want)
		}
	}
	for i := range 2 {
		if _, err := l.ensure(service(fmt.Sprint("more", i), nil)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := l.ensure(service("late", nil))
	want := "all 6 addresses of the pool 10.90.0.0/29 are in use"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v, want %q", err, want)
	}
	// An address that is given back goes to the next Service.
	gone := service("s1", nil)
	if err := l.EnsureLoadBalancerDeleted(t.Context(), "c", gone); err != nil {
		t.Fatal(err)
	}
	if err := l.store.Delete(gone); err != nil {
		t.Fatal(err)
	}
	if got, err := l.ensure(service("late", nil)); err != nil || got != "10.90.0.2" {
		t.Fatalf("got %s, %v", got, err)
	}
}

func TestSmallPools(t *testing.T) {
	for pool, want := range map[string][2]string{
		"10.90.0.0/24": {"10.90.0.1", "10.90.0.254"}, "10.90.0.4/30": {"10.90.0.5", "10.90.0.6"},
		"10.90.0.4/31": {"10.90.0.4", "10.90.0.5"}, "10.90.0.4/32": {"10.90.0.4", "10.90.0.4"},
		"fd00::/112": {"fd00::1", "fd00::ffff"}, "fd00::4/126": {"fd00::5", "fd00::7"},
		"fd00::4/127": {"fd00::4", "fd00::5"}, "fd00::4/128": {"fd00::4", "fd00::4"},
	} {
		first, last := bounds(netip.MustParsePrefix(pool))
		if first.String() != want[0] || last.String() != want[1] {
			t.Errorf("%s: got %s to %s, want %v", pool, first, last, want)
		}
	}
}

// TestNewLife: the router keeps what an earlier life told it until all of its Services have been seen, and
// no new Service gets the address of one of them.
func TestNewLife(t *testing.T) {
	a, b := withAddress("a", "10.90.0.1"), withAddress("b", "10.90.0.2")
	l := newLab(t, a, b)
	if _, exists, err := l.GetLoadBalancer(t.Context(), "c", a); !exists || err != nil {
		t.Errorf("got %t, %v for a Service of an earlier life", exists, err)
	}
	if got, err := l.ensure(service("c", nil)); err != nil || got != "10.90.0.3" {
		t.Fatalf("got %s, %v", got, err)
	}
	if got, err := l.ensure(b); err != nil || got != "10.90.0.2" {
		t.Fatalf("got %s, %v", got, err)
	}
	if err := l.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.to.calls != 0 {
		t.Errorf("the router was told %s", l.to)
	}
	if err := l.EnsureLoadBalancerDeleted(t.Context(), "c", a); err != nil {
		t.Fatal(err)
	}
	want := "10.90.0.2 tcp 80 10.89.0.10 10.89.0.110\n10.90.0.3 tcp 80 10.89.0.10 10.89.0.110"
	if got := l.to.String(); got != want {
		t.Errorf("the router was told\n%s\nwant\n%s", got, want)
	}
}

// TestForeignClass: a Service of another controller's class that carries upstream's finalizer, which others use too,
// keeps nothing waiting.
func TestForeignClass(t *testing.T) {
	foreign := withAddress("foreign", "192.0.2.1")
	foreign.Spec.LoadBalancerClass = new("example.com/other")
	l := newLab(t, foreign, withAddress("a", "10.90.0.1"))
	if _, err := l.ensure(service("a", nil)); err != nil {
		t.Fatal(err)
	}
	if got, want := l.to.String(), "10.90.0.1 tcp 80 10.89.0.10 10.89.0.110"; got != want || l.note() != "" {
		t.Errorf("the router was told %q, want %q; note %q", got, want, l.note())
	}
	// Upstream's controller takes the finalizer from one that is deleted.
	foreign.DeletionTimestamp = &metav1.Time{}
	if !comes(foreign) || comes(service("none", nil)) {
		t.Error("comes is not what upstream's controller does")
	}
}

// TestUnseen: a Service of an earlier life that is never seen is named, and one that has gone in the meantime does not
// count.
func TestUnseen(t *testing.T) {
	a, b := withAddress("a", "10.90.0.1"), withAddress("b", "10.90.0.2")
	l := newLab(t, a, b)
	if _, err := l.ensure(b); err != nil {
		t.Fatal(err)
	}
	if got := l.note(); !strings.Contains(got, "Services that it has not come to: [default/a]") {
		t.Errorf("got %q", got)
	}
	if err := l.store.Delete(a); err != nil {
		t.Fatal(err)
	}
	if err := l.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := l.to.String(), "10.90.0.2 tcp 80 10.89.0.10 10.89.0.110"; got != want || l.note() != "" {
		t.Errorf("the router was told %q, want %q; note %q", got, want, l.note())
	}
}

// TestForgedAddresses: addresses that a node must not have are neither asked nor given to the router, and the first
// node keeps an address that another claims. The others go on.
func TestForgedAddresses(t *testing.T) {
	claims := []string{"127.0.0.1", "::1", "10.89.0.1", "10.89.0.254", "10.89.0.255", "10.89.0.0", "10.89.1.10",
		"192.0.2.1", "169.254.169.254", "fd00:10:89::1", "fd00:10:89::2", "fd00:10:88::5", "fe80::1%eth0",
		"::ffff:10.89.0.20", "0.0.0.0", "224.0.0.1", "x", strings.Repeat("9", 100)}
	nodes := testNodes()
	for i, c := range claims {
		nodes = append(nodes, node(fmt.Sprint("forged-", i), 2, c))
	}
	nodes = append(nodes, node("thief", 3, "10.89.0.10"), node("moves", 3, "10.89.0.110", "10.89.0.30"))
	l := newLabWith(t, pools{testPool, testPool6})
	s := service("s", bothFamilies(corev1.IPFamilyPolicyPreferDualStack))
	s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 31777
	slices.Reverse(nodes) // the order of a list means nothing
	if _, err := l.EnsureLoadBalancer(t.Context(), "c", s, nodes); err != nil {
		t.Fatal(err)
	}
	if err := l.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = "fd00:10:90::1 tcp 80\n10.90.0.1 tcp 80 10.89.0.10 10.89.0.30 10.89.0.110"
	if got := l.sorted(); got != want {
		t.Errorf("the router was told\n%s\nwant\n%s", got, want)
	}
	for _, p := range l.asked {
		if !slices.Contains([]string{"10.89.0.10", "10.89.0.30", "10.89.0.110"}, p.node.String()) {
			t.Errorf("asked %v", p)
		}
	}
	note := l.note()
	for _, want := range []string{`address "127.0.0.1" of node forged-0: not one for nodes`,
		"address 10.89.0.10 of node thief: node first has it"} {
		if !strings.Contains(note, want) {
			t.Errorf("no %q in %q", want, note)
		}
	}
}

// sorted is the router's String with the nodes of each front in order.
func (l *lab) sorted() string {
	for _, f := range l.to.fronts {
		slices.SortFunc(f.Nodes, func(a, b fabric.Target) int { return a.Address.Compare(b.Address) })
	}
	return l.to.String()
}

// TestFailsAlone: a Service that the router would refuse does not keep it from the others.
func TestFailsAlone(t *testing.T) {
	l := newLab(t)
	twice := service("twice", func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, s.Spec.Ports[0]) })
	if _, err := l.ensure(twice); err == nil || !strings.Contains(err.Error(), "10.90.0.1 tcp 80: listed twice") {
		t.Errorf("got %v", err)
	}
	if _, err := l.ensure(service("s", nil)); err != nil {
		t.Fatal(err)
	}
	if got, want := l.to.String(), "10.90.0.1 tcp 80 10.89.0.10 10.89.0.110"; got != want {
		t.Errorf("the router was told %q, want %q", got, want)
	}
}

func TestFitness(t *testing.T) {
	l := newLab(t)
	one, other := probe{netip.MustParseAddr("10.89.0.10"), proxyHealthPort},
		probe{netip.MustParseAddr("10.89.0.110"), proxyHealthPort}
	l.sick[other] = true
	if _, err := l.ensure(service("s", nil)); err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		if got := l.to.String(); got != "10.90.0.1 tcp 80 "+want {
			t.Errorf("the router was told %q, want %q", got, want)
		}
	}
	check := func() {
		t.Helper()
		if err := l.check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	expect("10.89.0.10 (10.89.0.110)") // asked at once
	l.sick[other] = false
	check()
	expect("10.89.0.10 10.89.0.110")
	l.sick[one] = true
	check()
	expect("10.89.0.10 10.89.0.110") // a single failure does not count
	check()
	expect("(10.89.0.10) 10.89.0.110")
	// Answers that we did not wait for say nothing.
	l.sick[one], l.sick[other] = false, true
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		_ = l.check(ended)
	}
	expect("(10.89.0.10) 10.89.0.110")
	// The nodes change.
	if err := l.UpdateLoadBalancer(t.Context(), "c", service("s", nil), testNodes()[1:]); err != nil {
		t.Fatal(err)
	}
	expect("10.89.0.110")
	l.to.err = errors.New("no router")
	if err := l.check(t.Context()); !errors.Is(err, l.to.err) {
		t.Errorf("got %v", err)
	}
}

func TestDescribe(t *testing.T) {
	sctp := corev1.ServicePort{Protocol: corev1.ProtocolSCTP, Port: 99}
	for _, c := range []struct {
		name  string
		edit  func(*corev1.Service)
		check func(route) bool
		want  string
	}{
		{name: "plain", check: func(r route) bool {
			return len(r.sources) == 0 && !r.byClient && len(r.targets) == 2 &&
				r.targets[0].probe.port == proxyHealthPort
		}},
		{name: "Local", edit: func(s *corev1.Service) {
			s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 31234
		}, check: func(r route) bool { return r.targets[0].probe.port == 31234 }},
		{name: "affinity", edit: func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
			check: func(r route) bool { return r.byClient }},
		{name: "sources", edit: func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{"10.1.0.0/16", " 10.0.0.0/8", "fd00::/8"}
		}, check: func(r route) bool {
			return slices.Equal(r.sources, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
		}},
		{name: "sources of IPv6 only", edit: func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{"fd00::/8"}
		}, want: "no client could connect"},
		{name: "bad source", edit: func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"x"} },
			want: "spec.loadBalancerSourceRanges"},
		{name: "SCTP", edit: func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, sctp) },
			want: "port 99: SCTP"},
		{name: "all of IPv4", edit: func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{"0.0.0.0/0", "10.1.0.0/16"}
		}, check: func(r route) bool { return len(r.sources) == 0 && !r.closed }},
	} {
		t.Run(c.name, func(t *testing.T) {
			members, _ := membersOf(testNodes(), testNetworks)
			routes, err := describe(service("s", c.edit), members, []netip.Addr{netip.MustParseAddr("10.90.0.1")})
			var r route
			if err == nil {
				r = routes[0]
			}
			switch {
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			case c.want == "" && (err != nil || !c.check(r)):
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

func TestUsedIsNotOurs(t *testing.T) {
	// The status of a Service that another controller serves, or whose load balancer is gone.
	foreign := withAddress("foreign", "10.90.0.1")
	foreign.Finalizers = nil
	l := newLab(t, foreign)
	used, err := l.used(types.NamespacedName{})
	if err != nil || len(used) != 0 {
		t.Errorf("got %v, %v", used, err)
	}
}
