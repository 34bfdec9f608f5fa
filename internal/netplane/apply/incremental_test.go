// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/apply"
	"github.com/mullion-k8s/mullion/internal/netplane/compile"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/netplane/intent/intenttest"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
)

// additions are the changes of an intent that lead to new rules, each of which
// refers to sets and chains that an earlier transaction made.
var additions = []struct {
	name string
	edit func(h *intent.Host)
	same bool // leads to elements only
}{
	{"service, known count", func(h *intent.Host) { add(h, intenttest.Service(600, 2)) }, true},
	{"service, one backend", func(h *intent.Host) { add(h, intenttest.Service(600, 1)) }, false},
	{"service, many backends", func(h *intent.Host) { add(h, intenttest.Service(600, 200)) }, false},
	{"service gains a backend", func(h *intent.Host) {
		h.LoadBalancers[0].Backends = intenttest.Service(0, 4).Backends
	}, false},
	{"service of UDP", service(func(lb *intent.LoadBalancer) { lb.Protocol = intent.UDP }), false},
	{"service of SCTP", service(func(lb *intent.LoadBalancer) { lb.Protocol = intent.SCTP }), false},
	{"affinity", service(func(lb *intent.LoadBalancer) { lb.Distribution = intent.SourceIP }), false},
	{"affinity and protocol", service(func(lb *intent.LoadBalancer) { lb.Distribution = intent.SourceIPProtocol }),
		false},
	{"DSR", service(func(lb *intent.LoadBalancer) { lb.DSR = true }), false},
	{"affinity and DSR", service(func(lb *intent.LoadBalancer) {
		lb.DSR, lb.Distribution = true, intent.SourceIP
	}), false},
	{"PreserveDIP", service(func(lb *intent.LoadBalancer) { lb.PreserveDIP = true }), false},
	{"PreserveDIP of a pod", func(h *intent.Host) {
		lb := intenttest.Service(700, 1)
		lb.PreserveDIP, lb.Backends[0].Address = true, h.Endpoints[0].Addresses[0].Addr()
		add(h, lb)
	}, false},
	{"SourceVIP", service(func(lb *intent.LoadBalancer) { lb.SourceVIP = netip.MustParseAddr("10.244.1.99") }), false},
	{"SourceVIP, high address", service(func(lb *intent.LoadBalancer) {
		lb.SourceVIP = netip.MustParseAddr("203.0.113.255")
	}), false},
	{"node port", nodePort(func(*intent.LoadBalancer) {}), false},
	{"node port, local", nodePort(func(lb *intent.LoadBalancer) { lb.DSR = true }), false},
	{"node port, from outside only", nodePort(func(lb *intent.LoadBalancer) { lb.LocalRoutedVIP = false }), false},
	{"node port, affinity", nodePort(func(lb *intent.LoadBalancer) { lb.Distribution = intent.SourceIP }), false},
	{"node port, SourceVIP", nodePort(func(lb *intent.LoadBalancer) {
		lb.SourceVIP = netip.MustParseAddr("10.244.1.99")
	}), false},
	{"host port", mapping(intent.PortMapping{}), false},
	{"host port, everywhere", mapping(intent.PortMapping{LocalRouted: true}), false},
	{"host port of one address", mapping(intent.PortMapping{VIP: netip.MustParseAddr("10.89.0.11")}), false},
	{"outbound, other exceptions", outbound(intent.OutboundNAT{Exceptions: prefixes("192.0.2.0/24")}), false},
	{"outbound, no exceptions", outbound(intent.OutboundNAT{}), false},
	{"outbound, VirtualIP", outbound(intent.OutboundNAT{VirtualIP: netip.MustParseAddr("10.89.0.77")}), false},
	{"outbound, destinations", outbound(intent.OutboundNAT{Destinations: prefixes("192.0.2.0/24", "198.51.100.7/32")}),
		false},
	{"ACL, in", acl(intent.ACL{Direction: intent.In, Action: intent.Block}), false},
	{"ACL, out", acl(intent.ACL{Direction: intent.Out, Action: intent.Allow, Protocols: []uint8{1}}), false},
	{"ACL, all it can say", acl(intent.ACL{
		Direction:       intent.In,
		Action:          intent.Block,
		Protocols:       []uint8{intent.TCP, intent.UDP},
		LocalAddresses:  prefixes("10.244.1.0/24"),
		RemoteAddresses: prefixes("10.0.0.0/8", "192.0.2.1/32"),
		LocalPorts:      []intent.PortRange{{First: 80, Last: 80}, {First: 8000, Last: 8100}},
		RemotePorts:     []intent.PortRange{{First: 1024, Last: 65535}},
	}), false},
	{"pod", func(h *intent.Host) { h.Endpoints = withPods(intenttest.Services(0, 0), 3).Endpoints }, true},
	{"pod of a NAT network", podOf(intent.NAT, "172.20.0.5/24", 0), false},
	{"pod of a private network", podOf(intent.Private, "172.22.0.5/24", 2), false},
	{"pod of a transparent network", podOf(intent.Transparent, "10.89.0.140/24", 3), true},
	{"overlay", overlay(1), false},
	{"overlay with a third host", overlay(2), false},
	{"adapter of the host", func(h *intent.Host) {
		h.Endpoints = append(h.Endpoints, intent.Endpoint{
			ID:           "ep-host",
			NetworkID:    "net",
			HostAttached: true,
			Addresses:    prefixes("10.244.1.2/24"),
			MAC:          "00:15:5d:00:01:01",
		})
	}, true},
	{"other address of the uplink", func(h *intent.Host) {
		h.Uplink.Address = netip.MustParsePrefix("10.89.0.12/24")
	}, false},
}

