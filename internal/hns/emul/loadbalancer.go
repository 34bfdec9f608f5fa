// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// createLoadBalancer stores a load balancer. One with the same front ends takes
// the place of the old one, in one step.
//
// Fidelity: differs - HNS answers 0x800700B7. kube-proxy v1.36 loses the ids of
// its load balancers when a call fails once (pkg/proxy/winkernel,
// deleteLoadBalancer), and would never get the front end back.
func (s *Service) createLoadBalancer(tx *txn, id schema.GUID, settings string) (schema.GUID, error) {
	var doc schema.LoadBalancer
	if err := decode(settings, &doc); err != nil {
		return id, err
	}
	id, err := chooseID(id, doc.ID)
	if err != nil {
		return id, err
	}
	return id, storeLoadBalancer(tx, id.String(), doc)
}

func storeLoadBalancer(tx *txn, id string, doc schema.LoadBalancer) error {
	if tx.balancers.get(id) != nil {
		return hresult.Errorf(hresult.AlreadyExists, "load balancer %s", id)
	}
	lb, err := checkLoadBalancer(tx, id, doc)
	if err != nil {
		return err
	}
	for _, old := range conflicting(tx, lb) {
		if !sameFrontends(old, lb) {
			return hresult.Errorf(hresult.AlreadyExists, "load balancer %s has some of the front ends", old.ID)
		}
		tx.setBalancer(old.ID, nil)
	}
	tx.setBalancer(id, lb)
	return nil
}

// modifyLoadBalancer replaces the document; the id stays.
func (s *Service) modifyLoadBalancer(tx *txn, id, settings string) error {
	// 15.4 is the threshold of hcsshim, the lower one of the two clients'
	// (hcn/hcnglobals.go, ModifyLoadbalancerVersion). kube-proxy takes
	// E_NOTIMPL as "delete and create instead".
	if !s.cfg.Version.AtLeast(15, 4) {
		return hresult.Errorf(hresult.NotImplemented, "modify load balancer %s in HNS %d.%d", id, s.cfg.Version.Major,
			s.cfg.Version.Minor)
	}
	if tx.balancers.get(id) == nil {
		return notFound(hns.LoadBalancer, id)
	}
	var doc schema.LoadBalancer
	if err := decode(settings, &doc); err != nil {
		return err
	}
	lb, err := checkLoadBalancer(tx, id, doc)
	if err != nil {
		return err
	}
	for _, other := range conflicting(tx, lb) {
		if other.ID != id {
			return hresult.Errorf(hresult.AlreadyExists, "load balancer %s has the front end", other.ID)
		}
	}
	tx.setBalancer(id, lb)
	return nil
}

// sctp is a protocol that kube-proxy requests, although Kubernetes supports it on Linux nodes only
// (https://kubernetes.io/docs/concepts/services-networking/service/, read 2026-11).
const sctp = 132

// checkLoadBalancer returns the document as it is stored: never without a port
// mapping (rule G10), addresses in Go's canonical text (rule G11).
func checkLoadBalancer(tx *txn, id string, doc schema.LoadBalancer) (*balancer, error) {
	if len(doc.PortMappings) == 0 {
		return nil, hresult.Errorf(hresult.InvalidJSON, "load balancer without a port mapping")
	}
	if len(doc.HostComputeEndpoints) == 0 {
		return nil, &hresult.Error{Code: hresult.InvalidJSONReference, Op: "create load balancer",
			Detail: "A Reference is required"}
	}
	endpoints, err := references(tx, doc.HostComputeEndpoints)
	if err != nil {
		return nil, err
	}
	doc.ID, doc.HostComputeEndpoints, doc.SchemaVersion = id, endpoints, schema.V2()
	doc.FrontendVIPs = slices.Clone(doc.FrontendVIPs)
	for i, vip := range doc.FrontendVIPs {
		if doc.FrontendVIPs[i], err = canonicalIP(vip); err != nil {
			return nil, err
		}
	}
	if doc.SourceVIP != "" {
		if doc.SourceVIP, err = canonicalIP(doc.SourceVIP); err != nil {
			return nil, err
		}
	}
	for _, m := range doc.PortMappings {
		if m.InternalPort == 0 {
			return nil, hresult.Errorf(hresult.InvalidInternalPort, "load balancer with internal port 0")
		}
		if m.Protocol == sctp {
			return nil, hresult.Errorf(hresult.InvalidArgument, "load balancer for SCTP: Windows has TCP and UDP only")
		}
		if m.ExternalPort == 0 || m.Protocol == 0 || m.Protocol > 255 {
			return nil, hresult.Errorf(hresult.InvalidArgument, "load balancer with external port %d, protocol %d",
				m.ExternalPort, m.Protocol)
		}
	}
	return &balancer{LoadBalancer: doc}, nil
}

