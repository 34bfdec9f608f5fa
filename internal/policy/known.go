// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"maps"
	"slices"
)

// Known tells which objects of some kinds there are, in the cluster and in the
// input: the namespaces of each name. Nil knows no kind.
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

// Add adds an object, unless nothing is known of its kind.
func (k Known) Add(kind, namespace, name string) {
	if names := k[kind]; names != nil {
		names[name] = append(slices.Clip(names[name]), namespace)
	}
}

// lacks reports whether an object certainly does not exist.
func (k Known) lacks(kind, namespace, name string) bool {
	names := k[kind]
	if names == nil || name == "" {
		return false
	}
	for _, other := range names[name] {
		if sameNamespace(namespace, other) {
			return false
		}
	}
	return true
}