// podOf adds a network of the type and a pod with the address in it.
func podOf(typ intent.NetworkType, address string, last byte) func(*intent.Host) {
	return func(h *intent.Host) {
		h.Networks = append(h.Networks, intent.Network{ID: string(typ), Type: typ,
			Subnets: []intent.Subnet{{Prefix: netip.MustParsePrefix(address).Masked()}}})
		h.Endpoints = append(h.Endpoints, intent.Endpoint{
			ID:          "ep-" + string(typ),
			NetworkID:   string(typ),
			NamespaceID: "ns-0",
			Addresses:   prefixes(address),
			MAC:         fmt.Sprintf("00:15:5d:00:01:%02x", last),
		})
	}
}

// overlay adds an overlay network with other hosts.
func overlay(hosts int) func(*intent.Host) {
	return func(h *intent.Host) {
		n := intent.Network{
			ID:      "overlay",
			Type:    intent.Overlay,
			Subnets: []intent.Subnet{{Prefix: netip.MustParsePrefix("10.245.1.0/24"), VSID: 4096}},
			DRMAC:   "00-15-5D-01-00-00",
		}
		for i := range hosts {
			n.RemoteSubnets = append(n.RemoteSubnets, intent.RemoteSubnet{
				Prefix:          netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 245, byte(2 + i), 0}), 24),
				VSID:            4096,
				ProviderAddress: netip.AddrFrom4([4]byte{10, 89, 0, byte(20 + i)}),
				DRMAC:           fmt.Sprintf("00-15-5D-01-00-%02X", 1+i),
			})
		}
		h.Networks = append(slices.DeleteFunc(slices.Clone(h.Networks), func(o intent.Network) bool {
			return o.ID == n.ID
		}), n)
	}
}

func add(h *intent.Host, lb intent.LoadBalancer) {
	h.LoadBalancers = append(slices.Clone(h.LoadBalancers), lb)
}

// service adds one of three backends.
func service(edit func(*intent.LoadBalancer)) func(*intent.Host) {
	return func(h *intent.Host) {
		lb := intenttest.Service(700, 3)
		edit(&lb)
		add(h, lb)
	}
}

func nodePort(edit func(*intent.LoadBalancer)) func(*intent.Host) {
	return service(func(lb *intent.LoadBalancer) {
		lb.VIPs, lb.ExternalPort, lb.LocalRoutedVIP = nil, 30080, true
		edit(lb)
	})
}

func mapping(m intent.PortMapping) func(*intent.Host) {
	m.Protocol, m.ExternalPort, m.InternalPort = intent.TCP, 8088, 80
	return pod(func(e *intent.Endpoint) { e.PortMappings = []intent.PortMapping{m} })
}

func outbound(o intent.OutboundNAT) func(*intent.Host) {
	return pod(func(e *intent.Endpoint) { e.OutboundNAT = []intent.OutboundNAT{o} })
}

func acl(a intent.ACL) func(*intent.Host) {
	return pod(func(e *intent.Endpoint) { e.ACLs = []intent.ACL{a} })
}

func pod(edit func(*intent.Endpoint)) func(*intent.Host) {
	return func(h *intent.Host) {
		h.Endpoints = slices.Clone(h.Endpoints)
		edit(&h.Endpoints[0])
	}
}

func prefixes(list ...string) (all []netip.Prefix) {
	for _, s := range list {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

// TestAdditions: the kernel takes every kind of new rule in a transaction that
// holds the difference only, and then is as if the table had been replaced. The
// way back is a difference too. nft parses rules differently if what they refer
// to was made by an earlier run, so neither `nft --check` nor a script that
// makes everything shows what this shows.
func TestAdditions(t *testing.T) {
	h := newHost(t)
	h.run("ip", "address", "add", "10.89.0.12/24", "dev", "eth0")
	base := func() intent.Host { return withPods(intenttest.Services(3, 2), 2) }
	everything := base()
	for _, c := range additions {
		c.edit(&everything)
	}
	defer h.removeNamespaces(h.plane, everything)
	for _, c := range additions {
		t.Run(c.name, func(t *testing.T) {
			plane, err := apply.New(apply.Config{NetnsDir: filepath.Join(h.dir, "namespaces"), Netns: h.netns,
				Log: netlab.StrictLog(t)})
			if err != nil {
				t.Fatal(err)
			}
			defer plane.Close()
			if err := plane.Apply(t.Context(), base()); err != nil {
				t.Fatal(err)
			}
			before := h.state()
			want := base()
			c.edit(&want)
			if newRules := strings.Contains(difference(t, base(), want), "add rule "); newRules == c.same {
				t.Errorf("new rules: %v", newRules)
			}
			if err := plane.Apply(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			after := h.state()
			if err := h.open().Apply(t.Context(), want); err != nil { // replaces the table
				t.Fatal(err)
			}
			if got := h.state(); got != after {
				t.Errorf("after the difference\n%s\nafter replacing\n%s", after, got)
			}
			if err := plane.Apply(t.Context(), base()); err != nil {
				t.Fatal(err)
			}
			if got := h.state(); got != before {
				t.Errorf("after the way back\n%s\nwant\n%s", got, before)
			}
		})
	}
}

// difference returns the script that leads from one intent to another.
func difference(t *testing.T, from, to intent.Host) string {
	t.Helper()
	old, err := compile.Compile(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := compile.Compile(to, old)
	if err != nil {
		t.Fatal(err)
	}
	return compile.Script(compile.TableName, plan.Diff(old))
}
