// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package loadbalancer

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
)

// proxyHealthPort is where every kube-proxy reports its health (--healthz-bind-address).
const proxyHealthPort = 10256

// probe names a health check of a node. A node that passes may get connections of a Service.
type probe struct {
	node netip.Addr
	port uint16
}

// route says what a Service wants of the router.
type route struct {
	address  netip.Addr
	ports    []corev1.ServicePort
	sources  []netip.Prefix
	byClient bool
	// probes has one for each node.
	probes []probe
}

// describe reads a Service. Its errors are shown to the Service's owner, in an event.
func describe(s *corev1.Service, nodes []*corev1.Node, address netip.Addr) (route, error) {
	r := route{address: address, ports: s.Spec.Ports,
		byClient: s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP}
	if err := checkFamilies(s); err != nil {
		return r, err
	}
	for _, p := range s.Spec.Ports {
		if p.Protocol != corev1.ProtocolTCP && p.Protocol != corev1.ProtocolUDP {
			return r, fmt.Errorf("port %d: %s: the cluster's load balancer takes TCP and UDP, and Windows nodes know "+
				"no other; make a Service of its own for this port, of another type", p.Port, p.Protocol)
		}
	}
	var err error
	if r.sources, err = sources(s); err != nil {
		return r, err
	}
	port := uint16(proxyHealthPort)
	if servicehelper.NeedsHealthCheck(s) {
		if port = uint16(s.Spec.HealthCheckNodePort); port == 0 {
			return r, errors.New("spec.healthCheckNodePort: the API server has not chosen one yet")
		}
	}
	for _, n := range nodes {
		if a, ok := internalAddress(n); ok {
			r.probes = append(r.probes, probe{a, port})
		}
	}
	return r, nil
}

// checkFamilies refuses a Service that asks for an IPv6 address. One that prefers two families is content with IPv4.
func checkFamilies(s *corev1.Service) error {
	const only = "the cluster's load balancer has IPv4 addresses only"
	if len(s.Spec.IPFamilies) > 0 && !slices.Contains(s.Spec.IPFamilies, corev1.IPv4Protocol) {
		return fmt.Errorf("spec.ipFamilies: %s: %s", s.Spec.IPFamilies[0], only)
	}
	if p := s.Spec.IPFamilyPolicy; p != nil && *p == corev1.IPFamilyPolicyRequireDualStack {
		return fmt.Errorf("spec.ipFamilyPolicy: %s: %s; with %s the Service gets one", *p, only,
			corev1.IPFamilyPolicyPreferDualStack)
	}
	return nil
}

// sources returns who may connect; an empty list means everybody.
func sources(s *corev1.Service) ([]netip.Prefix, error) {
	nets, err := servicehelper.GetLoadBalancerSourceRanges(s)
	if err != nil {
		return nil, fmt.Errorf("spec.loadBalancerSourceRanges: %w", err)
	}
	if servicehelper.IsAllowAll(nets) {
		return nil, nil
	}
	var out []netip.Prefix
	for _, n := range nets.StringSlice() {
		p, err := netip.ParsePrefix(n)
		if err != nil {
			return nil, fmt.Errorf("spec.loadBalancerSourceRanges: %w", err)
		}
		if p.Addr().Is4() {
			out = append(out, p.Masked())
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("spec.loadBalancerSourceRanges: %s: no IPv4 range among them, so no client could "+
			"connect",
			strings.Join(nets.StringSlice(), ", "))
	}
	return fabric.Disjoint(out), nil
}

// internalAddress returns the address of a node on the fabric.
func internalAddress(n *corev1.Node) (netip.Addr, bool) {
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

// fronts returns what the router is told about a Service.
func (r route) fronts(fit func(probe) bool) []fabric.Front {
	var targets []fabric.Target
	for _, p := range r.probes {
		targets = append(targets, fabric.Target{Address: p.node, Fit: fit(p)})
	}
	var out []fabric.Front
	for _, p := range r.ports {
		out = append(out, fabric.Front{
			Address: r.address, Protocol: strings.ToLower(string(p.Protocol)), Port: uint16(p.Port),
			Sources: r.sources, ByClient: r.byClient, Nodes: targets,
		})
	}
	return out
}
