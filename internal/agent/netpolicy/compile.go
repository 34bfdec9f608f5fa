// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netpolicy

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Cluster has all objects that determine the permitted traffic of pods.
type Cluster struct {
	Policies   []Policy
	Pods       []Pod
	Namespaces []Namespace
}

// Namespace is a namespace with its labels.
type Namespace struct {
	Name   string
	Labels map[string]string
}

// Pod has the fields of a pod that policies depend on.
type Pod struct {
	Namespace, Name string
	Node            string
	Labels          map[string]string
	Addresses       []netip.Addr
	Ports           []ContainerPort
	// HostNetwork pods have the addresses of their node: policies neither isolate nor
	// select them.
	HostNetwork bool
	// Done pods have ended, and their addresses may be another's.
	Done bool
}

// ContainerPort is a port that a container of a pod names.
type ContainerPort struct {
	Name     string
	Protocol Protocol
	Number   uint16
}

// hasNetwork reports whether a pod has its own addresses.
func (p *Pod) hasNetwork() bool { return !p.HostNetwork && !p.Done && len(p.Addresses) > 0 }

// Endpoint has the permitted traffic of a pod. A nil direction is not isolated:
// everything passes.
type Endpoint struct {
	Namespace, Name string
	Addresses       []netip.Addr
	Ingress, Egress *Direction
}

// Direction lists the permitted traffic of an isolated direction. Directions are shared
// between endpoints and must not be changed.
type Direction struct{ Allow []Rule }

// Rule lets packets of the peers to the ports pass. For egress, peers and ports belong to
// the destination. No peers means everyone, no ports every protocol and port.
type Rule struct {
	Peers []netip.Prefix
	Ports []Ports
}