func canonicalIP(s string) (string, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return "", hresult.Errorf(hresult.InvalidIP, "address %q: %w", s, err)
	}
	return a.Unmap().String(), nil
}

// references resolves the GUIDs of endpoints.
func references(tx *txn, ids []string) ([]string, error) {
	out := make([]string, 0, len(ids))
	for _, ref := range ids {
		id := schema.CanonicalGUID(ref)
		if tx.endpoints.get(id) == nil {
			return nil, notFound(hns.Endpoint, ref)
		}
		out = append(out, id)
	}
	return out, nil
}

// frontend identifies a front end, which no two load balancers may share. A load
// balancer without VIPs uses the node's addresses, separately for each IP
// version.
type frontend struct {
	vip      string
	protocol uint32
	port     uint16
	ipv6     bool
}

func (lb *balancer) frontends() map[frontend]bool {
	out := make(map[frontend]bool, len(lb.PortMappings))
	lb.eachFrontend(func(f frontend) { out[f] = true })
	return out
}

func (lb *balancer) eachFrontend(f func(frontend)) {
	for _, m := range lb.PortMappings {
		for _, vip := range lb.FrontendVIPs {
			f(frontend{vip: vip, protocol: m.Protocol, port: m.ExternalPort})
		}
		if len(lb.FrontendVIPs) == 0 {
			f(frontend{protocol: m.Protocol, port: m.ExternalPort, ipv6: lb.Flags&schema.LBIPv6 != 0})
		}
	}
}

func conflicting(tx *txn, lb *balancer) []*balancer {
	var out []*balancer
	mine := lb.frontends()
	for other := range tx.balancers.all {
		shared := false
		other.eachFrontend(func(f frontend) { shared = shared || mine[f] })
		if shared {
			out = append(out, other)
		}
	}
	return out
}

func sameFrontends(a, b *balancer) bool { return maps.Equal(a.frontends(), b.frontends()) }

// createRoute stores a route for a set of endpoints.
func (s *Service) createRoute(tx *txn, id schema.GUID, settings string) (schema.GUID, error) {
	// Microsoft's schema page calls the array Routes, the Go client Setting.
	var doc struct {
		schema.SDNRoute
		Routes []schema.SDNRouteSetting
	}
	if err := decode(settings, &doc); err != nil {
		return id, err
	}
	id, err := chooseID(id, doc.ID)
	if err != nil {
		return id, err
	}
	doc.Setting = append(doc.Setting, doc.Routes...)
	return id, storeRoute(tx, id.String(), doc.SDNRoute)
}

func storeRoute(tx *txn, id string, doc schema.SDNRoute) error {
	if tx.routes.get(id) != nil {
		return hresult.Errorf(hresult.AlreadyExists, "route %s", id)
	}
	if len(doc.HostComputeEndpoints) == 0 {
		return &hresult.Error{Code: hresult.InvalidJSONReference, Op: "create route", Detail: "A Reference is required"}
	}
	endpoints, err := references(tx, doc.HostComputeEndpoints)
	if err != nil {
		return err
	}
	for _, r := range doc.Setting {
		if checkPrefixes(r.DestinationPrefix) != nil || checkAddresses(r.NextHop) != nil {
			return hresult.Errorf(hresult.InvalidPolicy, "route to %q via %q", r.DestinationPrefix, r.NextHop)
		}
	}
	doc.ID, doc.HostComputeEndpoints, doc.SchemaVersion = id, endpoints, schema.V2()
	tx.setRoute(id, &sdnRoute{SDNRoute: doc})
	return nil
}
