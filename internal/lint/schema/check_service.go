// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

func (w *walk) service(v tree.Value) {
	kind, headless := v.Find("type").Str(), v.Find("clusterIP").Str() == "None"
	w.oneOf(v.Get("type"), "ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "")
	w.oneOf(v.Get("sessionAffinity"), "None", "ClientIP", "")
	w.oneOf(v.Get("externalTrafficPolicy"), "Cluster", "Local", "")
	w.oneOf(v.Get("internalTrafficPolicy"), "Cluster", "Local")
	w.labels(v.Get("selector"))
	ports := v.Get("ports").Items()
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
		if kind == "ClusterIP" && p.Get("nodePort").Set() {
			w.invalid(p.Get("nodePort"), "write type: NodePort, or remove it", "a Service of type ClusterIP has none")
		}
	}
	w.unique("the port", names)
	if kind != "NodePort" && kind != "LoadBalancer" && kind != "ExternalName" {
		w.onlyExternal(v.Get("externalTrafficPolicy"))
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
	w.port(v.Get("port"))
	w.port(v.Get("nodePort"))
	w.oneOf(v.Get("protocol"), "TCP", "UDP", "SCTP", "")
	w.format(v.Get("name"), validation.IsDNS1123Label)
	w.portOrName(v.Get("targetPort"))
}
