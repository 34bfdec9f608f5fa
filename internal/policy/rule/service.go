// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

const (
	srcWinkernel  = "k8s.io/kubernetes pkg/proxy/winkernel: proxier.go"
	srcNetworking = "https://kubernetes.io/docs/concepts/services-networking/windows-networking/"
)

// affinityTimeoutDefault is the API server's default. k8s.io/api/core/v1:
// DefaultClientIPServiceAffinitySeconds.
const affinityTimeoutDefault = 10800

// serviceRules are about Services. kube-proxy programs every Service on every
// Windows node, so most rules are about clients on Windows, wherever the
// backends run. They never refuse a Service, because it may belong to a Linux
// application.
func serviceRules() []Rule {
	return []Rule{
		{
			Code:     "WIN602",
			Title:    "session affinity on an old Windows version",
			Severity: policy.Warning,
			Field:    "spec.sessionAffinity",
			Why:      "Session affinity needs Windows Server 2022 (HNS 12).",
			Fix:      "update the nodes, or remove sessionAffinity",
			Sources:  []string{srcWinkernel, srcNetworking},
			kinds:    []string{"Service"},
			object:   ofWindows(checkAffinityBuilds),
		},
		{
			Code:     "WIN603",
			Title:    "session affinity timeout",
			Severity: policy.Warning,
			Field:    "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
			Why:      "kube-proxy on Windows does not read the timeout.",
			Fix:      "do not rely on it",
			Sources:  []string{srcWinkernel, srcNetworking},
			kinds:    []string{"Service"},
			object:   ofWindows(checkAffinityTimeout),
		},
		{
			Code:     "WIN604",
			Title:    "value of preserve-destination",
			Severity: policy.Warning,
			Field:    "metadata.annotations[preserve-destination]",
			Why: "kube-proxy accepts only the exact text true. Other values count as false, and so does true on a " +
				"node without DSR.",
			Fix:     `write "true" or "false"`,
			Sources: []string{srcWinkernel},
			Since:   20,
			kinds:   []string{"Service"},
			object:  checkPreserveDestination,
		},
		{
			Code:     "WIN605",
			Title:    "externalTrafficPolicy Local without DSR",
			Severity: policy.Warning,
			Field:    "spec.externalTrafficPolicy",
			Why: "Without direct server return, kube-proxy on Windows silently treats Local as Cluster: the " +
				"client's address is lost.",
			Fix:     "run kube-proxy with --enable-dsr=true",
			Sources: []string{srcWinkernel},
			kinds:   []string{"Service"},
			object:  ofWindows(checkExternalPolicy),
		},
		{
			Code:     "WIN606",
			Title:    "internalTrafficPolicy Local on an old Kubernetes version",
			Severity: policy.Warning,
			Field:    "spec.internalTrafficPolicy",
			Why:      "kube-proxy on Windows supports internalTrafficPolicy since 1.24.",
			Fix:      "update Kubernetes",
			Sources:  []string{"https://github.com/kubernetes/kubernetes/pull/114407"},
			Before:   24,
			kinds:    []string{"Service"},
			object:   ofWindows(checkInternalPolicy),
		},
		{
			Code:     "WIN612",
			Title:    "loadBalancerSourceRanges",
			Severity: policy.Warning,
			Field:    "spec.loadBalancerSourceRanges",
			Why:      "kube-proxy on Windows does not enforce the ranges; the cloud's load balancer might.",
			Fix:      "enforce them outside, or with a network policy",
			Sources:  []string{srcWinkernel},
			kinds:    []string{"Service"},
			object:   ofWindows(checkSourceRanges),
		},
		{
			Code:     "WIN613",
			Title:    "topology hints",
			Severity: policy.Warning,
			Field:    "spec.trafficDistribution",
			Why:      "kube-proxy on Windows ignores trafficDistribution and topology hints.",
			Fix:      "do not rely on it for clients on Windows",
			Sources:  []string{srcWinkernel},
			kinds:    []string{"Service"},
			object:   ofWindows(checkTopologyHints),
		},
		{
			Code:     "WIN616",
			Title:    "SCTP",
			Severity: policy.Warning,
			Field:    "spec.ports[*].protocol",
			Why:      "Windows nodes do not support SCTP.",
			Fix:      "use TCP or UDP for Services that Windows pods must reach",
			Sources:  []string{"k8s.io/kubernetes test/e2e/network: service.go"},
			kinds:    []string{"Service"},
			object:   ofWindows(checkServiceProtocol),
		},
		{
			Code:     "WIN618",
			Title:    "externalIPs",
			Severity: policy.Info,
			Field:    "spec.externalIPs",
			Why:      "They work on Windows, but Kubernetes deprecated them in 1.36.",
			Fix:      "use a load balancer or a Gateway",
			Sources:  []string{"https://github.com/kubernetes/kubernetes/pull/137293"},
			Since:    36,
			kinds:    []string{"Service"},
			object:   ofWindows(checkExternalIPs),
		},
		{
			Code:     "WIN620",
			Title:    "dual stack",
			Severity: policy.Warning,
			Field:    "spec.ipFamilyPolicy",
			Why: "On Windows two address families need an L2Bridge network and HNS 11.10 (Windows Server 2022); on " +
				"an overlay network kube-proxy falls back to one.",
			Fix:     "use SingleStack for Services that Windows pods must reach",
			Sources: []string{"k8s.io/kubernetes pkg/proxy/winkernel: supported.go", srcNetworking},
			kinds:   []string{"Service"},
			object:  ofWindows(checkDualStack),
		},
		{
			Code:     "WIN621",
			Title:    "IPv6 only",
			Severity: policy.Warning,
			Field:    "spec.ipFamilies",
			Why:      "Windows nodes do not support IPv6-only pods or clusters.",
			Fix:      "use dual stack",
			Sources:  []string{srcNetworking},
			kinds:    []string{"Service"},
			object:   ofWindows(checkIPv6Only),
		},
		{
			Code:     "WIN623",
			Title:    "a port that no container has",
			Severity: policy.Warning,
			Field:    "spec.ports[*].targetPort",
			Why: "A targetPort with a name refers to the container port with that name. Pods without such a port get " +
				"no endpoint: the Service does not answer.",
			Fix:     "give the container's port the name, or write its number",
			Sources: []string{"k8s.io/kubernetes pkg/api/v1/pod: util.go, FindPort"},
			kinds:   []string{"Service"},
			object:  checkTargetPort,
		},
		{
			Code:     "WIN622",
			Title:    "value of winProxyOptimization",
			Severity: policy.Warning,
			Field:    "metadata.annotations[winProxyOptimization]",
			Why:      "Only the value disabled, in upper or lower case, has an effect.",
			Fix:      "write disabled or enabled",
			Sources:  []string{srcWinkernel},
			kinds:    []string{"Service"},
			object:   checkProxyOptimization,
		},
	}
}

