// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netpolicy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// truth is one truth table of upstream's tests of network plugins
// (k8s.io/kubernetes v1.36.3 test/e2e/network/netpol/network_policy.go): the same pods,
// policies and expectations. As there, each pod has the label "pod", each namespace
// the label "ns", both with the name, and a pod's way to itself is not looked at.
type truth struct {
	name     string
	pods     string   // namespace/name
	policies []string // the namespace, and a spec
	port     uint16   // 0 means 80
	protocol Protocol // "" means TCP
	// want is a list of "from to yes|no" with patterns; the last one that matches
	// counts, and without any the answer is yes.
	want []string
	// relabel adds labels: "namespace key=value" or "namespace/pod key=value".
	relabel []string
}

const (
	fromY     = "from: [{namespaceSelector: {matchLabels: {ns: 'y'}}}]"
	podA      = "podSelector: {matchLabels: {pod: a}}"
	everyPod  = "podSelector: {}"
	notFromX  = "namespaceSelector: {matchExpressions: [{key: ns, operator: NotIn, values: [x]}]}"
	onlyIn    = "policyTypes: [Ingress]"
	onlyOut   = "policyTypes: [Egress]"
	both      = "policyTypes: [Ingress, Egress]"
	noIngress = everyPod + ", ingress: [], " + onlyIn
)

