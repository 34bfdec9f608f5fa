// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"slices"
	"strings"
)

const (
	srcWinkernel  = "k8s.io/kubernetes pkg/proxy/winkernel: proxier.go"
	srcNetworking = "https://kubernetes.io/docs/concepts/services-networking/windows-networking/"
)

// affinityTimeoutDefault is what the API server fills in.
// k8s.io/api/core/v1: DefaultClientIPServiceAffinitySeconds.
const affinityTimeoutDefault = 10800

// serviceRules are about Services. kube-proxy programs every Service on every
// Windows node, so that most of them are about clients on Windows, wherever
// the backends run.
func serviceRules() []Rule {
	service := func(code, title string, s Severity, field, compat, why, fix string, since, before Version, sources string, f func(*Object, reporter)) Rule {
		return Rule{Code: code, Title: title, Severity: s, Field: field, Compat: strings.Fields(compat), Why: why, Fix: fix, Since: since, Before: before,
			Sources: strings.Split(sources, "; "), kinds: []string{"Service"}, object: f}
	}
	return []Rule{
		service("WIN602", "session affinity on an old Windows", Error, "spec.sessionAffinity", "N02",
			"Session affinity needs Windows Server 2022 (HNS 12).", "update the nodes, or do without", 0, 0, srcWinkernel+"; "+srcNetworking,
			func(o *Object, r reporter) {
				v := o.Get("spec", "sessionAffinity")
				for _, n := range o.Facts.windows() {
					if v.Str() == "ClientIP" && n.Build.Number != 0 && n.Build.Number < 20348 {
						r.at(v, "sessionAffinity ClientIP does not work on node %s, %s", n.Name, n.Build)
						return
					}
				}
			}),
		service("WIN603", "timeout of the session affinity", Warning, "spec.sessionAffinityConfig.clientIP.timeoutSeconds", "N03",
			"kube-proxy on Windows does not read the timeout.", "do not rely on it", 0, 0, srcWinkernel+"; "+srcNetworking,
			func(o *Object, r reporter) {
				if v := o.Find("spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds"); v.Set() {
					if n, _ := v.Int(); n != affinityTimeoutDefault {
						r.at(v, "timeoutSeconds %d is ignored on Windows nodes", n)
					}
				}
			}),
		service("WIN604", "value of preserve-destination", Warning, "metadata.annotations[preserve-destination]", "N04",
			"kube-proxy compares with the exact text true; anything else is false, as is true where the node has no DSR.", `write "true" or "false"`, 20, 0, srcWinkernel,
			func(o *Object, r reporter) {
				v := o.Find("metadata", "annotations", "preserve-destination")
				switch {
				case !v.Set():
				case v.Str() != "true" && v.Str() != "false":
					r.at(v, "preserve-destination: %s counts as false", v.Str())
				case v.Str() == "true" && slices.ContainsFunc(o.Facts.windows(), func(n *Node) bool { return n.NoDSR }):
					r.at(v, "preserve-destination has no effect on nodes without DSR")
				}
			}),
		service("WIN605", "externalTrafficPolicy Local without DSR", Warning, "spec.externalTrafficPolicy", "N05",
			"Without direct server return kube-proxy on Windows treats Local as Cluster, in silence: the client's address is lost.", "run kube-proxy with --enable-dsr=true", 0, 0, srcWinkernel,
			func(o *Object, r reporter) {
				if v := o.Get("spec", "externalTrafficPolicy"); v.Str() == "Local" && slices.ContainsFunc(o.Facts.windows(), func(n *Node) bool { return n.NoDSR }) {
					r.at(v, "externalTrafficPolicy Local counts as Cluster on nodes without DSR")
				}
			}),
		service("WIN606", "internalTrafficPolicy Local on an old Kubernetes", Warning, "spec.internalTrafficPolicy", "N06",
			"kube-proxy on Windows knows internalTrafficPolicy from 1.24 on.", "update Kubernetes", 0, 24, "https://github.com/kubernetes/kubernetes/pull/114407",
			func(o *Object, r reporter) {
				if v := o.Get("spec", "internalTrafficPolicy"); v.Str() == "Local" {
					r.at(v, "internalTrafficPolicy Local is ignored on Windows nodes of this version")
				}
			}),
		service("WIN612", "loadBalancerSourceRanges", Warning, "spec.loadBalancerSourceRanges", "N12",
			"kube-proxy on Windows does not enforce the ranges; the cloud's load balancer may.", "enforce them outside, or with a network policy", 0, 0, srcWinkernel,
			func(o *Object, r reporter) {
				if v := o.Find("spec", "loadBalancerSourceRanges"); v.Len() > 0 {
					r.at(v, "loadBalancerSourceRanges are not enforced by Windows nodes")
				}
			}),
		service("WIN613", "topology hints", Warning, "spec.trafficDistribution", "N13",
			"kube-proxy on Windows ignores trafficDistribution and topology hints.", "do not rely on it for clients on Windows", 0, 0, srcWinkernel,
			func(o *Object, r reporter) {
				for _, v := range []tree.Value{o.Get("spec", "trafficDistribution"), o.Get("metadata", "annotations", "service.kubernetes.io/topology-mode")} {
					if v.Set() {
						r.at(v, "Windows nodes ignore it")
					}
				}
			}),
		service("WIN616", "SCTP", Error, "spec.ports[*].protocol", "N16",
			"Windows nodes do not support SCTP.", "use TCP or UDP for what Windows must reach", 0, 0, "k8s.io/kubernetes test/e2e/network: service.go",
			func(o *Object, r reporter) {
				for _, p := range o.Find("spec", "ports").Items() {
					if v := p.Get("protocol"); v.Str() == "SCTP" {
						r.at(v, "SCTP is not supported on Windows nodes")
					}
				}
			}),
		service("WIN618", "externalIPs", Info, "spec.externalIPs", "N18",
			"They work on Windows; Kubernetes has deprecated them in 1.36.", "use a load balancer or a Gateway", 36, 0, "https://github.com/kubernetes/kubernetes/pull/137293",
			func(o *Object, r reporter) {
				if v := o.Find("spec", "externalIPs"); v.Len() > 0 {
					r.at(v, "externalIPs are deprecated")
				}
			}),
		service("WIN620", "dual stack", Warning, "spec.ipFamilyPolicy", "N20",
			"On Windows two families need an L2Bridge network and HNS 11.10 (Windows Server 2022); on an overlay kube-proxy falls back to one.", "use SingleStack for what Windows must reach", 0, 0, "k8s.io/kubernetes pkg/proxy/winkernel: supported.go; "+srcNetworking,
			func(o *Object, r reporter) {
				if v := o.Get("spec", "ipFamilyPolicy"); v.Str() == "RequireDualStack" || v.Str() == "PreferDualStack" {
					r.at(v, "%s works on L2Bridge networks from Windows Server 2022 on only", v.Str())
				}
			}),
		service("WIN621", "IPv6 only", Warning, "spec.ipFamilies", "N21",
			"Windows nodes do not support pods or clusters with IPv6 only.", "use dual stack", 0, 0, srcNetworking,
			func(o *Object, r reporter) {
				if v := o.Find("spec", "ipFamilies").Items(); len(v) == 1 && v[0].Str() == "IPv6" {
					r.at(v[0], "a Service with IPv6 only cannot be reached from pods with IPv4 only")
				}
			}),
		service("WIN622", "value of winProxyOptimization", Warning, "metadata.annotations[winProxyOptimization]", "N22",
			"Only disabled, in any case, has an effect.", "write disabled or enabled", 0, 0, srcWinkernel,
			func(o *Object, r reporter) {
				if v := o.Find("metadata", "annotations", "winProxyOptimization"); v.Set() && !strings.EqualFold(v.Str(), "disabled") && !strings.EqualFold(v.Str(), "enabled") {
					r.at(v, "winProxyOptimization: %s counts as enabled", v.Str())
				}
			}),
	}
}