// ofWindows runs a check on Services whose pods are for Windows. Where the pods
// are not, but the cluster has Windows nodes, clients there see the same: that
// is good to know, and no more.
func ofWindows(check func(*policy.Object, reporter)) func(*policy.Object, reporter) {
	return func(o *policy.Object, r reporter) {
		_, backends := o.Facts.Selected(o.Namespace, o.Get("spec", "selector"))
		switch {
		case backends:
		case len(o.Facts.WindowsNodes()) > 0:
			r.most = policy.Info
		default:
			return
		}
		check(o, r)
	}
}

// checkTargetPort checks that the names of ports exist in the workloads for
// Windows of the input that a Service selects.
func checkTargetPort(o *policy.Object, r reporter) {
	for _, p := range o.Find("spec", "ports").Items() {
		at := p.Find("targetPort")
		name := at.Str()
		if name == "" || strings.ContainsAny(name, "${}<>") {
			continue
		}
		lacks := ""
		for w := range o.Facts.Related.Selected(o.Namespace, o.Find("spec", "selector").Strings()) {
			if lacks = w.String(); slices.Contains(w.Ports, name) {
				lacks = ""
				break
			}
		}
		if lacks != "" {
			r.at(at, "no container of %s has a port %s", lacks, name)
		}
	}
}

