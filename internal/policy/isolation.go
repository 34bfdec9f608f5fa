// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"maps"
	"slices"
	"strings"
)

// HyperVClass returns the RuntimeClass that would isolate the pod with Hyper-V,
// and the nodes that the pod could then use. Among the classes that do not
// contradict the pod it picks the one with the most nodes, then the first by
// name. It returns "" for a pod that already has a class or a node.
func (p *Pod) HyperVClass() (best string, nodes []*Node) {
	if p.HostProcess || p.Spec.Find("runtimeClassName").Set() || p.Spec.Find("nodeName").Set() {
		return "", nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.Facts().RuntimeClasses)) {
		class := p.Facts().RuntimeClasses[name]
		if !strings.Contains(class.Handler, "hypervisor") || class.NodeSelector["kubernetes.io/os"] == "linux" ||
			p.contradicts(class) {
			continue
		}
		served := slices.DeleteFunc(p.Fitting(Candidates(p, class), true), func(n *Node) bool {
			return n.Handlers != nil && !slices.Contains(n.Handlers, class.Handler)
		})
		if len(served) > len(nodes) {
			best, nodes = name, served
		}
	}
	return best, nodes
}

// contradicts reports whether the selectors of the class and the pod conflict;
// the API server refuses that.
func (p *Pod) contradicts(class RuntimeClass) bool {
	for k, v := range class.NodeSelector {
		if own := p.Spec.Find("nodeSelector", k); own.Set() && own.Str() != v {
			return true
		}
	}
	return false
}

func AskedForHyperV(p *Pod) bool {
	s, ok := p.Signal(FromIsolation)
	return ok && strings.EqualFold(s.At.Str(), "hyperv")
}

// HyperV reports whether the pod's RuntimeClass isolates with Hyper-V.
func HyperV(p *Pod) bool {
	class := p.Facts().RuntimeClasses[p.Spec.Find("runtimeClassName").Str()]
	return strings.Contains(class.Handler, "hypervisor")
}