func truths() []truth {
	x := func(parts ...string) string { return "x: {" + strings.Join(parts, ", ") + "}" }
	return []truth{
		{name: "default-deny-ingress", pods: "x/a x/b y/a y/b", policies: []string{x(noIngress)},
			want: []string{"* x/* no"}},
		{name: "default-deny-all", pods: "x/a x/b y/a",
			policies: []string{x(everyPod, "ingress: []", "egress: []", both)},
			want:     []string{"* x/* no", "x/* * no"}},
		{name: "PodSelector within the namespace", pods: "x/a x/b x/c y/a",
			policies: []string{x(podA, "ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}]}]", onlyIn)},
			want:     []string{"* x/a no", "x/b x/a yes"}},
		{name: "ingress for a target", pods: "x/a x/b y/a", policies: []string{x(noIngress),
			x(podA, "ingress: [{from: [{podSelector: {}, namespaceSelector: {}}]}]", onlyIn)},
			want: []string{"* x/a yes", "* x/b no"}},
		{name: "pods in all namespaces", pods: "x/a x/b y/a z/a",
			policies: []string{x(podA, "ingress: [{from: [{namespaceSelector: {}}]}]", onlyIn)}},
		{name: "only from a different namespace", pods: "x/a x/b y/a z/a",
			policies: []string{x(podA, "ingress: [{"+fromY+"}]", onlyIn)}, want: []string{"x/* x/a no", "z/* x/a no"}},
		{name: "PodSelector with MatchExpressions", pods: "x/a x/b y/a", policies: []string{x(podA,
			"ingress: [{from: [{podSelector: {matchExpressions: [{key: pod, operator: In, values: [b]}]}}]}]", onlyIn)},
			want: []string{"* x/a no", "x/b x/a yes"}},
		{name: "NamespaceSelector with MatchExpressions", pods: "x/a x/b y/a z/a", policies: []string{x(podA,
			"ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: ns, operator: In, values: ['y']}]}}]}]",
			onlyIn)},
			want: []string{"x/* x/a no", "z/* x/a no"}},
		{name: "PodSelector or NamespaceSelector", pods: "x/a x/b x/c y/a", policies: []string{x(podA,
			"ingress: [{from: [{"+notFromX+"}, {podSelector: {matchLabels: {pod: b}}}]}]", onlyIn)},
			want: []string{"x/c x/a no"}},
		{name: "PodSelector and NamespaceSelector", pods: "x/a x/b y/a y/b z/b", policies: []string{x(podA,
			"ingress: [{from: [{"+notFromX+", podSelector: {matchLabels: {pod: b}}}]}]", onlyIn)},
			want: []string{"* x/a no", "y/b x/a yes", "z/b x/a yes"}},
		{name: "multiple PodSelectors and NamespaceSelectors", pods: "x/a x/b y/a y/b y/c", policies: []string{x(podA,
			"ingress: [{from: [{"+notFromX+", "+
				"podSelector: {matchExpressions: [{key: pod, operator: In, values: [b, c]}]}}]}]",
			onlyIn)}, want: []string{"x/* x/a no", "y/a x/a no"}},
		{name: "any PodSelectors", pods: "x/a x/b x/c", policies: []string{x(podA, "ingress: [{from: [{podSelector: "+
			"{matchLabels: {pod: b}}}, {podSelector: {matchLabels: {pod: c}}}]}]", onlyIn)},
			want: []string{"* x/a no", "x/b x/a yes", "x/c x/a yes"}},
		{name: "a pod in a different namespace", pods: "x/a x/b y/a y/b z/a", policies: []string{x(podA,
			"ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'y'}}, "+podA+"}]}]", onlyIn)},
			want: []string{"* x/a no", "y/a x/a yes"}},
		{name: "ports", pods: "x/a x/b y/a y/b z/a", port: 81,
			policies: []string{x(podA, "ingress: [{"+fromY+", ports: [{port: 81, protocol: TCP}]}]", onlyIn)},
			want:     []string{"x/* x/a no", "y/* x/a yes", "z/* x/a no"}},
		{name: "one policy of a stack", pods: "x/a x/b y/a y/b z/a", port: 80,
			policies: []string{x(podA, "ingress: [{"+fromY+", ports: [{port: 81, protocol: TCP}]}]", onlyIn)},
			want:     []string{"* x/a no"}},
		{name: "stacked policies", pods: "x/a x/b y/a y/b z/a", port: 80,
			policies: []string{x(podA, "ingress: [{"+fromY+", ports: [{port: 81, protocol: TCP}]}]", onlyIn),
				x(podA, "ingress: [{"+fromY+", ports: [{port: 80, protocol: TCP}]}]", onlyIn)},
			want: []string{"x/* x/a no", "y/* x/a yes", "z/* x/a no"}},
		{name: "allow-all", pods: "x/a x/b y/a", port: 81, policies: []string{x(everyPod, "ingress: [{}]", onlyIn)}},
		{name: "named port", pods: "x/a x/b y/a", port: 81,
			policies: []string{x(everyPod, "ingress: [{ports: [{port: serve-81-tcp}]}]", onlyIn)}},
		{name: "named port, the other", pods: "x/a x/b y/a", port: 80,
			policies: []string{x(everyPod, "ingress: [{ports: [{port: serve-81-tcp}]}]", onlyIn)},
			want:     []string{"* x/* no"}},
		{name: "named port from a namespace", pods: "x/a x/b y/a z/a", port: 80,
			policies: []string{x(podA, "ingress: [{"+fromY+", ports: [{port: serve-80-tcp, protocol: TCP}]}]", onlyIn)},
			want:     []string{"x/* x/a no", "z/* x/a no"}},
		{name: "named port from a namespace, the other", pods: "x/a x/b y/a z/a", port: 81,
			policies: []string{x(podA, "ingress: [{"+fromY+", ports: [{port: serve-80-tcp, protocol: TCP}]}]", onlyIn)},
			want:     []string{"* x/a no"}},
		{name: "egress to a named port", pods: "x/a y/a", port: 80,
			policies: []string{x(everyPod, "egress: [{ports: [{port: serve-80-tcp}]}]", onlyOut)}},
		{name: "egress to a named port, the other", pods: "x/a y/a", port: 81,
			policies: []string{x(everyPod, "egress: [{ports: [{port: serve-80-tcp}]}]", onlyOut)},
			want:     []string{"x/* * no"}},
		{name: "updated policy", pods: "x/a y/a", port: 81, policies: []string{x(noIngress)},
			want: []string{"* x/* no"}},
		{name: "namespace before its update", pods: "x/a y/a",
			policies: []string{x(podA,
				"ingress: [{from: [{namespaceSelector: {matchLabels: {ns2: updated}}}]}]", onlyIn)},
			want: []string{"* x/a no"}},
		{name: "updated namespace", pods: "x/a y/a", relabel: []string{"y ns2=updated"},
			policies: []string{x(podA,
				"ingress: [{from: [{namespaceSelector: {matchLabels: {ns2: updated}}}]}]", onlyIn)},
			want: []string{"* x/a no", "y/* * yes"}},
		{name: "pod before its update", pods: "x/a x/b",
			policies: []string{x(podA,
				"ingress: [{from: [{podSelector: {matchLabels: {pod: b, pod2: updated}}}]}]", onlyIn)},
			want: []string{"* x/a no"}},
		{name: "updated pod", pods: "x/a x/b", relabel: []string{"x/b pod2=updated"},
			policies: []string{x(podA,
				"ingress: [{from: [{podSelector: {matchLabels: {pod: b, pod2: updated}}}]}]", onlyIn)},
			want: []string{"* x/a no", "x/b x/a yes"}},
		{name: "not from other namespaces", pods: "x/a x/b y/a z/a",
			policies: []string{x(everyPod, "ingress: [{from: [{podSelector: {}}]}]", onlyIn)},
			want:     []string{"y/* x/* no", "z/* x/* no"}},
		{name: "before a pod is selected", pods: "x/a y/a",
			policies: []string{x("podSelector: {matchLabels: {target: isolated}}", "ingress: []", onlyIn)}},
		{name: "a pod that becomes selected", pods: "x/a y/a", relabel: []string{"x/a target=isolated"},
			policies: []string{x("podSelector: {matchLabels: {target: isolated}}", "ingress: []", onlyIn)},
			want:     []string{"* x/a no"}},
		{name: "no egress of a pod", pods: "x/a x/b y/a", policies: []string{x(podA, "egress: []", onlyOut)},
			want: []string{"x/a * no"}},
		{name: "no egress of a namespace", pods: "x/a x/b y/a", policies: []string{x(everyPod, "egress: []", onlyOut)},
			want: []string{"x/* * no"}},
		{name: "both directions, the open port", pods: "x/a x/b x/c y/a", port: 80, policies: []string{x(podA,
			"ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}]}]", "egress: [{ports: [{port: 80}]}]", both)},
			want: []string{"* x/a no", "x/b x/a yes"}},
		{name: "both directions, another port", pods: "x/a x/b x/c y/a", port: 81, policies: []string{x(podA,
			"ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}]}]", "egress: [{ports: [{port: 80}]}]", both)},
			want: []string{"* x/a no", "x/a * no", "x/b x/a yes"}},
		{name: "egress denied although ingress is allowed", pods: "x/a y/a y/b", policies: []string{
			x(podA, "egress: [{to: [{namespaceSelector: {matchLabels: {ns: 'y'}}, "+podA+"}]}]", onlyOut),
			"y: {" + podA + ", ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'x'}}, " + podA + "}]}], " +
				onlyIn +
				"}",
			"y: {podSelector: {matchLabels: {pod: b}}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'x'}}" +
				", " +
				podA +
				"}]}], " + onlyIn + "}"},
			want: []string{"x/a * no", "* y/a no", "x/a y/a yes", "* y/b no"}},
		{name: "egress to a pod of another namespace", pods: "x/a y/a y/b",
			policies: []string{x(podA,
				"egress: [{to: [{namespaceSelector: {matchLabels: {ns: 'y'}}, "+podA+"}]}]", onlyOut)},
			want: []string{"x/a * no", "x/a y/a yes"}},
		{name: "every port of a protocol", pods: "x/a y/a",
			policies: []string{x(podA, "ingress: [{ports: [{protocol: TCP}]}]", onlyIn)}},
		{name: "every port of another protocol", pods: "x/a y/a", protocol: UDP,
			policies: []string{x(podA, "ingress: [{ports: [{protocol: TCP}]}]", onlyIn)}, want: []string{"* x/a no"}},
		{name: "ingress, before allow-all", pods: "x/a y/a", port: 81,
			policies: []string{x(everyPod, "ingress: [{ports: [{port: 80}]}]", onlyIn)}, want: []string{"* x/* no"}},
		{name: "ingress, allow-all takes precedence", pods: "x/a y/a", port: 81,
			policies: []string{x(everyPod, "ingress: [{ports: [{port: 80}]}]", onlyIn), x(everyPod,
				"ingress: [{}]", onlyIn)}},
		{name: "egress, before allow-all", pods: "x/a y/a", port: 81,
			policies: []string{x(everyPod, "egress: [{ports: [{port: 80}]}]", onlyOut)}, want: []string{"x/* * no"}},
		{name: "egress, allow-all takes precedence", pods: "x/a y/a", port: 81,
			policies: []string{x(everyPod, "egress: [{ports: [{port: 80}]}]", onlyOut), x(everyPod,
				"egress: [{}]", onlyOut)}},
		{name: "policies are deleted", pods: "x/a y/a"},
		{name: "egress to a CIDR block", pods: "x/a y/a y/b",
			policies: []string{x(podA, "egress: [{to: [{ipBlock: {cidr: $y/b/32}}]}]", onlyOut)},
			want:     []string{"x/a * no", "x/a y/b yes"}},
		{name: "except", pods: "x/a x/b x/c",
			policies: []string{x(podA, "egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [$x/b/32]}}]}]", onlyOut)},
			want:     []string{"x/a x/b no"}},
		{name: "in CIDR and in except", pods: "x/a x/b x/c",
			policies: []string{x(podA, "egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [$x/b/32]}}]}]", onlyOut),
				x(podA, "egress: [{to: [{ipBlock: {cidr: $x/b/32}}]}]", onlyOut)}},
		{name: "directions are independent: egress", pods: "x/a x/b y/a",
			policies: []string{x(podA, "egress: [{}]", onlyOut)}},
		{name: "directions are independent: ingress", pods: "x/a x/b y/a",
			policies: []string{x(podA, "egress: [{}]", onlyOut), x(podA, "ingress: []", onlyIn)},
			want:     []string{"* x/a no"}},
		{name: "SCTP is not TCP", pods: "x/a y/a", port: 81, policies: []string{x(noIngress),
			x(podA, "ingress: [{ports: [{port: 81, protocol: SCTP}]}]", onlyIn)}, want: []string{"* x/* no"}},
		{name: "SCTP isolates", pods: "x/a y/a", port: 81,
			policies: []string{x(podA, "ingress: [{ports: [{port: 80, protocol: SCTP}]}]", onlyIn)},
			want:     []string{"* x/a no"}},
		{name: "UDP is not TCP", pods: "x/a y/a", port: 81,
			policies: []string{x(podA, "ingress: [{ports: [{port: 81, protocol: UDP}]}]", onlyIn)},
			want:     []string{"* x/a no"}},
		{name: "the namespace's own label", pods: "x/a x/b y/a z/a", policies: []string{x(podA, "ingress: [{from: ["+
			"{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: 'y'}}}]}]", onlyIn)},
			want: []string{"x/* x/a no", "z/* x/a no"}},
		{name: "the namespace's own label in an expression", pods: "x/a x/b y/a z/a", policies: []string{x(podA,
			"egress: [{to: [{namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, "+
				"operator: NotIn, "+
				"values: ['y']}]}}]}]", onlyOut)}, want: []string{"x/a y/* no"}},
	}
}

