// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netpolicy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
)

// TestAgainstReference compares Compile with an evaluator that reads the
// documentation packet by packet, with upstream's types and selectors.
func TestAgainstReference(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		c, policies := randomCluster(t, r)
		if !compareWithReference(t, r, c, policies) {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Add(uint64(77), uint64(3))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		r := rand.New(rand.NewPCG(a, b))
		c, policies := randomCluster(t, r)
		compareWithReference(t, r, c, policies)
	})
}

// FuzzPolicy: no document makes Compile fail, and exceptions never lie in what is left.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(`{"spec":{"podSelector":{},"ingress":[{"from":[{"ipBlock":{"cidr":"10.0.0.0/8",` +
		`"except":["10.1.0.0/16"]}}],"ports":[{"port":80,"endPort":90},{"port":"web"}]}],"policyTypes":["Ingress"]}}`))
	f.Add([]byte(`{"spec":{"podSelector":{"matchExpressions":[{"key":"a","operator":"?"}]},"egress":[{"to":[{}]}]}}`))
	f.Add([]byte(`{"spec":{"egress":[{"to":[{"ipBlock":{"cidr":"fd00::/8","except":["fd00::1/128","x"]}}]}]}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		var p netpolicy.Policy
		if json.Unmarshal(doc, &p) != nil {
			return
		}
		p.Metadata.Namespace = "x"
		c := &netpolicy.Cluster{Policies: []netpolicy.Policy{p},
			Namespaces: []netpolicy.Namespace{{Name: "x"}}, Pods: []netpolicy.Pod{{Namespace: "x", Name: "p",
				Node: "n", Addresses: []netip.Addr{netip.MustParseAddr("10.1.2.3")},
				Ports: []netpolicy.ContainerPort{{Name: "web", Number: 8080}}}}}
		for _, e := range netpolicy.Compile(c, "n") {
			for _, d := range []*netpolicy.Direction{e.Ingress, e.Egress} {
				if d == nil {
					continue
				}
				for _, r := range d.Allow {
					for i, q := range r.Peers {
						if !q.IsValid() || i > 0 && r.Peers[i-1].Overlaps(q) {
							t.Errorf("peers %v", r.Peers)
						}
					}
				}
			}
		}
	})
}

func compareWithReference(t *testing.T, r *rand.Rand, c *netpolicy.Cluster,
	policies []networkingv1.NetworkPolicy) bool {
	t.Helper()
	endpoints := netpolicy.Compile(c, "n")
	for range 200 {
		from, to := &c.Pods[r.IntN(len(c.Pods))], &c.Pods[r.IntN(len(c.Pods))]
		if from == to || !hasNetwork(from) || !hasNetwork(to) {
			continue
		}
		protocol := []netpolicy.Protocol{netpolicy.TCP, netpolicy.UDP, netpolicy.SCTP}[r.IntN(3)]
		port := uint16(78 + r.IntN(8))
		want := reference(t, c, policies, from, to, protocol, port)
		if got := passes(endpoints, from, to, protocol, port); got != want {
			doc, _ := json.MarshalIndent(policies, "", " ")
			t.Errorf("%s/%s %v %s → %s/%s %v %s:%d: got %v, want %v\n%s\n%+v", from.Namespace, from.Name, from.Labels,
				from.Addresses, to.Namespace, to.Name, to.Labels, protocol, port, got, want, doc, endpoints)
			return false
		}
	}
	// The order of the input is of no importance.
	shuffled := *c
	shuffled.Pods, shuffled.Policies = slices.Clone(c.Pods), slices.Clone(c.Policies)
	r.Shuffle(len(shuffled.Pods), func(i, j int) {
		shuffled.Pods[i], shuffled.Pods[j] = shuffled.Pods[j], shuffled.Pods[i]
	})
	r.Shuffle(len(shuffled.Policies), func(i, j int) {
		shuffled.Policies[i], shuffled.Policies[j] = shuffled.Policies[j], shuffled.Policies[i]
	})
	if again := netpolicy.Compile(&shuffled, "n"); !reflect.DeepEqual(again, endpoints) {
		t.Errorf("another order gives\n%+v, not\n%+v", again, endpoints)
		return false
	}
	return true
}

// hasNetwork reports whether a pod has addresses of its own.
func hasNetwork(p *netpolicy.Pod) bool { return !p.HostNetwork && !p.Done }

// reference decides about one connection by the documentation's words.
func reference(t *testing.T, c *netpolicy.Cluster, policies []networkingv1.NetworkPolicy, from, to *netpolicy.Pod,
	protocol netpolicy.Protocol, port uint16) bool {
	selects := func(s *metav1.LabelSelector, l map[string]string) bool {
		sel, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		return sel.Matches(labels.Set(l))
	}
	namespace := func(name string) map[string]string {
		for _, n := range c.Namespaces {
			if n.Name == name {
				return n.Labels
			}
		}
		return nil
	}
	peer := func(p *networkingv1.NetworkPolicy, x networkingv1.NetworkPolicyPeer, other *netpolicy.Pod) bool {
		if x.IPBlock != nil {
			in := func(s string) bool { return netip.MustParsePrefix(s).Contains(other.Addresses[0]) }
			return in(x.IPBlock.CIDR) && !slices.ContainsFunc(x.IPBlock.Except, in)
		}
		if x.NamespaceSelector == nil && other.Namespace != p.Namespace ||
			x.NamespaceSelector != nil && !selects(x.NamespaceSelector, namespace(other.Namespace)) {
			return false
		}
		return x.PodSelector == nil || selects(x.PodSelector, other.Labels)
	}
	onPort := func(list []networkingv1.NetworkPolicyPort) bool { return namesPort(list, to, protocol, port) }
	allowed := func(about, other *netpolicy.Pod, kind networkingv1.PolicyType) bool {
		isolated, ok := false, false
		for i := range policies {
			p := &policies[i]
			if p.Namespace != about.Namespace || !selects(&p.Spec.PodSelector, about.Labels) {
				continue
			}
			types := p.Spec.PolicyTypes
			if len(types) == 0 {
				types = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
				if len(p.Spec.Egress) > 0 {
					types = append(types, networkingv1.PolicyTypeEgress)
				}
			}
			if !slices.Contains(types, kind) {
				continue
			}
			isolated = true
			rule := func(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) {
				ok = ok || onPort(ports) && (len(peers) == 0 ||
					slices.ContainsFunc(peers,
						func(x networkingv1.NetworkPolicyPeer) bool { return peer(p, x, other) }))
			}
			if kind == networkingv1.PolicyTypeIngress {
				for _, r := range p.Spec.Ingress {
					rule(r.From, r.Ports)
				}
			} else {
				for _, r := range p.Spec.Egress {
					rule(r.To, r.Ports)
				}
			}
		}
		return !isolated || ok
	}
	// A name is never the port of an address block: a block has no containers. Compile
	// resolves names for pods only, and a pod inside of a block is not looked for.
	return allowed(to, from, networkingv1.PolicyTypeIngress) && allowed(from, to, networkingv1.PolicyTypeEgress)
}

// namesPort reports whether a list of ports has the one of the pod.
func namesPort(list []networkingv1.NetworkPolicyPort, to *netpolicy.Pod, protocol netpolicy.Protocol,
	port uint16) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(p networkingv1.NetworkPolicyPort) bool {
		want := p.Protocol
		if want == nil && protocol != netpolicy.TCP || want != nil && string(*want) != string(protocol) {
			return false
		}
		if p.Port == nil {
			return true
		}
		if p.Port.Type == intstr.String {
			return slices.ContainsFunc(to.Ports, func(c netpolicy.ContainerPort) bool {
				return c.Name == p.Port.StrVal && c.Protocol == protocol && c.Number == port
			})
		}
		last := p.Port.IntVal
		if p.EndPort != nil {
			last = *p.EndPort
		}
		return p.Port.IntVal <= int32(port) && int32(port) <= last
	})
}

// randomCluster returns a cluster, and its policies in upstream's types.
func randomCluster(t *testing.T, r *rand.Rand) (*netpolicy.Cluster, []networkingv1.NetworkPolicy) {
	t.Helper()
	c := &netpolicy.Cluster{}
	some := func(n int) map[string]string {
		l := map[string]string{}
		for range r.IntN(n) {
			l[string(rune('a'+r.IntN(3)))] = fmt.Sprint(r.IntN(3))
		}
		return l
	}
	names := []string{"x", "y", "z"}
	for _, n := range names {
		c.Namespaces = append(c.Namespaces, netpolicy.Namespace{Name: n, Labels: some(4)})
	}
	for i := range 3 + r.IntN(8) {
		p := netpolicy.Pod{Namespace: names[r.IntN(3)], Name: fmt.Sprint("p", i), Node: "n", Labels: some(4),
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 244, 0, byte(r.IntN(4)<<4 + i)})}}
		for range r.IntN(3) {
			p.Ports = append(p.Ports, netpolicy.ContainerPort{Name: fmt.Sprint("n", len(p.Ports)),
				Protocol: []netpolicy.Protocol{netpolicy.TCP, netpolicy.UDP}[r.IntN(2)],
				Number:   uint16(79 + r.IntN(5))})
		}
		p.HostNetwork, p.Done = r.IntN(12) == 0, r.IntN(12) == 0
		c.Pods = append(c.Pods, p)
	}
	var policies []networkingv1.NetworkPolicy
	for i := range r.IntN(6) {
		p := randomPolicy(r, some)
		p.Namespace, p.Name = names[r.IntN(3)], fmt.Sprint("p", i)
		policies = append(policies, p)
		doc, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var ours netpolicy.Policy
		if err := json.Unmarshal(doc, &ours); err != nil {
			t.Fatal(err)
		}
		c.Policies = append(c.Policies, ours)
	}
	return c, policies
}

func randomPolicy(r *rand.Rand, some func(int) map[string]string) networkingv1.NetworkPolicy {
	selector := func() metav1.LabelSelector {
		s := metav1.LabelSelector{MatchLabels: some(2)}
		if r.IntN(4) == 0 {
			op := []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn,
				metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist}[r.IntN(4)]
			e := metav1.LabelSelectorRequirement{Key: string(rune('a' + r.IntN(3))), Operator: op}
			if op == metav1.LabelSelectorOpIn || op == metav1.LabelSelectorOpNotIn {
				e.Values = []string{fmt.Sprint(r.IntN(3)), fmt.Sprint(r.IntN(3))}
			}
			s.MatchExpressions = append(s.MatchExpressions, e)
		}
		return s
	}
	blocks := false
	peers := func() (out []networkingv1.NetworkPolicyPeer) {
		for range r.IntN(3) {
			var p networkingv1.NetworkPolicyPeer
			switch r.IntN(4) {
			case 0:
				blocks = true
				p.IPBlock = &networkingv1.IPBlock{CIDR: "10.244.0.0/24"}
				for range r.IntN(3) {
					p.IPBlock.Except = append(p.IPBlock.Except, fmt.Sprintf("10.244.0.%d/%d", r.IntN(64), 26+r.IntN(7)))
				}
			case 1:
				s := selector()
				p.PodSelector = &s
			case 2:
				s := selector()
				p.NamespaceSelector = &s
			case 3:
				s, n := selector(), selector()
				p.PodSelector, p.NamespaceSelector = &s, &n
			}
			out = append(out, p)
		}
		return out
	}
	ports := func(egress bool) (out []networkingv1.NetworkPolicyPort) {
		for range r.IntN(3) {
			var p networkingv1.NetworkPolicyPort
			if r.IntN(2) == 0 {
				protocol := protocols()[r.IntN(3)]
				p.Protocol = &protocol
			}
			switch r.IntN(4) {
			case 0:
				if !egress || !blocks {
					name := intstr.FromString(fmt.Sprint("n", r.IntN(2)))
					p.Port = &name
				}
			case 1:
				n, last := intstr.FromInt32(int32(78+r.IntN(4))), int32(82+r.IntN(4))
				p.Port, p.EndPort = &n, &last
			case 2:
				n := intstr.FromInt32(int32(78 + r.IntN(6)))
				p.Port = &n
			}
			out = append(out, p)
		}
		return out
	}
	var p networkingv1.NetworkPolicy
	p.Spec.PodSelector = selector()
	for range r.IntN(3) {
		p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: peers(),
			Ports: ports(false)})
	}
	for range r.IntN(3) {
		blocks = false
		p.Spec.Egress = append(p.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: peers(), Ports: ports(true)})
	}
	switch r.IntN(4) {
	case 0:
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	case 1:
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
	case 2:
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	}
	return p
}
