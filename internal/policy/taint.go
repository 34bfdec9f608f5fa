// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// NamesOS reports whether a taint is meant to keep away pods for the other
// operating system. Vendors and users spell it os=windows, OS=Windows,
// node.kubernetes.io/os=windows, kubernetes.azure.com/os=windows, windows=true,
// sku=windows2022, cattle.io/os=linux.
func (t Taint) NamesOS(os string) bool {
	key := strings.ToLower(t.Key[strings.LastIndexByte(t.Key, '/')+1:])
	value := strings.ToLower(t.Value)
	switch key {
	case os:
		return true
	case "os", "sku", "os-sku", "os-type", "ostype", "operating-system", "operatingsystem", "platform":
		return strings.HasPrefix(value, os)
	}
	return value == os
}

// Taint is a taint of a node.
type Taint struct{ Key, Value, Effect string }

// ParseTaint parses a taint in kubectl's notation, "os=windows:NoSchedule".
func ParseTaint(s string) (Taint, error) {
	kv, effect, ok := strings.Cut(s, ":")
	key, value, _ := strings.Cut(kv, "=")
	if !ok || key == "" || !slices.Contains([]string{"NoSchedule", "NoExecute", "PreferNoSchedule"}, effect) {
		return Taint{}, fmt.Errorf("taint %q: want for example os=windows:NoSchedule", s)
	}
	return Taint{key, value, effect}, nil
}

// ParseWindowsTaint parses a taint to put on Windows nodes. It must name
// Windows, because placement adds tolerations only for such taints: others keep
// pods away for reasons outside placement.
func ParseWindowsTaint(s string) (Taint, error) {
	t, err := ParseTaint(s)
	if err == nil && !t.NamesOS("windows") {
		err = fmt.Errorf("taint %q does not name Windows, so placement would not add a toleration for it; use for "+
			"example os=windows:NoSchedule", s)
	}
	return t, err
}

func (t Taint) String() string { return t.Key + "=" + t.Value + ":" + t.Effect }

// Toleration is a toleration of a pod or a RuntimeClass.
type Toleration struct{ Key, Operator, Value, Effect string }

// Tolerates reports whether t tolerates a NoSchedule or NoExecute taint, by the
// scheduler's rule.
func (t Toleration) Tolerates(taint Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	if t.Operator == "Exists" {
		return true
	}
	return (t.Operator == "" || t.Operator == "Equal") && t.Key != "" && t.Value == taint.Value
}

// ReadToleration reads a toleration.
func ReadToleration(v tree.Value) Toleration {
	return Toleration{v.Get("key").Str(), v.Get("operator").Str(), v.Get("value").Str(), v.Get("effect").Str()}
}

// Tolerations returns the tolerations of the pod and of its RuntimeClass.
func (p *Pod) Tolerations() []Toleration {
	var out []Toleration
	for _, t := range p.Spec.Find("tolerations").Items() {
		out = append(out, ReadToleration(t))
	}
	return append(out, p.Facts().RuntimeClasses[p.Spec.Find("runtimeClassName").Str()].Tolerations...)
}

// Hard reports whether the taint keeps pods off.
func (t Taint) Hard() bool { return t.Effect != "PreferNoSchedule" }

// passing reports whether the taint reflects a transient condition of the node:
// not-ready, unschedulable, uninitialized and the like.
func (t Taint) passing() bool {
	prefix, name, _ := strings.Cut(t.Key, "/")
	return prefix == "node.kubernetes.io" && name != "os" || prefix == "node.cloudprovider.kubernetes.io" ||
		t.Key == "ToBeDeletedByClusterAutoscaler"
}

// AllTainted returns a taint that keeps a pod with the tolerations permanently
// off each of the nodes; ok is false if there is a node without one.
func AllTainted(nodes []*Node, tolerations []Toleration) (first Taint, ok bool) {
	for _, n := range nodes {
		i := slices.IndexFunc(n.Taints, func(t Taint) bool {
			return t.Hard() && !t.passing() &&
				!slices.ContainsFunc(tolerations, func(tol Toleration) bool { return tol.Tolerates(t) })
		})
		if i < 0 {
			return Taint{}, false
		}
		if first == (Taint{}) {
			first = n.Taints[i]
		}
	}
	return first, len(nodes) > 0
}
