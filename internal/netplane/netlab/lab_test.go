// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/netplane/apply"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// newLab is NewLab with IPv4 only.
func newLab(t testing.TB) *Lab {
	t.Helper()
	return NewLab(t, ipv6.Plan{})
}

// labHost is an emulated host. Tests change Intent and call Apply.
type labHost struct {
	Host
	t      testing.TB
	Plane  *apply.Plane
	Intent intent.Host
}

// networkID is the ID of each host's network.
const networkID = "cbr0"

// host adds the next host, with a network.
func (l *Lab) host() *labHost {
	l.t.Helper()
	h := &labHost{Host: l.Host(), t: l.t}
	h.reopen(l)
	var err error
	if h.Intent.Uplink, err = h.Plane.Uplink(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	h.Intent.Networks = []intent.Network{{ID: networkID, Name: networkID, Type: intent.L2Bridge,
		Subnets: []intent.Subnet{{Prefix: h.Pods, Gateway: h.Pods.Addr().Next()}}}}
	return h
}

// reopen replaces the host's plane, as a new process does.
func (h *labHost) reopen(l *Lab) {
	h.t.Helper()
	var err error
	h.Plane, err = apply.New(apply.Config{NetnsDir: filepath.Join(l.Dir, h.Name+"-namespaces"), Netns: h.Netns,
		Log: StrictLog(l.t)})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(h.Plane.Close)
}

// pod is a namespace with one endpoint.
type pod struct {
	Name    string
	Netns   string
	Address netip.Addr
}

// pod adds a pod with the address ending in last to the host's intent, made as
// win-bridge makes it.
func (h *labHost) pod(last byte) *pod {
	h.t.Helper()
	b := h.Pods.Addr().As4()
	b[3] = last
	a := netip.AddrFrom4(b)
	id := fmt.Sprintf("%s-pod-%d", h.Name, last)
	if err := h.Plane.CreateNamespace(h.t.Context(), id); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := h.Plane.DeleteNamespace(context.Background(), id); err != nil {
			h.t.Errorf("clean up: %v", err)
		}
	})
	h.Intent.Endpoints = append(h.Intent.Endpoints, intent.Endpoint{
		ID: id, Name: id, NetworkID: networkID, NamespaceID: id,
		Addresses: []netip.Prefix{netip.PrefixFrom(a, h.Pods.Bits())},
		MAC:       fmt.Sprintf("00-15-5D-%02X-%02X-%02X", b[1], b[2], b[3]),
		Gateway:   h.Pods.Addr().Next().Next(), // win-bridge: the second address
		OutboundNAT: []intent.OutboundNAT{{Exceptions: []netip.Prefix{
			netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("10.96.0.0/16"),
			netip.MustParsePrefix("10.89.0.0/24"),
		}}},
	})
	return &pod{Name: id, Netns: h.Plane.NamespacePath(id), Address: a}
}

// endpoint returns the pod's endpoint in the host's intent.
func (h *labHost) endpoint(p *pod) *intent.Endpoint {
	for i := range h.Intent.Endpoints {
		if h.Intent.Endpoints[i].ID == p.Name {
			return &h.Intent.Endpoints[i]
		}
	}
	h.t.Fatalf("no endpoint of %s", p.Name)
	return nil
}

// remove takes the pod's endpoint out of the host's intent.
func (h *labHost) remove(p *pod) {
	var rest []intent.Endpoint
	for _, e := range h.Intent.Endpoints {
		if e.ID != p.Name {
			rest = append(rest, e)
		}
	}
	h.Intent.Endpoints = rest
}

// apply makes the host's network match its intent.
func (h *labHost) apply() {
	h.t.Helper()
	want := h.Intent // the plane keeps what it was given
	want.Networks = append([]intent.Network(nil), want.Networks...)
	want.Endpoints = append([]intent.Endpoint(nil), want.Endpoints...)
	want.LoadBalancers = append([]intent.LoadBalancer(nil), want.LoadBalancers...)
	if err := h.Plane.Apply(h.t.Context(), want); err != nil {
		h.t.Fatal(err)
	}
}

// service adds a load balancer to the host's intent, as kube-proxy does with DSR on: without a
// VIP it is a node port, which never has DSR.
func (h *labHost) service(id string, vip netip.Addr, protocol uint8, port, target uint16,
	to ...netip.Addr) *intent.LoadBalancer {
	lb := intent.LoadBalancer{ID: id, Protocol: protocol, ExternalPort: port, InternalPort: target}
	if vip.IsValid() {
		lb.VIPs, lb.DSR = []netip.Addr{vip}, true
	} else {
		lb.LocalRoutedVIP, lb.VIPExternalIP = true, true
	}
	for _, a := range to {
		lb.Backends = append(lb.Backends, intent.Backend{Address: a, Local: h.Pods.Contains(a)})
	}
	h.Intent.LoadBalancers = append(h.Intent.LoadBalancers, lb)
	return &h.Intent.LoadBalancers[len(h.Intent.LoadBalancers)-1]
}