// cluster makes the cluster of a truth table: each pod on a node of its own number.
func (tt truth) cluster(t *testing.T) *Cluster {
	t.Helper()
	c := &Cluster{}
	address := map[string]string{}
	for i, name := range strings.Fields(tt.pods) {
		namespace, pod, _ := strings.Cut(name, "/")
		p := Pod{Namespace: namespace, Name: pod, Node: "n", Labels: map[string]string{"pod": pod},
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 244, 1, byte(10 + i)})}}
		for _, port := range []uint16{80, 81} {
			for _, protocol := range []Protocol{TCP, UDP} {
				p.Ports = append(p.Ports, ContainerPort{Name: fmt.Sprintf("serve-%d-%s", port,
					strings.ToLower(string(protocol))), Protocol: protocol, Number: port})
			}
		}
		address["$"+name] = p.Addresses[0].String()
		c.Pods = append(c.Pods, p)
		if !slices.ContainsFunc(c.Namespaces, func(n Namespace) bool { return n.Name == namespace }) {
			c.Namespaces = append(c.Namespaces, Namespace{Name: namespace,
				Labels: map[string]string{"ns": namespace, "kubernetes.io/metadata.name": namespace}})
		}
	}
	for _, r := range tt.relabel {
		who, label, _ := strings.Cut(r, " ")
		key, value, _ := strings.Cut(label, "=")
		for _, p := range c.Pods {
			if p.Namespace+"/"+p.Name == who {
				p.Labels[key] = value
			}
		}
		for _, n := range c.Namespaces {
			if n.Name == who {
				n.Labels[key] = value
			}
		}
	}
	for i, text := range tt.policies {
		namespace, spec, _ := strings.Cut(text, ": ")
		for name, a := range address {
			spec = strings.ReplaceAll(spec, name, a)
		}
		c.Policies = append(c.Policies, parse(t, namespace, fmt.Sprintf("p%d", i), spec))
	}
	return c
}

