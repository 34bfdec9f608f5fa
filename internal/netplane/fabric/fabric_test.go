// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// machine is a namespace that stands for the machine.
type machine struct {
	t          *testing.T
	dir, netns string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Nft)
	m := &machine{t: t, dir: t.TempDir()}
	t.Cleanup(func() { netlab.CheckNoMounts(t, m.dir) })
	m.netns = netlab.Namespace(t, filepath.Join(m.dir, "machine"))
	return m
}

func (m *machine) fabric(name string, index int) *fabric.Fabric {
	m.t.Helper()
	return m.with(netlab.FabricConfig(name, index))
}

// with makes a fabric that is deleted when the test ends.
func (m *machine) with(cfg fabric.Config) *fabric.Fabric {
	m.t.Helper()
	cfg.Dir, cfg.Machine = filepath.Join(m.dir, "netns"), m.netns
	f, err := fabric.New(cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		if err := f.Delete(context.Background()); err != nil {
			m.t.Errorf("clean up: %v", err)
		}
	})
	return f
}

func run(t *testing.T, netns string, argv ...string) string {
	t.Helper()
	s, err := kernel.Open(netns)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out []byte
	err = s.Do(func() (err error) {
		out, err = exec.Command(argv[0], argv[1:]...).CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}

// state is all that a fabric can change in a namespace.
func state(t *testing.T, netns string) string {
	return run(t, netns, "ip", "-4", "-br", "address") + run(t, netns, "ip", "-4", "route") +
		run(t, netns, "nft", "list", "ruleset")
}

func apply(t *testing.T, f *fabric.Fabric) {
	t.Helper()
	if err := f.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, f *fabric.Fabric, netns string) {
	t.Helper()
	if err := f.Connect(t.Context(),
		fabric.Attachment{Node: "win-1", Netns: netns, Address: netlab.HostAddress(f.Plan(), 1)}); err != nil {
		t.Fatal(err)
	}
}

// TestSharedWays: of several hosts that are a way to a range, the first is used while it is there.
func TestSharedWays(t *testing.T) {
	m := newMachine(t)
	f := m.fabric("shared", 0)
	apply(t, f)
	inside := f.Plan().Namespace
	router := fabric.OpenRouter(inside)
	first, second := netip.MustParseAddr("10.89.0.11"), netip.MustParseAddr("10.89.0.12")
	all := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/17")}
	set := func(via netip.Addr, ranges []netip.Prefix, want string) {
		t.Helper()
		if err := router.SetShared(t.Context(), via, ranges); err != nil {
			t.Fatal(err)
		}
		if err := router.SetPrefixes(t.Context(), via, nil); err != nil { // the host's own are others
			t.Fatal(err)
		}
		if got := run(t, inside, "ip", "route", "get", "10.244.3.9"); !strings.Contains(got, want) {
			t.Errorf("routed %s, want %s", got, want)
		}
	}
	set(second, all, "via 10.89.0.12")
	set(first, all, "via 10.89.0.11")
	set(first, nil, "via 10.89.0.12")
	set(first, all, "via 10.89.0.11")
	set(second, nil, "via 10.89.0.11")
	if err := f.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestServiceWays: the machine reaches Services by the first of the hosts that forward to them, unless the machine has
// a route of another program.
func TestServiceWays(t *testing.T) {
	m := newMachine(t)
	f := m.fabric("services", 0)
	apply(t, f)
	machine := fabric.OpenRouter(m.netns)
	first, second := netip.MustParseAddr("10.89.0.110"), netip.MustParseAddr("10.89.0.111")
	services := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	set := func(via netip.Addr, ranges []netip.Prefix, want string) {
		t.Helper()
		if err := machine.SetServices(t.Context(), via, ranges); err != nil {
			t.Fatal(err)
		}
		if err := machine.SetShared(t.Context(), via, nil); err != nil { // ranges of pods are others
			t.Fatal(err)
		}
		if got := run(t, m.netns, "ip", "route"); !strings.Contains(got, want) {
			t.Errorf("routes\n%s\nwant %s", got, want)
		}
	}
	set(second, services, "10.96.0.0/16 via 10.89.0.111 ")
	set(first, services, "10.96.0.0/16 via 10.89.0.110 ")
	if got := run(t, m.netns, "ip", "route", "get", "10.96.0.1"); !strings.Contains(got, "via 10.89.0.110") {
		t.Errorf("routed %s", got)
	}
	set(first, nil, "10.96.0.0/16 via 10.89.0.111 ")
	set(second, nil, "10.89.0.0/24 ")
	if got := run(t, m.netns, "ip", "route"); strings.Contains(got, "10.96.") {
		t.Errorf("routes are left\n%s", got)
	}
	run(t, m.netns, "ip", "route", "add", "10.96.4.0/22", "dev", "lo")
	err := machine.SetServices(t.Context(), first, services)
	if err == nil || !strings.Contains(err.Error(), "10.96.0.0/16") || !strings.Contains(err.Error(), "10.96.4.0/22") {
		t.Errorf("beside a route of another program: %v", err)
	}
	if got := run(t, m.netns, "ip", "route"); strings.Contains(got, "10.96.0.0/16") {
		t.Errorf("a route of another program is covered\n%s", got)
	}
	if err := f.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestLifeCycle(t *testing.T) {
	m := newMachine(t)
	empty := state(t, m.netns)
	f := m.fabric("life", 0)
	host := netlab.Namespace(t, filepath.Join(m.dir, "host"))
	for range 2 { // the second time everything is there
		apply(t, f)
		connect(t, f, host)
		if err := fabric.OpenRouter(f.Plan().Namespace).SetPrefixes(t.Context(), netip.MustParseAddr("10.89.0.11"),
			[]netip.Prefix{netip.MustParsePrefix("10.244.3.0/24")}); err != nil {
			t.Fatal(err)
		}
	}
	netlab.Serve(t, host, "host", "tcp4", netip.MustParseAddrPort("10.89.0.11:10250"))
	netlab.Expect(t, m.netns, "tcp4", netip.MustParseAddrPort("10.89.0.11:10250"), "host")
	inside := f.Plan().Namespace
	if got := run(t, inside, "ip", "route", "get", "10.244.3.9"); !strings.Contains(got, "via 10.89.0.11") {
		t.Errorf("pods of the host are routed %s", got)
	}
	if err := fabric.OpenRouter(inside).SetPrefixes(t.Context(), netip.MustParseAddr("10.89.0.11"),
		[]netip.Prefix{netip.MustParsePrefix("10.244.4.0/24")}); err != nil {
		t.Fatal(err)
	}
	if got := run(t, inside, "ip", "route"); strings.Contains(got, "10.244.3.0") ||
		!strings.Contains(got, "10.244.4.0/24 via 10.89.0.11") {
		t.Errorf("after its range changed, the host is routed\n%s", got)
	}
	if err := fabric.OpenRouter(inside).SetPrefixes(t.Context(), netip.MustParseAddr("10.89.0.11"), nil); err != nil {
		t.Fatal(err)
	}
	if got := run(t, inside, "ip", "route"); strings.Contains(got, "10.89.0.11") {
		t.Errorf("routes of a host without ranges are left\n%s", got)
	}
	for range 2 {
		if err := f.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := state(t, m.netns); got != empty {
		t.Errorf("left on the machine\n%s\nwant\n%s", got, empty)
	}
	if got := run(t, host, "ip", "-br", "link"); strings.Contains(got, "eth0") {
		t.Errorf("the uplink outlived the fabric\n%s", got)
	}
}

func TestTwoClusters(t *testing.T) {
	m := newMachine(t)
	a, b := m.fabric("a", 0), m.fabric("b", 1)
	apply(t, a)
	apply(t, b)
	hostA, hostB := netlab.Namespace(t, filepath.Join(m.dir, "a1")), netlab.Namespace(t, filepath.Join(m.dir, "b1"))
	connect(t, a, hostA)
	connect(t, b, hostB)
	toA, toB := netip.MustParseAddrPort("10.89.0.11:80"), netip.MustParseAddrPort("10.89.1.11:80")
	netlab.Serve(t, hostA, "a", "tcp4", toA)
	netlab.Serve(t, hostB, "b", "tcp4", toB)
	netlab.Expect(t, m.netns, "tcp4", toA, "a")
	netlab.Expect(t, m.netns, "tcp4", toB, "b")
	netlab.ExpectNothing(t, hostA, "tcp4", toB) // the machine does not forward
	if err := a.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	netlab.Expect(t, m.netns, "tcp4", toB, "b")
	apply(t, a)
	apply(t, b)
}

func TestRangeInUse(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup [][]string
		want  string
	}{
		{"address", [][]string{{"ip", "address", "add", "10.89.0.7/24", "dev", "lo"}},
			"range 10.89.0.0/24 is in use on this machine: address 10.89.0.0/24 of lo"},
		{"route", [][]string{{"ip", "route", "add", "10.96.0.0/12", "dev", "lo"}},
			"range 10.96.0.0/16 is in use on this machine: route 10.96.0.0/12 of lo"},
		{"unreachable route", [][]string{{"ip", "route", "add", "unreachable", "10.244.0.0/16"}},
			"range 10.244.0.0/16 is in use on this machine: route 10.244.0.0/16"},
		{"default route", [][]string{{"ip", "route", "add", "default", "dev", "lo"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			for _, argv := range c.setup {
				run(t, m.netns, argv...)
			}
			f := m.fabric("use", 0)
			before := state(t, m.netns)
			err := f.Apply(t.Context())
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.As(err, new(*fabric.InUseError)) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if got := state(t, m.netns); got != before {
				t.Errorf("changed the machine to\n%s\nfrom\n%s", got, before)
			}
		})
	}
}

// TestSecondClusterOfTheSameIndex must not take the first one's link.
func TestSecondClusterOfTheSameIndex(t *testing.T) {
	m := newMachine(t)
	a := m.fabric("a", 0)
	apply(t, a)
	other := m.fabric("b", 0)
	want := "range 10.89.0.0/24 is in use on this machine: address 10.89.0.0/24 of mln0 (cluster a)"
	if err := other.Apply(t.Context()); !errors.As(err, new(*fabric.InUseError)) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	if err := other.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	host := netlab.Namespace(t, filepath.Join(m.dir, "host"))
	connect(t, a, host)
	netlab.Serve(t, host, "host", "tcp4", netip.MustParseAddrPort("10.89.0.11:80"))
	netlab.Expect(t, m.netns, "tcp4", netip.MustParseAddrPort("10.89.0.11:80"), "host")
}

// TestAfterKill: the namespace's file is gone, as after a reboot or when the
// mount namespace of the maker died, and the machine's link may have outlived it.
func TestAfterKill(t *testing.T) {
	m := newMachine(t)
	f := m.fabric("kill", 0)
	apply(t, f)
	host := netlab.Namespace(t, filepath.Join(m.dir, "host"))
	connect(t, f, host)
	if err := kernel.DeleteNamespace(f.Plan().Namespace); err != nil {
		t.Fatal(err)
	}
	apply(t, f)
	connect(t, f, host)
	netlab.Serve(t, host, "host", "tcp4", netip.MustParseAddrPort("10.89.0.11:80"))
	netlab.Expect(t, m.netns, "tcp4", netip.MustParseAddrPort("10.89.0.11:80"), "host")
}

func TestMasqueradeOnlyOnRouters(t *testing.T) {
	m := newMachine(t)
	f := m.fabric("router", 0)
	run(t, m.netns, "sysctl", "-q", "net.ipv4.ip_forward=0")
	apply(t, f)
	if got := run(t, m.netns, "nft", "list", "ruleset"); strings.Contains(got, "masquerade") {
		t.Errorf("a machine that does not forward got rules:\n%s", got)
	}
	run(t, m.netns, "sysctl", "-q", "net.ipv4.ip_forward=1")
	for range 2 {
		apply(t, f)
	}
	if got := run(t, m.netns, "nft", "list", "ruleset"); strings.Count(got,
		"ip saddr 10.89.0.0/24 oifname != \"mln0\" masquerade") != 1 {
		t.Errorf("a machine that forwards has the rules:\n%s", got)
	}
}

// TestReach: a host reaches what the machine serves to its cluster and what lies behind the
// machine, and neither anything else of the machine nor another cluster, even on a machine
// that forwards. The machine reaches its hosts.
func TestReach(t *testing.T) {
	m := newMachine(t)
	run(t, m.netns, "sysctl", "-q", "net.ipv4.ip_forward=1")
	run(t, m.netns, "ip", "link", "set", "lo", "up")
	a, b := m.fabric("a", 0), m.fabric("b", 1)
	apply(t, a)
	apply(t, b)
	host, other := netlab.Namespace(t, filepath.Join(m.dir, "a1")), netlab.Namespace(t, filepath.Join(m.dir, "b1"))
	connect(t, a, host)
	connect(t, b, other)
	// A computer in the machine's own network.
	lan := netlab.Namespace(t, filepath.Join(m.dir, "lan"))
	run(t, m.netns, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0",
		"netns", filepath.Join(m.dir, "lan"))
	run(t, m.netns, "ip", "address", "add", "192.0.2.1/24", "dev", "eth0")
	run(t, m.netns, "ip", "link", "set", "eth0", "up")
	run(t, lan, "ip", "address", "add", "192.0.2.2/24", "dev", "eth0")
	run(t, lan, "ip", "link", "set", "eth0", "up")
	at := netip.MustParseAddrPort
	for _, s := range []struct{ netns, name, address string }{
		{m.netns, "api", "10.89.0.1:6443"}, {m.netns, "dns", "10.89.0.1:53"}, {m.netns, "ssh", "10.89.0.1:22"},
		{m.netns, "api-b", "10.89.1.1:6443"}, {m.netns, "web", "192.0.2.1:80"},
		{other, "host-b", "10.89.1.11:80"}, {host, "host-a", "10.89.0.11:80"}, {lan, "lan", "192.0.2.2:80"},
	} {
		netlab.Serve(t, s.netns, s.name, "tcp4", at(s.address))
	}
	netlab.Expect(t, host, "tcp4", at("10.89.0.1:6443"), "api")
	netlab.Expect(t, host, "tcp4", at("10.89.0.1:53"), "dns")
	netlab.Expect(t, host, "tcp4", at("192.0.2.2:80"), "lan")
	netlab.Expect(t, other, "tcp4", at("10.89.1.1:6443"), "api-b")
	netlab.Expect(t, m.netns, "tcp4", at("10.89.0.11:80"), "host-a")
	netlab.Expect(t, m.netns, "tcp4", at("10.89.1.11:80"), "host-b")
	for _, address := range []string{"10.89.0.1:22", "192.0.2.1:80", "10.89.1.1:6443", "10.89.1.11:80"} {
		netlab.ExpectNothing(t, host, "tcp4", at(address))
	}
	netlab.ExpectNothing(t, other, "tcp4", at("10.89.0.1:6443"))
	netlab.ExpectNothing(t, other, "tcp4", at("10.89.0.11:80"))
}

func TestConnectRefuses(t *testing.T) {
	m := newMachine(t)
	f := m.fabric("refuse", 0)
	apply(t, f)
	for _, a := range []string{"10.89.1.11/24", "10.89.0.11/16", "10.89.0.1/24", "10.89.0.254/24"} {
		err := f.Connect(t.Context(), fabric.Attachment{Node: "x", Netns: m.netns, Address: netip.MustParsePrefix(a)})
		if err == nil || !strings.Contains(err.Error(), "not a host's address") {
			t.Errorf("address %s: got %v", a, err)
		}
	}
	if err := f.Connect(t.Context(), fabric.Attachment{Node: "x", Netns: filepath.Join(m.dir, "none"),
		Address: netip.MustParsePrefix("10.89.0.11/24")}); err == nil {
		t.Error("a namespace that does not exist was connected")
	}
}

// TestFaults fails Apply and Connect at every point: nothing may be left, and
// the next attempt must succeed.
func TestFaults(t *testing.T) {
	m := newMachine(t)
	f := m.fabric("faults", 0)
	host := netlab.Namespace(t, filepath.Join(m.dir, "host"))
	empty, emptyHost := state(t, m.netns), state(t, host)
	learn := fault.NewSet()
	both := func(ctx context.Context) error {
		if err := f.Apply(ctx); err != nil {
			return err
		}
		return f.Connect(ctx,
			fabric.Attachment{Node: "win-1", Netns: host, Address: netip.MustParsePrefix("10.89.0.11/24")})
	}
	if err := both(fault.With(t.Context(), learn)); err != nil {
		t.Fatal(err)
	}
	for _, point := range slices.Compact(learn.Reached()) {
		t.Run(point, func(t *testing.T) {
			if err := f.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := both(fault.With(t.Context(), fault.NewSet(point))); !errors.Is(err, fault.ErrInjected) {
				t.Fatalf("got %v, want the injected fault", err)
			}
			if got := state(t, m.netns); strings.HasPrefix(point, "fabric.apply") && got != empty {
				t.Errorf("left on the machine\n%s\nwant\n%s", got, empty)
			}
			if got := run(t, host, "ip", "-br", "link"); strings.Contains(got, "eth0") {
				t.Errorf("left on the host\n%s", got)
			}
			if err := both(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
	if err := f.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := state(t, host); got != emptyHost {
		t.Errorf("left on the host\n%s\nwant\n%s", got, emptyHost)
	}
}

// TestReady: links carry packets when Apply and Connect return, also while the kernel is busy with other namespaces.
func TestReady(t *testing.T) {
	m := newMachine(t)
	f := m.fabric("ready", 0)
	check := func(when, netns string) {
		t.Helper()
		s, err := kernel.Open(netns)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		// Unlike the query for one link, the list does not make the kernel catch up (net/core/rtnetlink.c,
		// rtnl_getlink).
		links, err := kernel.List(s.Netlink.LinkList)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range links {
			if a := l.Attrs(); a.Name != "lo" && a.OperState != netlink.OperUp {
				t.Errorf("after %s, %s is %s", when, a.Name, a.OperState)
			}
		}
	}
	end := make(chan struct{})
	var others sync.WaitGroup
	for i := range 4 {
		others.Go(func() {
			path := filepath.Join(m.dir, fmt.Sprint("other", i))
			for {
				select {
				case <-end:
					return
				default:
				}
				if err := errors.Join(kernel.CreateNamespace(path, nil), kernel.DeleteNamespace(path)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer others.Wait()
	defer close(end)
	for range 8 {
		apply(t, f)
		check("Apply", m.netns)
		check("Apply", f.Plan().Namespace)
		host := netlab.Namespace(t, filepath.Join(t.TempDir(), "host"))
		connect(t, f, host)
		check("Connect", host)
		check("Connect", f.Plan().Namespace)
		if err := f.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
