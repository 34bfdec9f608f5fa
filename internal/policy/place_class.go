// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"maps"
	"slices"
	"strings"
)

// isolate adds a RuntimeClass with Hyper-V isolation if the pod has the old
// annotation, or if no node can run its image otherwise. It returns the nodes
// that the class allows, and those of them that can run the pod. See
// docs/internals/policy.md.
func (t *placer) isolate(nodes, fit []*Node) (left, can []*Node) {
	p := t.pod
	asked := askedForHyperV(p)
	if !asked && (len(fit) > 0 || len(nodes) == 0) {
		return nodes, fit
	}
	class, can := p.hyperVClass()
	if class == "" {
		return nodes, fit
	}
	t.class = class
	t.edit(tree.Add, p.Spec.Get("runtimeClassName"), class)
	why := "no node can run its image otherwise"
	if asked {
		why = "the annotation isolation-type asks for it"
	}
	t.report("WIN319", p.Spec.Get("runtimeClassName"), Info, "RuntimeClass %s gives the pod Hyper-V isolation: %s",
		class, why)
	return candidates(p, p.facts().RuntimeClasses[class]), can
}

// hyperVClass returns the RuntimeClass that would isolate the pod with Hyper-V,
// and the nodes that the pod could then use. Among the classes that do not
// contradict the pod it picks the one with the most nodes, then the first by
// name. It returns none for a pod that already has a class or a node.
func (p *pod) hyperVClass() (best string, nodes []*Node) {
	if p.HostProcess || p.Spec.Find("runtimeClassName").Set() || p.Spec.Find("nodeName").Set() {
		return "", nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.facts().RuntimeClasses)) {
		class := p.facts().RuntimeClasses[name]
		if !strings.Contains(class.Handler, "hypervisor") || class.NodeSelector["kubernetes.io/os"] == "linux" ||
			p.contradicts(class) {
			continue
		}
		served := slices.DeleteFunc(p.fitting(candidates(p, class), true), func(n *Node) bool {
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
func (p *pod) contradicts(class RuntimeClass) bool {
	for k, v := range class.NodeSelector {
		if own := p.Spec.Find("nodeSelector", k); own.Set() && own.Str() != v {
			return true
		}
	}
	return false
}

func askedForHyperV(p *pod) bool {
	s, ok := p.signal(fromIsolation)
	return ok && strings.EqualFold(s.At.Str(), "hyperv")
}
