// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"maps"
	"slices"
	"strings"
)

// Known lists the existing objects of some kinds, in the cluster and in the
// input: the namespaces of each name. Nil has no kind.
type Known map[string]map[string][]string

// Clone returns a copy, to which more can be added.
func (k Known) Clone() Known {
	if k == nil {
		return nil
	}
	out := Known{}
	for kind, names := range k {
		out[kind] = maps.Clone(names)
	}
	return out
}

// Add adds an object, unless k lacks its kind.
func (k Known) Add(kind, namespace, name string) {
	if names := k[kind]; names != nil {
		names[name] = append(slices.Clip(names[name]), namespace)
	}
}

// Lacks reports whether an object certainly does not exist.
func (k Known) Lacks(kind, namespace, name string) bool {
	names := k[kind]
	return names != nil && name != "" &&
		!slices.ContainsFunc(names[name], func(other string) bool { return SameNamespace(namespace, other) })
}

// Lacks reports whether an object certainly is not in the pod's namespace.
func (p *Pod) Lacks(kind, name string) bool {
	return p.Facts().Objects.Lacks(kind, p.Object.Namespace, name) && !strings.Contains(name, "$")
}
