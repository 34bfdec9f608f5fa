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
// no such packet leaves for the internet. The machine gets one link, one route
// and, only if it already forwards packets, one nftables table.
package fabric

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
)

// Config describes a fabric.
type Config struct {
	// Name of the cluster; the namespace is called "mullion-<name>".
	Name string
	// Index tells the clusters of one machine apart, from 0.
	Index int
	// Dir is where the namespace's file is mounted.
	Dir string
	// NodeNet, PodNet and ServiceNet are the cluster's ranges.
	NodeNet, PodNet, ServiceNet netip.Prefix
	// Machine is the network namespace that stands for the machine; empty means
	// the process's own.
	Machine string
}

// Plan lists the parts of the fabric. Describe creates it.
type Plan struct {
	Namespace string // file
	NodeNet   netip.Prefix
	PodNet    netip.Prefix
	// ServiceNet is never routed: services are resolved on each host.
	ServiceNet netip.Prefix
	Bridge     string
	Router     netip.Prefix // the bridge's address, the hosts' default gateway
	RouterMAC  string
	// The machine's side.
	MachineLink    string
	MachineAlias   string // says whose link it is
	MachinePort    string // its other end, on the bridge
	MachineAddress netip.Prefix
	Table          string // on the machine, for masquerading
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
		Namespace: filepath.Join(cfg.Dir, "mullion-"+cfg.Name),
		NodeNet:   cfg.NodeNet, PodNet: cfg.PodNet, ServiceNet: cfg.ServiceNet,
		Bridge:      "br0",
		MachineLink: fmt.Sprintf("mln%d", cfg.Index), MachineAlias: "cluster " + cfg.Name,
		MachinePort: "machine",
		Table:       "mullion-" + cfg.Name,
	}
	ranges := []netip.Prefix{p.NodeNet, p.PodNet, p.ServiceNet}
	for i, r := range ranges {
		if !r.Addr().Is4() || r != r.Masked() || r.Bits() > 28 || r.Bits() < 8 {
			return Plan{}, fmt.Errorf("describe fabric: range %s: not an IPv4 range of 16 addresses or more", r)
		}
		for _, other := range ranges[:i] {
			if r.Overlaps(other) {
				return Plan{}, fmt.Errorf("describe fabric: ranges %s and %s overlap", other, r)
			}
		}
	}
	p.MachineAddress = netip.PrefixFrom(p.NodeNet.Addr().Next(), p.NodeNet.Bits())
	p.Router = netip.PrefixFrom(last(p.NodeNet).Prev(), p.NodeNet.Bits())
	p.RouterMAC = mac(p.Router.Addr())
	return p, nil
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

// String returns the plan as text for a dry run.
func (p *Plan) String() string {
	return fmt.Sprintf(`network namespace %s
  bridge %s %s mac %s
  unreachable %s (pods, until a node owns a part), %s (services)
  default route via %s
machine
  link %s %s, other end %s on %s
  route %s via %s
`, p.Namespace, p.Bridge, p.Router, p.RouterMAC, p.PodNet, p.ServiceNet, p.MachineAddress.Addr(),
		p.MachineLink, p.MachineAddress, p.MachinePort, p.Bridge, p.PodNet, p.Router.Addr())
}

// last returns the broadcast address of an IPv4 range.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}
