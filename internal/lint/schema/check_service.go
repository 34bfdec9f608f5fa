// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

func (w *walk) service(v tree.Value) {
	kind, headless := v.Find("type").Str(), v.Find("clusterIP").Str() == "None"
	w.oneOf(v.Find("type"), "ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "")
	w.oneOf(v.Find("sessionAffinity"), "None", "ClientIP", "")
	w.oneOf(v.Find("externalTrafficPolicy"), "Cluster", "Local", "")
	w.oneOf(v.Find("internalTrafficPolicy"), "Cluster", "Local")
	w.labels(v.Get("selector"))
	ports := v.Find("ports").Items()
	if kind == "ExternalName" {
		w.missing(v, "externalName")
	} else if len(ports) == 0 && !headless && v.Get("selector").Len() > 0 {
		w.missing(v, "ports")
	}
	var names []tree.Value
	for _, p := range ports {
		names = append(names, p.Get("name"))
		if len(ports) > 1 {
			w.missing(p, "name")
		}
		if kind == "ClusterIP" && p.Find("nodePort").Set() && !isZero(p.Get("nodePort")) {
			w.invalid(p.Get("nodePort"), "write type: NodePort, or remove it",
				"a Service of type ClusterIP has no node ports")
		}
	}
	w.unique("the port", names)
	w.portsTwice(ports)
	for _, from := range v.Find("loadBalancerSourceRanges").Items() {
		w.format(from, network)
	}
	if ip := v.Get("clusterIP"); ip.Str() != "None" {
		w.format(ip, address)
	}
	if kind != "NodePort" && kind != "LoadBalancer" && kind != "ExternalName" {
		w.onlyExternal(v.Get("externalTrafficPolicy"))
	}
}

// portsTwice reports a number that two ports of a protocol have.
func (w *walk) portsTwice(ports []tree.Value) {
	seen := map[string]bool{}
	for _, p := range ports {
		n, ok := number(p.Find("port").Raw())
		if !ok {
			continue
		}
		key := fmt.Sprintf("%v/%s", n, cmp.Or(p.Find("protocol").Str(), "TCP"))
		if seen[key] {
			w.report(codeTwice, p.Get("port"), "give each its own", "the port %s is there twice", key)
		}
		seen[key] = true
	}
}

// onlyExternal reports a field of Services that are reached from outside.
func (w *walk) onlyExternal(v tree.Value) {
	if v.Str() != "" {
		w.invalid(v, "remove it, or write type: NodePort or LoadBalancer",
			"only for Services of type NodePort or LoadBalancer")
	}
}

func (w *walk) servicePort(v tree.Value) {
	w.missing(v, "port")
	w.port(v.Find("port"))
	w.optionalPort(v.Find("nodePort"))
	if n, ok := number(v.Find("nodePort").Raw()); ok && n >= 1 && n <= 65535 && (n < 30000 || n > 32767) {
		w.add(policy.Warning, codeValue, v.Get("nodePort"), "write 30000 to 32767, or remove it",
			"%v is outside the default range of node ports", n)
	}
	w.oneOf(v.Find("protocol"), "TCP", "UDP", "SCTP", "")
	w.format(v.Find("name"), validation.IsDNS1123Label)
	if target := v.Get("targetPort"); !isZero(target) { // 0 stands for the port
		w.portOrName(target)
	}
}