// parse reads a spec as the API server would: strictly, with upstream's types.
func parse(t testing.TB, namespace, name, spec string) Policy {
	t.Helper()
	var up networkingv1.NetworkPolicy
	if err := yaml.UnmarshalStrict([]byte(spec), &up.Spec); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	up.Namespace, up.Name = namespace, name
	doc, err := json.Marshal(&up)
	if err != nil {
		t.Fatal(err)
	}
	var p Policy
	if err := json.Unmarshal(doc, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// passes reports whether a connection passes both ends.
func passes(endpoints []Endpoint, from, to *Pod, protocol Protocol, port uint16) bool {
	find := func(p *Pod) *Endpoint {
		i := slices.IndexFunc(endpoints,
			func(e Endpoint) bool { return e.Namespace == p.Namespace && e.Name == p.Name })
		if i < 0 {
			return &Endpoint{}
		}
		return &endpoints[i]
	}
	return find(from).Egress.passes(to.Addresses[0], protocol, port) &&
		find(to).Ingress.passes(from.Addresses[0], protocol, port)
}

func (d *Direction) passes(peer netip.Addr, protocol Protocol, port uint16) bool {
	return d == nil || slices.ContainsFunc(d.Allow, func(r Rule) bool {
		return (len(r.Peers) == 0 ||
			slices.ContainsFunc(r.Peers, func(p netip.Prefix) bool { return p.Contains(peer) })) &&
			(len(r.Ports) == 0 || slices.ContainsFunc(r.Ports, func(p Ports) bool {
				return p.Protocol == protocol && p.First <= port && port <= p.Last
			}))
	})
}

func TestUpstreamTruthTables(t *testing.T) {
	for _, tt := range truths() {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.cluster(t)
			endpoints := Compile(c, "n")
			if tt.port == 0 {
				tt.port = 80
			}
			if tt.protocol == "" {
				tt.protocol = TCP
			}
			for i := range c.Pods {
				for j := range c.Pods {
					from, to := &c.Pods[i], &c.Pods[j]
					if i == j {
						continue
					}
					want := true
					for _, line := range tt.want {
						f := strings.Fields(line)
						if match(t, f[0], from) && match(t, f[1], to) {
							want = f[2] == "yes"
						}
					}
					if got := passes(endpoints, from, to, tt.protocol, tt.port); got != want {
						t.Errorf("%s/%s → %s/%s: %v, want %v", from.Namespace, from.Name, to.Namespace, to.Name,
							got, want)
					}
				}
			}
		})
	}
}

func match(t *testing.T, pattern string, p *Pod) bool {
	t.Helper()
	if pattern == "*" {
		return true
	}
	ok, err := path.Match(pattern, p.Namespace+"/"+p.Name)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}
