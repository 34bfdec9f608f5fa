// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package fabric describes and creates the network that connects the emulated
// hosts of one cluster with each other and with the machine, like the switch and
// the router of a data centre.
//
// The fabric is a separate network namespace with a bridge in it. Each host is
// connected to the bridge by its uplink, the machine by one veth link. The fabric
// routes pod ranges to the hosts that own them, as a cloud's route table does,
// and answers "unreachable" for ranges of the cluster without an owner, so that
// no such packet leaves for the internet. The machine gets one link and, for each
// address family, an address, routes and one nftables table, which keeps packets from the
// link away from everything on the machine except the cluster's own servers, and from other
// clusters.
package fabric

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
)

// Config describes a fabric.
type Config struct {
	// Name of the cluster; the namespace is called "mullion-<name>".
	Name string
	// Index is the cluster's number on the machine, from 0.
	Index int
	// Dir is where the namespace's file is mounted.
	Dir string
	// NodeNet, PodNet and ServiceNet are the cluster's ranges.
	NodeNet, PodNet, ServiceNet netip.Prefix
	// IPv6 has the same ranges in IPv6, if the cluster has two address families.
	IPv6 ipv6.Plan
	// Pool has the IPv4 addresses for Services of type LoadBalancer, Pool6 the IPv6
	// addresses; see Balancer. The zero value means no addresses.
	Pool, Pool6 netip.Prefix
	// Serves lists the ports that the machine serves to the hosts at its address in
	// NodeNet. Hosts reach no other port of the machine.
	Serves []Port
	// Machine is the network namespace that stands for the machine; empty means
	// the process's own.
	Machine string
}

// Port is a port of a transport protocol, "tcp" or "udp".
type Port struct {
	Protocol string
	Number   uint16
}

func (p Port) String() string { return fmt.Sprintf("%s %d", p.Protocol, p.Number) }

// Plan lists the parts of the fabric. Describe creates it.
type Plan struct {
	Namespace string // file
	NodeNet   netip.Prefix
	PodNet    netip.Prefix
	// ServiceNet has no route in the fabric: each host resolves Services. The machine reaches them by a Linux worker
	// (Router.SetServices).
	ServiceNet netip.Prefix
	Pool       netip.Prefix // may be absent, and so may Pool6
	Pool6      netip.Prefix
	Bridge     string
	Router     netip.Prefix // the bridge's address, the hosts' default gateway
	IPv6       ipv6.Plan
	Router6    netip.Prefix // the same in IPv6; may be absent
	RouterMAC  string
	// The machine's side.
	MachineLink    string
	MachineAlias   string // names the link's owner
	MachinePort    string // its other end, on the bridge
	MachineAddress netip.Prefix
	// MachineAddress6 is the same in IPv6; may be absent.
	MachineAddress6 netip.Prefix
	Table           string // on the machine, one in each family
	Serves          []Port
}

// Describe creates the plan. It is pure.
func Describe(cfg Config) (Plan, error) {
	if cfg.Name == "" || strings.ContainsAny(cfg.Name, "/. ") {
		return Plan{}, fmt.Errorf("describe fabric: cluster name %q: not usable as a file name", cfg.Name)
	}
	if cfg.Index < 0 {
		return Plan{}, fmt.Errorf("describe fabric: cluster index %d: below 0", cfg.Index)
	}
	if cfg.Dir == "" {
		return Plan{}, errors.New("describe fabric: no directory for the network namespace")
	}
	p := Plan{
		Namespace: Namespace(cfg.Dir, cfg.Name),
		NodeNet:   cfg.NodeNet, PodNet: cfg.PodNet, ServiceNet: cfg.ServiceNet, Pool: cfg.Pool,
		Bridge:      "br0",
		MachineLink: fmt.Sprintf(linkPrefix+"%d", cfg.Index), MachineAlias: "cluster " + cfg.Name,
		MachinePort: "machine",
		Table:       "mullion-" + cfg.Name,
		Serves:      cfg.Serves,
		IPv6:        cfg.IPv6, Pool6: cfg.Pool6,
	}
	p.Router6, p.MachineAddress6 = addresses6(cfg.IPv6.NodeCIDR)
	if err := checkIPv6(cfg.IPv6, cfg.Pool6); err != nil {
		return Plan{}, fmt.Errorf("describe fabric: IPv6: %w", err)
	}
	for _, s := range cfg.Serves {
		if s.Protocol != "tcp" && s.Protocol != "udp" || s.Number == 0 {
			return Plan{}, fmt.Errorf("describe fabric: port %q: not one of TCP or UDP", s)
		}
	}
	ranges := []netip.Prefix{p.NodeNet, p.PodNet, p.ServiceNet}
	for _, r := range ranges {
		if !r.Addr().Is4() || r != r.Masked() || r.Bits() > 28 || r.Bits() < 8 {
			return Plan{}, fmt.Errorf("describe fabric: range %s: not an IPv4 range of 16 addresses or more", r)
		}
	}
	if err := disjoint(ranges); err != nil {
		return Plan{}, fmt.Errorf("describe fabric: %w", err)
	}
	if p.Pool.IsValid() {
		if !p.Pool.Addr().Is4() {
			return Plan{}, fmt.Errorf("describe fabric: load balancer pool %s: not an IPv4 range", p.Pool)
		}
		if err := CheckPool(p.Pool, ranges...); err != nil {
			return Plan{}, fmt.Errorf("describe fabric: %w", err)
		}
	}
	p.MachineAddress = netip.PrefixFrom(p.NodeNet.Addr().Next(), p.NodeNet.Bits())
	p.Router = netip.PrefixFrom(routerOf(p.NodeNet), p.NodeNet.Bits())
	p.RouterMAC = mac(p.Router.Addr())
	return p, nil
}

