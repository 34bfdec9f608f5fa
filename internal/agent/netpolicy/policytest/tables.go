// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policytest

import (
	"strings"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
)

// Table is one truth table of upstream's tests of network plugins (k8s.io/kubernetes
// v1.36.3 test/e2e/network/netpol/network_policy.go): the same pods, policies and
// expectations. As there, each pod has the label "pod", each namespace the label "ns",
// both with the name, and connections of a pod to itself are not tested.
type Table struct {
	Name     string
	pods     string             // namespace/name
	policies []string           // the namespace, and a spec
	port     uint16             // 0 means 80
	protocol netpolicy.Protocol // "" means TCP
	// want is a list of "from to yes|no" with patterns; the last one that matches counts;
	// without a match the result is yes.
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

// Tables returns all of them.
func Tables() []Table {
	x := func(parts ...string) string { return "x: {" + strings.Join(parts, ", ") + "}" }
	return []Table{
		{Name: "default-deny-ingress", pods: "x/a x/b y/a y/b", policies: []string{x(noIngress)},
			want: []string{"* x/* no"}},
		{Name: "default-deny-all", pods: "x/a x/b y/a",
			policies: []string{x(everyPod, "ingress: []", "egress: []", both)},
			want:     []string{"* x/* no", "x/* * no"}},
		{Name: "PodSelector within the namespace", pods: "x/a x/b x/c y/a",
			policies: []string{x(podA, "ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}]}]", onlyIn)},
			want:     []string{"* x/a no", "x/b x/a yes"}},
		{Name: "ingress for a target", pods: "x/a x/b y/a", policies: []string{x(noIngress),
			x(podA, "ingress: [{from: [{podSelector: {}, namespaceSelector: {}}]}]", onlyIn)},
			want: []string{"* x/a yes", "* x/b no"}},
		{Name: "pods in all namespaces", pods: "x/a x/b y/a z/a",
			policies: []string{x(podA, "ingress: [{from: [{namespaceSelector: {}}]}]", onlyIn)}},
		{Name: "only from a different namespace", pods: "x/a x/b y/a z/a",
			policies: []string{x(podA, "ingress: [{"+fromY+"}]", onlyIn)}, want: []string{"x/* x/a no", "z/* x/a no"}},
		{Name: "PodSelector with MatchExpressions", pods: "x/a x/b y/a", policies: []string{x(podA,
			"ingress: [{from: [{podSelector: {matchExpressions: [{key: pod, operator: In, values: [b]}]}}]}]", onlyIn)},
			want: []string{"* x/a no", "x/b x/a yes"}},
		{Name: "NamespaceSelector with MatchExpressions", pods: "x/a x/b y/a z/a", policies: []string{x(podA,
			"ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: ns, operator: In, values: ['y']}]}}]}]",
			onlyIn)},
			want: []string{"x/* x/a no", "z/* x/a no"}},
		{Name: "PodSelector or NamespaceSelector", pods: "x/a x/b x/c y/a", policies: []string{x(podA,
			"ingress: [{from: [{"+notFromX+"}, {podSelector: {matchLabels: {pod: b}}}]}]", onlyIn)},
			want: []string{"x/c x/a no"}},
		{Name: "PodSelector and NamespaceSelector", pods: "x/a x/b y/a y/b z/b", policies: []string{x(podA,
			"ingress: [{from: [{"+notFromX+", podSelector: {matchLabels: {pod: b}}}]}]", onlyIn)},
			want: []string{"* x/a no", "y/b x/a yes", "z/b x/a yes"}},
		{Name: "multiple PodSelectors and NamespaceSelectors", pods: "x/a x/b y/a y/b y/c", policies: []string{x(podA,
			"ingress: [{from: [{"+notFromX+", "+
				"podSelector: {matchExpressions: [{key: pod, operator: In, values: [b, c]}]}}]}]",
			onlyIn)}, want: []string{"x/* x/a no", "y/a x/a no"}},
		{Name: "any PodSelectors", pods: "x/a x/b x/c", policies: []string{x(podA, "ingress: [{from: [{podSelector: "+
			"{matchLabels: {pod: b}}}, {podSelector: {matchLabels: {pod: c}}}]}]", onlyIn)},
			want: []string{"* x/a no", "x/b x/a yes", "x/c x/a yes"}},
		{Name: "a pod in a different namespace", pods: "x/a x/b y/a y/b z/a", policies: []string{x(podA,
			"ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'y'}}, "+podA+"}]}]", onlyIn)},
			want: []string{"* x/a no", "y/a x/a yes"}},
		{Name: "ports", pods: "x/a x/b y/a y/b z/a", port: 81,
			policies: []string{x(podA, "ingress: [{"+fromY+", ports: [{port: 81, protocol: TCP}]}]", onlyIn)},
			want:     []string{"x/* x/a no", "y/* x/a yes", "z/* x/a no"}},
		{Name: "one policy of a stack", pods: "x/a x/b y/a y/b z/a", port: 80,
			policies: []string{x(podA, "ingress: [{"+fromY+", ports: [{port: 81, protocol: TCP}]}]", onlyIn)},
			want:     []string{"* x/a no"}},
		{Name: "stacked policies", pods: "x/a x/b y/a y/b z/a", port: 80,
			policies: []string{x(podA, "ingress: [{"+fromY+", ports: [{port: 81, protocol: TCP}]}]", onlyIn),
				x(podA, "ingress: [{"+fromY+", ports: [{port: 80, protocol: TCP}]}]", onlyIn)},
			want: []string{"x/* x/a no", "y/* x/a yes", "z/* x/a no"}},
		{Name: "allow-all", pods: "x/a x/b y/a", port: 81, policies: []string{x(everyPod, "ingress: [{}]", onlyIn)}},
		{Name: "named port", pods: "x/a x/b y/a", port: 81,
			policies: []string{x(everyPod, "ingress: [{ports: [{port: serve-81-tcp}]}]", onlyIn)}},
		{Name: "named port, the other", pods: "x/a x/b y/a", port: 80,
			policies: []string{x(everyPod, "ingress: [{ports: [{port: serve-81-tcp}]}]", onlyIn)},
			want:     []string{"* x/* no"}},
		{Name: "named port from a namespace", pods: "x/a x/b y/a z/a", port: 80,
			policies: []string{x(podA, "ingress: [{"+fromY+", ports: [{port: serve-80-tcp, protocol: TCP}]}]", onlyIn)},
			want:     []string{"x/* x/a no", "z/* x/a no"}},
		{Name: "named port from a namespace, the other", pods: "x/a x/b y/a z/a", port: 81,
			policies: []string{x(podA, "ingress: [{"+fromY+", ports: [{port: serve-80-tcp, protocol: TCP}]}]", onlyIn)},
			want:     []string{"* x/a no"}},
		{Name: "egress to a named port", pods: "x/a y/a", port: 80,
			policies: []string{x(everyPod, "egress: [{ports: [{port: serve-80-tcp}]}]", onlyOut)}},
		{Name: "egress to a named port, the other", pods: "x/a y/a", port: 81,
			policies: []string{x(everyPod, "egress: [{ports: [{port: serve-80-tcp}]}]", onlyOut)},
			want:     []string{"x/* * no"}},
		{Name: "updated policy", pods: "x/a y/a", port: 81, policies: []string{x(noIngress)},
			want: []string{"* x/* no"}},
		{Name: "namespace before its update", pods: "x/a y/a",
			policies: []string{x(podA,
				"ingress: [{from: [{namespaceSelector: {matchLabels: {ns2: updated}}}]}]", onlyIn)},
			want: []string{"* x/a no"}},
		{Name: "updated namespace", pods: "x/a y/a", relabel: []string{"y ns2=updated"},
			policies: []string{x(podA,
				"ingress: [{from: [{namespaceSelector: {matchLabels: {ns2: updated}}}]}]", onlyIn)},
			want: []string{"* x/a no", "y/* * yes"}},
		{Name: "pod before its update", pods: "x/a x/b",
			policies: []string{x(podA,
				"ingress: [{from: [{podSelector: {matchLabels: {pod: b, pod2: updated}}}]}]", onlyIn)},
			want: []string{"* x/a no"}},
		{Name: "updated pod", pods: "x/a x/b", relabel: []string{"x/b pod2=updated"},
			policies: []string{x(podA,
				"ingress: [{from: [{podSelector: {matchLabels: {pod: b, pod2: updated}}}]}]", onlyIn)},
			want: []string{"* x/a no", "x/b x/a yes"}},
		{Name: "not from other namespaces", pods: "x/a x/b y/a z/a",
			policies: []string{x(everyPod, "ingress: [{from: [{podSelector: {}}]}]", onlyIn)},
			want:     []string{"y/* x/* no", "z/* x/* no"}},
		{Name: "before a pod is selected", pods: "x/a y/a",
			policies: []string{x("podSelector: {matchLabels: {target: isolated}}", "ingress: []", onlyIn)}},
		{Name: "a pod that becomes selected", pods: "x/a y/a", relabel: []string{"x/a target=isolated"},
			policies: []string{x("podSelector: {matchLabels: {target: isolated}}", "ingress: []", onlyIn)},
			want:     []string{"* x/a no"}},
		{Name: "no egress of a pod", pods: "x/a x/b y/a", policies: []string{x(podA, "egress: []", onlyOut)},
			want: []string{"x/a * no"}},
		{Name: "no egress of a namespace", pods: "x/a x/b y/a", policies: []string{x(everyPod, "egress: []", onlyOut)},
			want: []string{"x/* * no"}},
		{Name: "both directions, the open port", pods: "x/a x/b x/c y/a", port: 80, policies: []string{x(podA,
			"ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}]}]", "egress: [{ports: [{port: 80}]}]", both)},
			want: []string{"* x/a no", "x/b x/a yes"}},
		{Name: "both directions, another port", pods: "x/a x/b x/c y/a", port: 81, policies: []string{x(podA,
			"ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}]}]", "egress: [{ports: [{port: 80}]}]", both)},
			want: []string{"* x/a no", "x/a * no", "x/b x/a yes"}},
		{Name: "egress denied although ingress is allowed", pods: "x/a y/a y/b", policies: []string{
			x(podA, "egress: [{to: [{namespaceSelector: {matchLabels: {ns: 'y'}}, "+podA+"}]}]", onlyOut),
			"y: {" + podA + ", ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'x'}}, " + podA + "}]}], " +
				onlyIn +
				"}",
			"y: {podSelector: {matchLabels: {pod: b}}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'x'}}" +
				", " +
				podA +
				"}]}], " + onlyIn + "}"},
			want: []string{"x/a * no", "* y/a no", "x/a y/a yes", "* y/b no"}},
		{Name: "egress to a pod of another namespace", pods: "x/a y/a y/b",
			policies: []string{x(podA,
				"egress: [{to: [{namespaceSelector: {matchLabels: {ns: 'y'}}, "+podA+"}]}]", onlyOut)},
			want: []string{"x/a * no", "x/a y/a yes"}},
		{Name: "every port of a protocol", pods: "x/a y/a",
			policies: []string{x(podA, "ingress: [{ports: [{protocol: TCP}]}]", onlyIn)}},
		{Name: "every port of another protocol", pods: "x/a y/a", protocol: netpolicy.UDP,
			policies: []string{x(podA, "ingress: [{ports: [{protocol: TCP}]}]", onlyIn)}, want: []string{"* x/a no"}},
		{Name: "ingress, before allow-all", pods: "x/a y/a", port: 81,
			policies: []string{x(everyPod, "ingress: [{ports: [{port: 80}]}]", onlyIn)}, want: []string{"* x/* no"}},
		{Name: "ingress, allow-all takes precedence", pods: "x/a y/a", port: 81,
			policies: []string{x(everyPod, "ingress: [{ports: [{port: 80}]}]", onlyIn), x(everyPod,
				"ingress: [{}]", onlyIn)}},
		{Name: "egress, before allow-all", pods: "x/a y/a", port: 81,
			policies: []string{x(everyPod, "egress: [{ports: [{port: 80}]}]", onlyOut)}, want: []string{"x/* * no"}},
		{Name: "egress, allow-all takes precedence", pods: "x/a y/a", port: 81,
			policies: []string{x(everyPod, "egress: [{ports: [{port: 80}]}]", onlyOut), x(everyPod,
				"egress: [{}]", onlyOut)}},
		{Name: "policies are deleted", pods: "x/a y/a"},
		{Name: "egress to a CIDR block", pods: "x/a y/a y/b",
			policies: []string{x(podA, "egress: [{to: [{ipBlock: {cidr: $y/b/32}}]}]", onlyOut)},
			want:     []string{"x/a * no", "x/a y/b yes"}},
		{Name: "except", pods: "x/a x/b x/c",
			policies: []string{x(podA, "egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [$x/b/32]}}]}]", onlyOut)},
			want:     []string{"x/a x/b no"}},
		{Name: "in CIDR and in except", pods: "x/a x/b x/c",
			policies: []string{x(podA, "egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [$x/b/32]}}]}]", onlyOut),
				x(podA, "egress: [{to: [{ipBlock: {cidr: $x/b/32}}]}]", onlyOut)}},
		{Name: "directions are independent: egress", pods: "x/a x/b y/a",
			policies: []string{x(podA, "egress: [{}]", onlyOut)}},
		{Name: "directions are independent: ingress", pods: "x/a x/b y/a",
			policies: []string{x(podA, "egress: [{}]", onlyOut), x(podA, "ingress: []", onlyIn)},
			want:     []string{"* x/a no"}},
		{Name: "SCTP is not TCP", pods: "x/a y/a", port: 81, policies: []string{x(noIngress),
			x(podA, "ingress: [{ports: [{port: 81, protocol: SCTP}]}]", onlyIn)}, want: []string{"* x/* no"}},
		{Name: "SCTP isolates", pods: "x/a y/a", port: 81,
			policies: []string{x(podA, "ingress: [{ports: [{port: 80, protocol: SCTP}]}]", onlyIn)},
			want:     []string{"* x/a no"}},
		{Name: "UDP is not TCP", pods: "x/a y/a", port: 81,
			policies: []string{x(podA, "ingress: [{ports: [{port: 81, protocol: UDP}]}]", onlyIn)},
			want:     []string{"* x/a no"}},
		{Name: "the namespace's own label", pods: "x/a x/b y/a z/a", policies: []string{x(podA, "ingress: [{from: ["+
			"{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: 'y'}}}]}]", onlyIn)},
			want: []string{"x/* x/a no", "z/* x/a no"}},
		{Name: "the namespace's own label in an expression", pods: "x/a x/b y/a z/a", policies: []string{x(podA,
			"egress: [{to: [{namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, "+
				"operator: NotIn, "+
				"values: ['y']}]}}]}]", onlyOut)}, want: []string{"x/a y/* no"}},
		{Name: "UDP: default-deny-ingress", pods: "x/a x/b y/a y/b", protocol: netpolicy.UDP,
			policies: []string{x(noIngress)}, want: []string{"* x/* no"}},
		{Name: "UDP: ports", pods: "x/a x/b y/a z/a", port: 81, protocol: netpolicy.UDP,
			policies: []string{x(podA, "ingress: [{"+fromY+", ports: [{port: 81, protocol: UDP}]}]", onlyIn)},
			want:     []string{"x/* x/a no", "z/* x/a no"}},
		{Name: "UDP: a pod in a different namespace", pods: "x/a x/b y/a", protocol: netpolicy.UDP,
			policies: []string{x(podA,
				"ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'y'}}, "+podA+"}]}]", onlyIn)},
			want: []string{"* x/a no", "y/a x/a yes"}},
	}
}
