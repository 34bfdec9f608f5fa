// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package place

import (
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// isolate adds a RuntimeClass with Hyper-V isolation if the pod has the old
// annotation, or if no node can run its image otherwise. It returns the nodes
// that the class allows, and the subset that can run the pod. See
// docs/internals/policy.md.
func (t *placer) isolate(nodes, fit []*policy.Node) (left, can []*policy.Node) {
	p := t.pod
	asked := policy.AskedForHyperV(p)
	if !asked && (len(fit) > 0 || len(nodes) == 0) {
		return nodes, fit
	}
	class, can := p.HyperVClass()
	if class == "" {
		return nodes, fit
	}
	t.class = class
	t.edit(tree.Add, p.Spec.Get("runtimeClassName"), class)
	why := "no node can run its image otherwise"
	if asked {
		why = "the annotation isolation-type asks for it"
	}
	t.report("WIN319", p.Spec.Get("runtimeClassName"), policy.Info,
		"RuntimeClass %s gives the pod Hyper-V isolation: %s",
		class, why)
	return policy.Candidates(p, p.Facts().RuntimeClasses[class]), can
}
