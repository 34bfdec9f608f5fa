// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package loadbalancer

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// proxyHealthPort is where every kube-proxy reports its health (--healthz-bind-address).
const proxyHealthPort = 10256

// probe names a health check of a node. A node that passes may get connections of a Service.
type probe struct {
	node netip.Addr
	port uint16
}

// target is a node that a Service may use.
type target struct {
	node  netip.Addr // in IPv4
	probe probe
}

// route is the router's configuration for one address of a Service.
type route struct {
	address netip.Addr
	ports   []corev1.ServicePort
	// sources may connect. An empty list means all clients or, with closed, no client.
	sources  []netip.Prefix
	closed   bool
	byClient bool
	targets  []target
}

// describe reads a Service. Its errors are shown to the Service's owner, in an event.
func describe(s *corev1.Service, nodes []member, addresses []netip.Addr) ([]route, error) {
	for _, p := range s.Spec.Ports {
		if p.Protocol != corev1.ProtocolTCP && p.Protocol != corev1.ProtocolUDP {
			return nil, fmt.Errorf("port %d: %s: the cluster's load balancer and Windows nodes support only TCP "+
				"and UDP; make a separate Service of another type for this port", p.Port, p.Protocol)
		}
	}
	all, err := sources(s)
	if err != nil {
		return nil, err
	}
	if servicehelper.NeedsHealthCheck(s) && s.Spec.HealthCheckNodePort == 0 {
		return nil, errors.New("spec.healthCheckNodePort: the API server has not chosen one yet")
	}
	var out []route
	open := false
	for _, a := range addresses {
		r := route{address: a, ports: s.Spec.Ports, byClient: s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP}
		r.sources, r.closed = sourcesOf(familyOf(a), all)
		open = open || !r.closed
		for _, n := range nodes {
			if t, ok := targetFor(s, n, familyOf(a)); ok {
				r.targets = append(r.targets, t)
			}
		}
		out = append(out, r)
	}
	if !open {
		return nil, fmt.Errorf("spec.loadBalancerSourceRanges: %s: no %s range among them, so no client could "+
			"connect", strings.Join(names(all), ", "), familyOf(addresses[0]))
	}
	return out, nil
}

// sources returns the permitted clients, in any family; an empty list means all clients.
func sources(s *corev1.Service) ([]netip.Prefix, error) {
	if len(s.Spec.LoadBalancerSourceRanges) == 0 &&
		strings.TrimSpace(s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]) == "" {
		return nil, nil
	}
	nets, err := servicehelper.GetLoadBalancerSourceRanges(s)
	if err != nil {
		return nil, fmt.Errorf("spec.loadBalancerSourceRanges: %w", err)
	}
	var out []netip.Prefix
	for _, n := range nets.StringSlice() {
		p, err := netip.ParsePrefix(n)
		if err != nil {
			return nil, fmt.Errorf("spec.loadBalancerSourceRanges: %w", err)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// sourcesOf returns the sources of a family, as a route has them. A list without a source of the family admits no
// client of that family: a user who lists clients wants no others.
func sourcesOf(family corev1.IPFamily, all []netip.Prefix) (of []netip.Prefix, closed bool) {
	for _, p := range all {
		if familyOf(p.Addr()) != family {
			continue
		}
		if p.Bits() == 0 {
			return nil, false
		}
		of = append(of, p)
	}
	return fabric.Disjoint(of), len(all) > 0 && len(of) == 0
}

func names(all []netip.Prefix) []string {
	var out []string
	for _, p := range all {
		out = append(out, p.String())
	}
	return out
}

// targetFor returns the node as a target for connections of a family, if it accepts them.
//
// kube-proxy has a health check node port in each family, for the endpoints of that family (kubernetes v1.36.3,
// pkg/proxy/healthcheck/service_health.go). Its own health covers all families.
func targetFor(s *corev1.Service, n member, family corev1.IPFamily) (target, bool) {
	at := n.four
	if family == corev1.IPv6Protocol {
		if at = n.six; !at.IsValid() || !twoFamilies(n.Node) {
			return target{}, false
		}
	}
	if servicehelper.NeedsHealthCheck(s) {
		return target{n.four, probe{at, uint16(s.Spec.HealthCheckNodePort)}}, true
	}
	return target{n.four, probe{n.four, proxyHealthPort}}, true
}

// member is a node on the fabric.
type member struct {
	*corev1.Node
	four, six netip.Addr // its addresses; the IPv6 address may be absent
}

// membersOf returns the nodes with an address of IPv4 in the networks of the nodes. A node writes its addresses
// itself: of several with one address, the node that registered first has it. refused describes the addresses that do
// not count.
func membersOf(nodes []*corev1.Node, networks []netip.Prefix) (members []member, refused []string) {
	owners := map[netip.Addr]string{}
	for _, n := range slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	}) {
		m := member{Node: n}
		for _, a := range n.Status.Addresses {
			ip, err := netip.ParseAddr(a.Address)
			owner, taken := owners[ip]
			switch {
			case a.Type != corev1.NodeInternalIP:
			case err != nil, !slices.ContainsFunc(networks, func(p netip.Prefix) bool { return fabric.IsHost(p, ip) }):
				refused = append(refused, fmt.Sprintf("address %.40q of node %s: not one for nodes", a.Address, n.Name))
			case taken && owner != n.Name:
				refused = append(refused, fmt.Sprintf("address %s of node %s: node %s has it", ip, n.Name, owner))
			case ip.Is4() && !m.four.IsValid():
				m.four, owners[ip] = ip, n.Name
			case ip.Is6() && !m.six.IsValid():
				m.six, owners[ip] = ip, n.Name
			}
		}
		if m.four.IsValid() {
			members = append(members, m)
		}
	}
	return members, refused
}

// twoFamilies reports whether kube-proxy serves two families on a node that has addresses of both: not on Windows
// Server 2019.
func twoFamilies(n *corev1.Node) bool {
	return n.Labels[corev1.LabelOSStable] != "windows" || winver.TwoFamilies(n.Labels[corev1.LabelWindowsBuild])
}

// fronts returns the router's configuration of a Service.
func (r route) fronts(fit func(probe) bool) []fabric.Front {
	var nodes []fabric.Target
	for _, t := range r.targets {
		nodes = append(nodes, fabric.Target{Address: t.node, Fit: fit(t.probe)})
	}
	var out []fabric.Front
	for _, p := range r.ports {
		out = append(out, fabric.Front{
			Address: r.address, Protocol: strings.ToLower(string(p.Protocol)), Port: uint16(p.Port),
			Sources: r.sources, Closed: r.closed, ByClient: r.byClient, Nodes: nodes,
		})
	}
	return out
}