// disjoint returns an error if ranges overlap.
func disjoint(ranges []netip.Prefix) error {
	for i, r := range ranges {
		for _, other := range ranges[:i] {
			if r.Overlaps(other) {
				return fmt.Errorf("ranges %s and %s overlap", other, r)
			}
		}
	}
	return nil
}

// Namespace returns the file of a fabric's network namespace.
func Namespace(dir, cluster string) string { return filepath.Join(dir, "mullion-"+cluster) }

// routerOf returns the hosts' default gateway.
func routerOf(nodeNet netip.Prefix) netip.Addr { return Last(nodeNet).Prev() }

// IsHost reports whether an address of the hosts' network, in either family, may be a host's: not the router's nor the
// machine's.
func IsHost(network netip.Prefix, a netip.Addr) bool {
	first := network.Addr().Next()
	others := []netip.Addr{network.Addr(), first, first.Next()} // see addresses6
	if network.Addr().Is4() {
		others = []netip.Addr{network.Addr(), first, routerOf(network), Last(network)}
	}
	return network.Contains(a) && !slices.Contains(others, a)
}

// mac returns the Ethernet address that the fabric gives to an IPv4 address: a
// locally administered one (IEEE 802, second bit of the first byte).
func mac(a netip.Addr) string {
	b := a.As4()
	return fmt.Sprintf("02:6d:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}

// portName returns the name of the bridge port of a host.
func portName(node string) string {
	sum := sha256.Sum256([]byte(node))
	return "port" + hex.EncodeToString(sum[:])[:11]
}

// rules returns the transaction for nft(8) that makes the machine's table. masquerade is for a
// machine that forwards packets: it lets hosts reach the machine's destinations.
//
// The kernel delivers a packet to any address of the machine, whichever link it came in by. So
// without these rules a pod reaches whatever listens on the machine, and the API servers of
// other clusters.
func (p *Plan) rules(masquerade bool) string {
	var b strings.Builder
	add := func(chain, format string, args ...any) {
		fmt.Fprintf(&b, "add rule ip %s %s %s\n", p.Table, chain, fmt.Sprintf(format, args...))
	}
	// `add` first: deleting a table that does not exist is an error.
	fmt.Fprintf(&b, "add table ip %[1]s\ndelete table ip %[1]s\nadd table ip %[1]s\n", p.Table)
	for _, hook := range []string{"input", "forward"} {
		fmt.Fprintf(&b, "add chain ip %s %s { type filter hook %[2]s priority 0 ; }\n", p.Table, hook)
		add(hook, "iifname != %q accept", p.MachineLink)
		// Replies to the machine: the API server calls kubelets.
		add(hook, "ct state established,related accept")
	}
	for _, s := range p.Serves {
		add("input", "ip daddr %s %s dport %d accept", p.MachineAddress.Addr(), s.Protocol, s.Number)
	}
	add("input", "counter reject with icmp type admin-prohibited")
	add("forward", "oifname %q counter reject with icmp type admin-prohibited", linkPrefix+"*")
	if masquerade {
		fmt.Fprintf(&b, "add chain ip %s postrouting { type nat hook postrouting priority 100 ; }\n", p.Table)
		add("postrouting", "ip saddr %s oifname != %q masquerade", p.NodeNet, p.MachineLink)
	}
	return b.String()
}

// linkPrefix begins the names of all clusters' links on the machine.
const linkPrefix = "mln"

// String returns the plan as text for a dry run.
func (p *Plan) String() string {
	var unreachable, route string
	if p.Pool.IsValid() {
		unreachable = fmt.Sprintf(", %s (load balancers, until a Service has an address)", p.Pool)
		route = fmt.Sprintf("\n  route %s via %s", p.Pool, p.Router.Addr())
	}
	router6, machine6 := p.ipv6Lines()
	return fmt.Sprintf(`network namespace %s
  bridge %s %s mac %s%s
  unreachable %s (pods, until a node owns a part), %s (services)%s
  default route via %s
machine
  link %s %s, other end %s on %s
  route %s via %s%s%s
  serves %s at %s; hosts reach nothing else of the machine, and no other cluster
`, p.Namespace, p.Bridge, p.Router, p.RouterMAC, router6, p.PodNet, p.ServiceNet, unreachable, p.MachineAddress.Addr(),
		p.MachineLink, p.MachineAddress, p.MachinePort, p.Bridge, p.PodNet, p.Router.Addr(), route,
		machine6, portList(p.Serves), p.MachineAddress.Addr())
}

func portList(ports []Port) string {
	var out []string
	for _, p := range ports {
		out = append(out, p.String())
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

// Last returns the last address of a range, in IPv4 the broadcast address.
func Last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b) // it has the length of an address
	return a
}
