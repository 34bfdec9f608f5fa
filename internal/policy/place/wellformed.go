// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package place

import (
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// wellFormed reports whether the fields that placement reads and writes have the
// types that the API gives them. The API server rejects any other pod with a
// message; placement does not write into it.
func wellFormed(p *policy.Pod) bool {
	ok := policy.IsMap(p.Spec) && policy.IsMap(p.Meta) && isStringMap(p.Meta.Get("annotations")) &&
		isStringMap(p.Spec.Get("nodeSelector")) &&
		isMaps(p.Spec.Get("tolerations")) && policy.IsMap(p.Spec.Get("securityContext")) &&
		policy.IsMap(p.Spec.Get("os")) &&
		isString(p.Spec.Get("os", "name")) && isString(p.Spec.Get("runtimeClassName")) &&
		isString(p.Spec.Get("nodeName"))
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		ok = ok && isMaps(p.Spec.Get(list))
	}
	for _, c := range p.Containers {
		ok = ok && isString(c.Get("image")) && policy.IsMap(c.Get("securityContext"))
	}
	return ok && wellFormedAffinity(p.Spec.Get("affinity"))
}

func wellFormedAffinity(v tree.Value) bool {
	const required = "requiredDuringSchedulingIgnoredDuringExecution"
	if !policy.IsMap(v) || !policy.IsMap(v.Get("nodeAffinity")) || !policy.IsMap(v.Get("nodeAffinity", required)) ||
		!isMaps(v.Get("nodeAffinity", required, "nodeSelectorTerms")) {
		return false
	}
	for _, t := range v.Get("nodeAffinity", required, "nodeSelectorTerms").Items() {
		for _, list := range []string{"matchExpressions", "matchFields"} {
			if !isMaps(t.Get(list)) {
				return false
			}
			for _, e := range t.Get(list).Items() {
				if !isString(e.Get("key")) || !isString(e.Get("operator")) || !policy.IsList(e.Get("values")) {
					return false
				}
			}
		}
	}
	return true
}

func isString(v tree.Value) bool {
	_, ok := v.Raw().(string)
	return ok || v.Raw() == nil
}

func isStringMap(v tree.Value) bool {
	for _, e := range v.Map() {
		if _, ok := e.(string); !ok {
			return false
		}
	}
	return policy.IsMap(v)
}

func isMaps(v tree.Value) bool {
	for _, e := range v.Items() {
		if e.Raw() == nil || !policy.IsMap(e) {
			return false
		}
	}
	return policy.IsList(v)
}