func checkAffinityBuilds(o *policy.Object, r reporter) {
	v := o.Get("spec", "sessionAffinity")
	for _, n := range o.Facts.WindowsNodes() {
		if v.Str() == "ClientIP" && n.Build.Number != 0 && n.Build.Number < 20348 {
			r.at(v, "sessionAffinity ClientIP does not work on node %s, %s", n.Name, n.Build)
			return
		}
	}
}

func checkAffinityTimeout(o *policy.Object, r reporter) {
	if v := o.Find("spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds"); v.Set() {
		if n, _ := v.Int(); n != affinityTimeoutDefault {
			r.at(v, "timeoutSeconds %d is ignored on Windows nodes", n)
		}
	}
}

func checkPreserveDestination(o *policy.Object, r reporter) {
	v := o.Find("metadata", "annotations", "preserve-destination")
	switch {
	case !v.Set():
	case v.Str() != "true" && v.Str() != "false":
		r.at(v, "preserve-destination: %s counts as false", v.Str())
	case v.Str() == "true" && slices.ContainsFunc(o.Facts.WindowsNodes(), func(n *policy.Node) bool { return n.NoDSR }):
		r.at(v, "preserve-destination has no effect on nodes without DSR")
	}
}

func checkExternalPolicy(o *policy.Object, r reporter) {
	if v := o.Get("spec", "externalTrafficPolicy"); v.Str() == "Local" &&
		slices.ContainsFunc(o.Facts.WindowsNodes(), func(n *policy.Node) bool { return n.NoDSR }) {
		r.at(v, "externalTrafficPolicy Local counts as Cluster on nodes without DSR")
	}
}

func checkInternalPolicy(o *policy.Object, r reporter) {
	if v := o.Get("spec", "internalTrafficPolicy"); v.Str() == "Local" {
		r.at(v, "internalTrafficPolicy Local is ignored on Windows nodes of this version")
	}
}

func checkSourceRanges(o *policy.Object, r reporter) {
	if v := o.Find("spec", "loadBalancerSourceRanges"); v.Len() > 0 {
		r.at(v, "loadBalancerSourceRanges are not enforced by Windows nodes")
	}
}

func checkTopologyHints(o *policy.Object, r reporter) {
	annotation := o.Get("metadata", "annotations", "service.kubernetes.io/topology-mode")
	for _, v := range []tree.Value{o.Get("spec", "trafficDistribution"), annotation} {
		if v.Set() {
			r.at(v, "Windows nodes ignore it")
		}
	}
}

func checkServiceProtocol(o *policy.Object, r reporter) {
	for _, p := range o.Find("spec", "ports").Items() {
		if v := p.Get("protocol"); v.Str() == "SCTP" {
			r.at(v, "SCTP is not supported on Windows nodes")
		}
	}
}

func checkExternalIPs(o *policy.Object, r reporter) {
	if v := o.Find("spec", "externalIPs"); v.Len() > 0 {
		r.at(v, "externalIPs are deprecated")
	}
}

func checkDualStack(o *policy.Object, r reporter) {
	if v := o.Get("spec", "ipFamilyPolicy"); v.Str() == "RequireDualStack" || v.Str() == "PreferDualStack" {
		r.at(v, "%s works only on L2Bridge networks, from Windows Server 2022 on", v.Str())
	}
}

func checkIPv6Only(o *policy.Object, r reporter) {
	if v := o.Find("spec", "ipFamilies").Items(); len(v) == 1 && v[0].Str() == "IPv6" {
		r.at(v[0], "IPv4-only pods cannot reach an IPv6-only Service")
	}
}

func checkProxyOptimization(o *policy.Object, r reporter) {
	if v := o.Find("metadata", "annotations", "winProxyOptimization"); v.Set() &&
		!strings.EqualFold(v.Str(), "disabled") && !strings.EqualFold(v.Str(), "enabled") {
		r.at(v, "winProxyOptimization: %s counts as enabled", v.Str())
	}
}
