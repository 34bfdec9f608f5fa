// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// hashSeed makes the choice for a client the same on every node and after
// every restart ("mull" in ASCII; any constant does).
const hashSeed = "0x6d756c6c"

func (c *compiler) loadBalancers() error {
	for i := range c.want.LoadBalancers {
		lb := &c.want.LoadBalancers[i]
		name := objectKey{kindLoadBalancer, lb.ID}
		if _, twice := c.plan.Table.fragments[name]; twice {
			return &ConflictError{Object: name.String(), Other: "another load balancer", What: "id " + lb.ID}
		}
		if err := c.claimFronts(name, lb.VIPs, lb.IPv6, lb.Protocol, lb.ExternalPort); err != nil {
			return err
		}
		if usable4(lb.SourceVIP) {
			c.sources = addSorted(c.sources, lb.SourceVIP)
		}
		if f := c.previous.Table.fragments[name]; f != nil && equalLoadBalancers(f.source.(*intent.LoadBalancer), lb) {
			c.plan.Table.fragments[name] = f
			continue
		}
		if err := checkLoadBalancer(lb); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.plan.Table.fragments[name] = c.loadBalancerFragment(lb)
	}
	return nil
}

// sourceVIPRoutes lets pods find a source VIP of their own subnet: the host answers ARP for
// addresses that are routed elsewhere. The replies to it never go there, because conntrack gives
// them their real destination first.
func (c *compiler) sourceVIPRoutes() {
	for _, a := range c.sources {
		if a != c.nodeAddress() && c.claimed["address "+a.String()] == "" && c.want.Uplink.Name != "" {
			c.plan.Routes = append(c.plan.Routes, Route{Destination: netip.PrefixFrom(a, 32), Link: c.want.Uplink.Name})
		}
	}
}

func (c *compiler) claimFronts(object objectKey, vips []netip.Addr, v6 bool, protocol uint8, port uint16) error {
	if len(vips) == 0 {
		f := front{protocol: protocol, port: port}
		if v6 {
			f.address = netip.IPv6Unspecified() // separates the two families' node ports
		}
		return c.claimFront(object, f)
	}
	for _, vip := range vips {
		if err := c.claimFront(object, front{vip, protocol, port}); err != nil {
			return err
		}
	}
	return nil
}

func checkLoadBalancer(lb *intent.LoadBalancer) error {
	switch {
	case !hasPorts(lb.Protocol):
		return fmt.Errorf("protocol %d has no ports", lb.Protocol)
	case lb.ExternalPort == 0 || lb.InternalPort == 0:
		return fmt.Errorf("port 0")
	case len(lb.Backends) == 0:
		return fmt.Errorf("no backends")
	}
	for _, b := range lb.Backends {
		if !usable(b.Address) {
			return fmt.Errorf("backend %s: not the address of an endpoint", b.Address)
		}
	}
	for _, vip := range lb.VIPs {
		if !usable(vip) {
			return fmt.Errorf("front end %s: not a usable address", vip)
		}
	}
	return nil
}

func equalLoadBalancers(a, b *intent.LoadBalancer) bool {
	return a.ID == b.ID && a.SourceVIP == b.SourceVIP && a.Protocol == b.Protocol &&
		a.ExternalPort == b.ExternalPort && a.InternalPort == b.InternalPort &&
		a.Distribution == b.Distribution && a.DSR == b.DSR && a.IPv6 == b.IPv6 &&
		a.ILB == b.ILB && a.LocalRoutedVIP == b.LocalRoutedVIP && a.UseMux == b.UseMux &&
		a.PreserveDIP == b.PreserveDIP && a.VIPExternalIP == b.VIPExternalIP &&
		slices.Equal(a.VIPs, b.VIPs) && slices.Equal(a.Backends, b.Backends)
}

