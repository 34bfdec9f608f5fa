// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric_test

import (
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
)

// dualConfig is that of a cluster with two address families.
func dualConfig(name string) fabric.Config {
	cfg := netlab.FabricConfig(name, 0)
	prefix := netip.MustParsePrefix
	cfg.IPv6 = ipv6.Plan{NodeCIDR: prefix("fd00:10:89::/64"), PodCIDR: prefix("fd00:10:244::/48"),
		ServiceCIDR: prefix("fd00:10:96::/112")}
	cfg.Pool6 = prefix("fd00:10:90::/112")
	return cfg
}

// stateOfBoth is all that a fabric of two families can change in a namespace.
func stateOfBoth(t *testing.T, netns string) string {
	return state(t, netns) + run(t, netns, "ip", "-6", "-br", "address") + run(t, netns, "ip", "-6", "route") +
		run(t, netns, "sh", "-c", "cd /proc/sys/net/ipv6/conf && grep -rH . all default 2>/dev/null | sort")
}

// connectDual gives the fabric a host of two families.
func connectDual(m *machine, f *fabric.Fabric) (netns string) {
	m.t.Helper()
	netns = netlab.Namespace(m.t, filepath.Join(m.dir, "host"))
	err := f.Connect(m.t.Context(), fabric.Attachment{Node: "win-1", Netns: netns,
		Address: netlab.HostAddress(f.Plan(), 1), Address6: netip.MustParsePrefix("fd00:10:89::11/64")})
	if err != nil {
		m.t.Fatal(err)
	}
	return netns
}

// TestMachineIPv6: the machine reaches hosts and what they own in IPv6, and hosts reach nothing of the machine, nor
// anything behind it, even if the machine forwards packets. Deleting the fabric leaves nothing.
func TestMachineIPv6(t *testing.T) {
	m := newMachine(t)
	run(t, m.netns, "ip", "link", "set", "lo", "up")
	run(t, m.netns, "sysctl", "-q", "net.ipv6.conf.all.forwarding=1")
	lan := netlab.Namespace(t, filepath.Join(m.dir, "lan"))
	run(t, m.netns, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0",
		"netns", filepath.Join(m.dir, "lan"))
	for netns, address := range map[string]string{m.netns: "2001:db8::1/64", lan: "2001:db8::2/64"} {
		run(t, netns, "ip", "address", "add", address, "dev", "eth0", "nodad")
		run(t, netns, "ip", "link", "set", "eth0", "up")
	}
	run(t, lan, "ip", "route", "add", "fd00::/8", "via", "2001:db8::1")
	netlab.Expect(t, lan, "tcp6", serve6(t, m.netns, "machine", "[2001:db8::1]:80"), "machine")
	empty := stateOfBoth(t, m.netns)
	f := m.with(dualConfig("both"))
	var host string
	for range 2 { // the second time everything is there
		apply(t, f)
		if host == "" {
			host = connectDual(m, f)
		}
	}
	if err := fabric.OpenRouter(f.Plan().Namespace).SetPrefixes(t.Context(), netip.MustParseAddr("fd00:10:89::11"),
		[]netip.Prefix{netip.MustParsePrefix("fd00:10:244:3::/64")}); err != nil {
		t.Fatal(err)
	}
	run(t, host, "ip", "address", "add", "fd00:10:244:3::9/128", "dev", "lo", "nodad")
	for _, at := range []string{"[fd00:10:89::11]:80", "[fd00:10:244:3::9]:80"} {
		to := serve6(t, host, "host-"+at, at)
		if client := netlab.Expect(t, m.netns, "tcp6", to, "host-"+at); client != "fd00:10:89::2" {
			t.Errorf("%s sees the machine as %s", at, client)
		}
	}
	if got := run(t, m.netns, "ip", "-6", "route", "get", "fd00:10:90::1"); !strings.Contains(got,
		"via fd00:10:89::1 dev mln0") {
		t.Errorf("the machine's way to the pool is %s", got)
	}

	// Hosts get no default route to the machine. One that takes it gets nowhere.
	run(t, host, "ip", "-6", "route", "replace", "2001:db8::/64", "via", "fd00:10:89::2")
	own := linkLocal(t, m.netns, "mln0")
	for _, at := range []string{"[fd00:10:89::2]:6443", "[fd00:10:89::2]:53", "[2001:db8::1]:81"} {
		netlab.ExpectNothing(t, host, "tcp6", serve6(t, m.netns, "machine", at))
	}
	serve6(t, m.netns, "machine", "[::]:82")
	netlab.ExpectNothing(t, host, "tcp6", netip.AddrPortFrom(own.WithZone("eth0"), 82))
	serve6(t, lan, "lan", "[2001:db8::2]:80")
	netlab.ExpectNothing(t, host, "tcp6", netip.MustParseAddrPort("[2001:db8::2]:80"))

	if err := f.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := stateOfBoth(t, m.netns); got != empty {
		t.Errorf("left on the machine\n%s\nwant\n%s", got, empty)
	}
}

