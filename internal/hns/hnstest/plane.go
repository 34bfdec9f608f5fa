// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hnstest

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// Plane is an emul.DataPlane without a network: it records requests, and refuses requests that a real one could not
// satisfy.
type Plane struct {
	// Fail, if set, runs before each call; its error is returned.
	Fail func(call string) error

	mu         sync.Mutex
	namespaces map[string]bool // guarded by mu
	host       intent.Host     // guarded by mu
}

func (p *Plane) check(call string) error {
	if p.Fail == nil {
		return nil
	}
	return p.Fail(call)
}

// CreateNamespace implements emul.DataPlane.
func (p *Plane) CreateNamespace(_ context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.check("create namespace"); err != nil {
		return err
	}
	if p.namespaces == nil {
		p.namespaces = map[string]bool{}
	}
	p.namespaces[id] = true
	return nil
}

// DeleteNamespace implements emul.DataPlane.
func (p *Plane) DeleteNamespace(_ context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.check("delete namespace"); err != nil {
		return err
	}
	delete(p.namespaces, id)
	return nil
}

// Namespaces implements emul.DataPlane.
func (p *Plane) Namespaces(context.Context) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.check("list namespaces"); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(p.namespaces)), nil
}

// NamespacePath implements emul.DataPlane.
func (p *Plane) NamespacePath(id string) string { return "/run/netns/" + id }

// Apply implements emul.DataPlane. An endpoint in a namespace that does not exist,
// or two with one address in it, is an error.
func (p *Plane) Apply(_ context.Context, want intent.Host) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.check("apply"); err != nil {
		return err
	}
	networks := map[string]bool{}
	for _, n := range want.Networks {
		networks[n.ID] = true
	}
	taken := map[string]string{}
	for _, e := range want.Endpoints {
		if !networks[e.NetworkID] {
			return fmt.Errorf("apply endpoint %s: network %s does not exist", e.ID, e.NetworkID)
		}
		if !e.Attached() {
			continue
		}
		if !p.namespaces[e.NamespaceID] {
			return fmt.Errorf("apply endpoint %s: namespace %s does not exist", e.ID, e.NamespaceID)
		}
		for _, a := range e.Addresses {
			key := e.NetworkID + " " + a.Addr().String()
			if taken[key] != "" {
				return fmt.Errorf("apply endpoint %s: address %s is that of %s", e.ID, a, taken[key])
			}
			taken[key] = e.ID
		}
	}
	for _, lb := range want.LoadBalancers {
		if len(lb.Backends) == 0 {
			return fmt.Errorf("apply load balancer %s: no backends", lb.ID)
		}
	}
	p.host = want
	return nil
}

// Stats implements emul.DataPlane: attached endpoints have counted something.
func (p *Plane) Stats(_ context.Context, endpointID string) (intent.Stats, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.check("stats"); err != nil {
		return intent.Stats{}, err
	}
	for _, e := range p.host.Endpoints {
		if e.ID == endpointID && e.Attached() {
			return intent.Stats{BytesReceived: 1000, BytesSent: 500, PacketsReceived: 10, PacketsSent: 5}, nil
		}
	}
	return intent.Stats{}, fmt.Errorf("stats of endpoint %s: no adapter", endpointID)
}

// Uplink implements emul.DataPlane.
func (p *Plane) Uplink(context.Context) (intent.Uplink, error) {
	if err := p.check("uplink"); err != nil {
		return intent.Uplink{}, err
	}
	return intent.Uplink{Name: "eth0", Address: netip.MustParsePrefix("10.89.0.11/24"), MAC: "02:89:00:00:00:11"}, nil
}

// Host returns the host that was last applied.
func (p *Plane) Host() intent.Host {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.host
}

// Dump returns the existing objects as text. It omits endpoints that are not
// attached: they have no device, and the service need not apply them at once.
func (p *Plane) Dump() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(p.namespaces)) {
		fmt.Fprintf(&b, "namespace %s\n", id)
	}
	for _, n := range p.host.Networks {
		fmt.Fprintf(&b, "network %s %s %v\n", n.Name, n.Type, n.Subnets)
	}
	for _, e := range p.host.Endpoints {
		if e.Attached() || e.HostAttached {
			fmt.Fprintf(&b, "endpoint %s %v namespace %q host %v\n", e.Name, e.Addresses, e.NamespaceID, e.HostAttached)
		}
	}
	for _, lb := range p.host.LoadBalancers {
		fmt.Fprintf(&b, "load balancer %v protocol %d port %d to %v port %d\n", lb.VIPs, lb.Protocol, lb.ExternalPort,
			lb.Backends, lb.InternalPort)
	}
	return b.String()
}