// Compile returns the endpoints of a node, sorted by namespace and name. Its own pods
// and the node itself are not among the peers: a pod's node, and the pod itself,
// always reach it, which is for the caller to add.
func Compile(c *Cluster, node string) []Endpoint {
	x := newIndex(c)
	var out []Endpoint
	for i := range c.Pods {
		if p := &c.Pods[i]; p.Node == node && p.hasNetwork() {
			out = append(out, x.endpoint(p))
		}
	}
	slices.SortFunc(out, func(a, b Endpoint) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// index is a Cluster in a form for lookups.
type index struct {
	pods       map[string][]*Pod // by namespace, only pods with addresses
	namespaces map[string]*Namespace
	policies   map[string][]*compiled // of each namespace
	selected   map[string][]*Pod      // by the key of a peer
	directions map[string]*Direction  // by the policies that make them
}

// compiled is a policy whose egress is worked out once for all pods that it selects,
// and so is its ingress unless it names ports: a name means another number in each
// pod.
type compiled struct {
	number   int // of the policy, in the order of the namespace's
	selector *Selector
	in, out  bool
	ingress  []IngressRule
	named    bool // an ingress rule names a port
	rules    []Rule
	egress   []Rule
}

func newIndex(c *Cluster) *index {
	x := &index{pods: map[string][]*Pod{}, namespaces: map[string]*Namespace{}, policies: map[string][]*compiled{},
		selected: map[string][]*Pod{}, directions: map[string]*Direction{}}
	for i := range c.Namespaces {
		x.namespaces[c.Namespaces[i].Name] = &c.Namespaces[i]
	}
	for i := range c.Pods {
		if p := &c.Pods[i]; p.hasNetwork() {
			x.pods[p.Namespace] = append(x.pods[p.Namespace], p)
		}
	}
	for i := range c.Policies {
		x.add(&c.Policies[i])
	}
	return x
}

func (x *index) add(p *Policy) {
	namespace := p.Metadata.Namespace
	out := &compiled{number: len(x.policies[namespace]), selector: &p.Spec.PodSelector, ingress: p.Spec.Ingress}
	out.in, out.out = p.Spec.isolates()
	if out.in {
		for i := range p.Spec.Ingress {
			out.named = out.named || slices.ContainsFunc(p.Spec.Ingress[i].Ports, func(p PolicyPort) bool {
				return p.Port != nil && p.Port.Name != ""
			})
		}
		if !out.named {
			out.rules = x.ingressRules(namespace, p.Spec.Ingress, nil)
		}
	}
	if out.out {
		for i := range p.Spec.Egress {
			out.egress = append(out.egress, x.egressRules(namespace, &p.Spec.Egress[i])...)
		}
	}
	x.policies[namespace] = append(x.policies[namespace], out)
}

// endpoint works out both directions of a pod.
func (x *index) endpoint(p *Pod) Endpoint {
	e := Endpoint{Namespace: p.Namespace, Name: p.Name, Addresses: p.Addresses}
	var in, out []*compiled
	for _, c := range x.policies[p.Namespace] {
		if !c.selector.matches(p.Labels) {
			continue
		}
		if c.in {
			in = append(in, c)
		}
		if c.out {
			out = append(out, c)
		}
	}
	e.Ingress = x.direction("in", p, in, func(c *compiled) []Rule {
		if c.named {
			return x.ingressRules(p.Namespace, c.ingress, p)
		}
		return c.rules
	})
	e.Egress = x.direction("out", p, out, func(c *compiled) []Rule { return c.egress })
	return e
}

// direction joins the rules of policies; nil without policies. Pods that the same
// policies select share the result, unless an ingress rule names a port.
func (x *index) direction(name string, p *Pod, policies []*compiled, rules func(*compiled) []Rule) *Direction {
	if len(policies) == 0 {
		return nil
	}
	var key strings.Builder
	fmt.Fprintf(&key, "%s %s", name, p.Namespace)
	for _, c := range policies {
		fmt.Fprintf(&key, " %d", c.number)
	}
	if slices.ContainsFunc(policies, func(c *compiled) bool { return c.named && name == "in" }) {
		fmt.Fprintf(&key, " %v", p.Ports)
	}
	d, ok := x.directions[key.String()]
	if !ok {
		var all []Rule
		for _, c := range policies {
			all = append(all, rules(c)...)
		}
		d = &Direction{Allow: join(all)}
		x.directions[key.String()] = d
	}
	return d
}

// join merges rules with the same ports.
func join(rules []Rule) []Rule {
	byPorts := map[string][]Rule{}
	for _, r := range rules {
		key := portsKey(r.Ports)
		byPorts[key] = append(byPorts[key], r)
	}
	var out []Rule
	for _, key := range slices.Sorted(maps.Keys(byPorts)) {
		group := byPorts[key]
		r := group[0]
		if len(group) > 1 {
			var peers []netip.Prefix
			for _, g := range group {
				if len(g.Peers) == 0 { // everyone
					peers = nil
					break
				}
				peers = append(peers, g.Peers...)
			}
			r.Peers = canonical(peers)
		}
		if len(r.Peers) == 0 && len(r.Ports) == 0 {
			return []Rule{{}} // everything: the other rules are redundant
		}
		out = append(out, r)
	}
	return out
}

// ingressRules resolves the ingress rules of a policy, with the named ports of the
// pod that receives.
func (x *index) ingressRules(namespace string, rules []IngressRule, to *Pod) []Rule {
	var out []Rule
	for i := range rules {
		r := &rules[i]
		var ports []Ports
		for j := range r.Ports {
			ports = append(ports, r.Ports[j].ports(to)...)
		}
		if len(ports) == 0 && len(r.Ports) > 0 {
			continue // it doesn't have any of the ports
		}
		peers, everyone := x.peers(namespace, r.From)
		if len(peers) > 0 || everyone {
			out = append(out, Rule{Peers: peers, Ports: canonicalPorts(ports)})
		}
	}
	return out
}

// egressRules resolves an egress rule. A named port is resolved in the receiving pod, so
// each number makes a separate rule.
func (x *index) egressRules(namespace string, r *EgressRule) []Rule {
	peers, everyone := x.peers(namespace, r.To)
	reaches := len(peers) > 0 || everyone
	if len(r.Ports) == 0 {
		if !reaches {
			return nil
		}
		return []Rule{{Peers: peers}}
	}
	var out []Rule
	var numbers []Ports
	byName := map[Ports][]netip.Prefix{}
	for i := range r.Ports {
		p := &r.Ports[i]
		if p.Port == nil || p.Port.Name == "" {
			numbers = append(numbers, p.ports(nil)...)
			continue
		}
		for _, pod := range x.standsFor(namespace, r.To) {
			for _, found := range p.ports(pod) {
				for _, a := range pod.Addresses {
					byName[found] = append(byName[found], single(a))
				}
			}
		}
	}
	if len(numbers) > 0 && reaches {
		out = append(out, Rule{Peers: peers, Ports: canonicalPorts(numbers)})
	}
	for found, addresses := range byName {
		out = append(out, Rule{Peers: canonical(addresses), Ports: []Ports{found}})
	}
	return out
}

// peers resolves a list of peers; everyone if it is empty.
func (x *index) peers(namespace string, list []Peer) (prefixes []netip.Prefix, everyone bool) {
	if len(list) == 0 {
		return nil, true
	}
	for i := range list {
		if list[i].IPBlock != nil {
			prefixes = append(prefixes, list[i].IPBlock.prefixes()...)
		}
	}
	for _, p := range x.standsFor(namespace, list) {
		for _, a := range p.Addresses {
			prefixes = append(prefixes, single(a))
		}
	}
	return canonical(prefixes), false
}

// standsFor returns the pods for which a list of peers stands: all of the cluster for an
// empty one.
func (x *index) standsFor(namespace string, list []Peer) []*Pod {
	if len(list) == 0 {
		return x.standsFor(namespace, []Peer{{NamespaceSelector: &Selector{}}})
	}
	var out []*Pod
	for i := range list {
		if p := &list[i]; p.IPBlock == nil && (p.PodSelector != nil || p.NamespaceSelector != nil) {
			out = append(out, x.peer(namespace, p)...)
		}
	}
	return out
}

// peer returns the pods that a peer selects, in the policy's own namespace unless it
// selects namespaces.
func (x *index) peer(namespace string, p *Peer) []*Pod {
	key := p.NamespaceSelector.key() + "\n" + p.PodSelector.key()
	if p.NamespaceSelector == nil {
		key = namespace + "\n" + key
	}
	if pods, ok := x.selected[key]; ok {
		return pods
	}
	var out []*Pod
	for name, pods := range x.pods {
		if p.NamespaceSelector == nil && name != namespace {
			continue
		}
		if p.NamespaceSelector != nil {
			// A namespace that is not known yet has no labels that could be trusted.
			if n := x.namespaces[name]; n == nil || !p.NamespaceSelector.matches(n.Labels) {
				continue
			}
		}
		for _, pod := range pods {
			if p.PodSelector == nil || p.PodSelector.matches(pod.Labels) {
				out = append(out, pod)
			}
		}
	}
	x.selected[key] = out
	return out
}