// loadBalancerFragment makes the elements of one load balancer.
// Fidelity: subset - a SourceVIP of IPv6 is not used: kube-proxy gives one with
// Overlay networks only, which have no IPv6.
// Fidelity: subset - PreserveDIP delivers to the backend's port, with the client's address and, to an endpoint of
// this host, the front end's kept (docs/internals/netplane.md).
func (c *compiler) loadBalancerFragment(lb *intent.LoadBalancer) *fragment {
	source := *lb
	source.VIPs, source.Backends = slices.Clone(lb.VIPs), slices.Clone(lb.Backends)
	p := portRule{
		vips: lb.VIPs, protocol: lb.Protocol, external: lb.ExternalPort, internal: lb.InternalPort,
		// An explicit front-end address answers all clients: kubelet and other
		// programs of the host use services, although Windows does not promise it.
		everywhere: lb.LocalRoutedVIP || len(lb.VIPs) > 0,
		draw:       draw{distribution: lb.Distribution},
		family:     familyFor(lb.IPv6),
	}
	for _, b := range lb.Backends {
		if p.family.has(b.Address) {
			p.backends = append(p.backends, b.Address)
		}
	}
	switch {
	case lb.DSR || lb.PreserveDIP:
		p.draw.source = 0
	case usable4(lb.SourceVIP) && !lb.IPv6:
		p.draw.source = markOf(lb.SourceVIP)
	default:
		p.draw.source = sourceNode
	}
	f := &fragment{source: &source}
	c.emit(f, &p)
	return f
}

// portRule is a front end with its backends: a load balancer, or the hostPort
// of an endpoint.
type portRule struct {
	vips               []netip.Addr // empty: the host's own addresses
	protocol           uint8
	external, internal uint16
	backends           []netip.Addr
	everywhere         bool // also from the host and its endpoints
	draw               draw
	family             family
}

// draw is the way in which a chain chooses among the backends; there is one chain
// for each draw and each kind of front end that occurs.
type draw struct {
	count        int
	distribution intent.Distribution
	source       uint32 // connection mark: source to give to connections that pass through, 0 = keep
}

// emit makes the elements of a front end, or no elements if the host lacks its
// family.
func (c *compiler) emit(f *fragment, p *portRule) {
	if len(p.backends) == 0 || !slices.Contains(c.families, p.family) {
		return
	}
	p.draw.count = len(p.backends)
	service := protocolName(p.protocol) + " . " + strconv.Itoa(int(p.external))
	if len(p.vips) == 0 {
		fronts := p.family.set(mapNodePortsOut)
		if p.everywhere {
			fronts = p.family.set(mapNodePorts)
		}
		chain := p.draw.chain("port", p.family, nodePortKey, mapNodeBackends)
		f.chains = append(f.chains, chain)
		f.elements = append(f.elements, Element{fronts, service, "goto " + chain.Name})
		p.emitBackends(f, mapNodeBackends, service)
		return
	}
	fronts := p.family.set(mapFrontendsOut)
	if p.everywhere {
		fronts = p.family.set(mapFrontends)
	}
	chain := p.draw.chain("vip", p.family, p.family.frontKey(), mapBackends)
	f.chains = append(f.chains, chain)
	for _, vip := range p.vips {
		if !p.family.has(vip) {
			continue
		}
		key := vip.String() + " . " + service
		f.elements = append(f.elements, Element{fronts, key, "goto " + chain.Name})
		p.emitBackends(f, mapBackends, key)
	}
}

func (p *portRule) emitBackends(f *fragment, set, key string) {
	port := " . " + strconv.Itoa(int(p.internal))
	for i, b := range p.backends {
		f.elements = append(f.elements, Element{p.family.set(set), key + " . " + strconv.Itoa(i), b.String() + port})
	}
}

// chain returns the chain that performs the draw.
func (d draw) chain(kind string, f family, key, backends string) Chain {
	name := kind + f.suffix + "-" + strconv.Itoa(d.count)
	pick := "numgen random mod " + strconv.Itoa(d.count)
	switch d.distribution {
	case intent.SourceIP:
		name += "-by-client"
		pick = "jhash " + f.word + " saddr mod " + strconv.Itoa(d.count) + " seed " + hashSeed
	case intent.SourceIPProtocol:
		name += "-by-client-protocol"
		pick = "jhash " + f.word + " saddr . meta l4proto mod " + strconv.Itoa(d.count) + " seed " + hashSeed
	}
	var rules []string
	switch d.source {
	case 0:
		name += "-keep"
	case sourceNode:
	default:
		name += fmt.Sprintf("-from-%08x", d.source)
	}
	if d.source != 0 {
		rules = append(rules, fmt.Sprintf("ct mark set 0x%08x", d.source))
	}
	rules = append(rules, "meta mark set "+pick, "dnat "+f.word+" to "+key+" . meta mark map @"+f.set(backends))
	return Chain{Name: name, Rules: rules}
}
