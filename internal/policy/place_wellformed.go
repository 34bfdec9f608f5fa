// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import "github.com/mullion-k8s/mullion/internal/policy/tree"

// wellFormed reports whether the fields that placement reads and writes have the
// types that the API gives them. The API server says what is wrong with a pod
// that is not; placement writes nothing into it.
func wellFormed(p *pod) bool {
	ok := isMap(p.Spec) && isMap(p.Meta) && isStringMap(p.Meta.Get("annotations")) &&
		isStringMap(p.Spec.Get("nodeSelector")) &&
		isMaps(p.Spec.Get("tolerations")) && isMap(p.Spec.Get("securityContext")) && isMap(p.Spec.Get("os")) &&
		isString(p.Spec.Get("os", "name")) && isString(p.Spec.Get("runtimeClassName")) &&
		isString(p.Spec.Get("nodeName"))
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		ok = ok && isMaps(p.Spec.Get(list))
	}
	for _, c := range p.Containers {
		ok = ok && isString(c.Get("image")) && isMap(c.Get("securityContext"))
	}
	return ok && wellFormedAffinity(p.Spec.Get("affinity"))
}

func wellFormedAffinity(v tree.Value) bool {
	const required = "requiredDuringSchedulingIgnoredDuringExecution"
	if !isMap(v) || !isMap(v.Get("nodeAffinity")) || !isMap(v.Get("nodeAffinity", required)) ||
		!isMaps(v.Get("nodeAffinity", required, "nodeSelectorTerms")) {
		return false
	}
	for _, t := range v.Get("nodeAffinity", required, "nodeSelectorTerms").Items() {
		for _, list := range []string{"matchExpressions", "matchFields"} {
			if !isMaps(t.Get(list)) {
				return false
			}
			for _, e := range t.Get(list).Items() {
				if !isString(e.Get("key")) || !isString(e.Get("operator")) || !isList(e.Get("values")) {
					return false
				}
			}
		}
	}
	return true
}

// What is not there has every type.

func isMap(v tree.Value) bool {
	_, ok := v.Raw().(map[string]any)
	return ok || v.Raw() == nil
}

func isList(v tree.Value) bool {
	_, ok := v.Raw().([]any)
	return ok || v.Raw() == nil
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
	return isMap(v)
}

func isMaps(v tree.Value) bool {
	for _, e := range v.Items() {
		if e.Raw() == nil || !isMap(e) {
			return false
		}
	}
	return isList(v)
}
