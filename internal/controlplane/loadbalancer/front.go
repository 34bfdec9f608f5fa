// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package loadbalancer

import (
	"errors"
	"fmt"
	"net/netip"
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

// route says what a Service wants of the router at one of its addresses.
type route struct {
	address netip.Addr
	ports   []corev1.ServicePort
	// sources may connect; none means everybody, or with closed no client at all.
	sources  []netip.Prefix
	closed   bool
	byClient bool
	targets  []target
}

// describe reads a Service. Its errors are shown to the Service's owner, in an event.
func describe(s *corev1.Service, nodes []*corev1.Node, addresses []netip.Addr) ([]route, error) {
	for _, p := range s.Spec.Ports {
		if p.Protocol != corev1.ProtocolTCP && p.Protocol != corev1.ProtocolUDP {
			return nil, fmt.Errorf("port %d: %s: the cluster's load balancer takes TCP and UDP, and Windows nodes "+
				"know no other; make a Service of its own for this port, of another type", p.Port, p.Protocol)
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

// sources returns who may connect, in any family; an empty list means everybody.
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

// sourcesOf returns those of a family, as a route has them. A list without any of the family lets no client of it in: a
// user who lists clients means no others.
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

// targetFor returns what a node is for connections of a family, if it takes them.
//
// kube-proxy has a health check node port in each family, which answers for the endpoints of that family (kubernetes
// v1.36.3, pkg/proxy/healthcheck/service_health.go). Its own health is that of all families.
func targetFor(s *corev1.Service, n *corev1.Node, family corev1.IPFamily) (target, bool) {
	node, ok := internalAddress(n, corev1.IPv4Protocol)
	if !ok {
		return target{}, false
	}
	at := node
	if family == corev1.IPv6Protocol {
		if at, ok = internalAddress(n, family); !ok || !twoFamilies(n) {
			return target{}, false
		}
	}
	if servicehelper.NeedsHealthCheck(s) {
		return target{node, probe{at, uint16(s.Spec.HealthCheckNodePort)}}, true
	}
	return target{node, probe{node, proxyHealthPort}}, true
}

// internalAddress returns the address of a node on the fabric. A node writes its addresses itself.
func internalAddress(n *corev1.Node, family corev1.IPFamily) (netip.Addr, bool) {
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		ip, err := netip.ParseAddr(a.Address)
		if err == nil && familyOf(ip) == family && ip.IsGlobalUnicast() && ip.Zone() == "" {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

// twoFamilies reports whether kube-proxy serves two families on a node that has addresses of both: not on Windows
// Server 2019.
func twoFamilies(n *corev1.Node) bool {
	return n.Labels[corev1.LabelOSStable] != "windows" || winver.TwoFamilies(n.Labels[corev1.LabelWindowsBuild])
}

// fronts returns what the router is told about a Service.
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