func serve6(t *testing.T, netns, name, at string) netip.AddrPort {
	t.Helper()
	to := netip.MustParseAddrPort(at)
	netlab.Serve(t, netns, name, "tcp6", to)
	return to
}

// linkLocal returns the address that the kernel made for a link.
func linkLocal(t *testing.T, netns, link string) netip.Addr {
	t.Helper()
	for f := range strings.FieldsSeq(run(t, netns, "ip", "-6", "-o", "address", "show", "dev", link)) {
		if p, err := netip.ParsePrefix(f); err == nil && p.Addr().IsLinkLocalUnicast() {
			return p.Addr()
		}
	}
	t.Fatalf("%s has no link-local address", link)
	return netip.Addr{}
}

// TestMachineIPv6IsGuarded: the link has no IPv6 until the rules are there.
func TestMachineIPv6IsGuarded(t *testing.T) {
	m := newMachine(t)
	f := m.with(dualConfig("guard"))
	for _, point := range []string{"fabric.apply.before-routes", "fabric.apply.before-rules",
		"fabric.apply.before-machine-ipv6"} {
		// What is there already is not undone.
		if err := kernel.CreateNamespace(f.Plan().Namespace, nil); err != nil {
			t.Fatal(err)
		}
		if err := f.Apply(fault.With(t.Context(), fault.NewSet(point))); !errors.Is(err, fault.ErrInjected) {
			t.Fatalf("got %v, want the injected fault", err)
		}
		if got := run(t, m.netns, "ip", "-br", "link", "show", "dev", "mln0"); !strings.Contains(got, "UP") {
			t.Fatalf("%s: the link is %s", point, got)
		}
		if got := run(t, m.netns, "ip", "-6", "-br", "address", "show", "dev", "mln0"); got != "" {
			t.Errorf("%s: the link has %s", point, got)
		}
	}
	apply(t, f)
	if got := run(t, m.netns, "ip", "-6", "-br", "address", "show", "dev", "mln0"); !strings.Contains(got,
		"fd00:10:89::2/64") {
		t.Errorf("the link has %q", got)
	}
	if got := run(t, m.netns, "nft", "list", "table", "ip6", "mullion-guard"); strings.Count(got, "reject") != 2 {
		t.Errorf("the table is %s", got)
	}
}

// TestIPv6RangeInUse: the machine's routes and addresses of IPv6 count if the cluster has two families.
func TestIPv6RangeInUse(t *testing.T) {
	for _, c := range []struct {
		name, want string
		setup      []string
	}{
		{"address", "range fd00:10:89::/64 is in use on this machine: address fd00:10:89::/64 of lo",
			[]string{"ip", "address", "add", "fd00:10:89::7/64", "dev", "lo"}},
		{"route to pods", "range fd00:10:244::/48 is in use on this machine: route fd00:10:200::/40 of lo",
			[]string{"ip", "-6", "route", "add", "fd00:10:200::/40", "dev", "lo"}},
		{"pool", "range fd00:10:90::/112 is in use on this machine: route fd00:10:90::/64",
			[]string{"ip", "-6", "route", "add", "unreachable", "fd00:10:90::/64"}},
		{"default route", "", []string{"ip", "-6", "route", "add", "default", "dev", "lo"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			run(t, m.netns, c.setup...)
			before := stateOfBoth(t, m.netns)
			f := m.with(dualConfig("use"))
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
			if err := f.CheckRanges(); !errors.As(err, new(*fabric.InUseError)) {
				t.Errorf("got %v", err)
			}
			if got := stateOfBoth(t, m.netns); got != before {
				t.Errorf("changed the machine to\n%s\nfrom\n%s", got, before)
			}
			if err := m.fabric("one", 0).CheckRanges(); err != nil {
				t.Errorf("a cluster of IPv4: %v", err)
			}
		})
	}
}

// TestSecondFaults fails Apply at every point: nothing may be left, and the next attempt must succeed.
func TestSecondFaults(t *testing.T) {
	m := newMachine(t)
	f := m.with(dualConfig("faults"))
	empty := stateOfBoth(t, m.netns)
	learn := fault.NewSet()
	if err := f.Apply(fault.With(t.Context(), learn)); err != nil {
		t.Fatal(err)
	}
	for _, point := range learn.Reached() {
		if err := f.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.Apply(fault.With(t.Context(), fault.NewSet(point))); !errors.Is(err, fault.ErrInjected) {
			t.Fatalf("got %v, want the injected fault", err)
		}
		if got := stateOfBoth(t, m.netns); got != empty {
			t.Errorf("%s: left on the machine\n%s\nwant\n%s", point, got, empty)
		}
		apply(t, f)
	}
}
