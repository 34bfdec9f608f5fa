// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

// Namespace holds the facts about a namespace.
type Namespace struct {
	Labels      map[string]string
	Annotations map[string]string // those that rules read
}

// NewNamespace returns the facts about a namespace with these labels and annotations.
// Annotations can be large, and most concern others.
func NewNamespace(labels, annotations map[string]string) Namespace {
	n := Namespace{Labels: labels}
	for _, key := range []string{linkerdInject, linkerdProxy} {
		if v, ok := annotations[key]; ok {
			if n.Annotations == nil {
				n.Annotations = map[string]string{}
			}
			n.Annotations[key] = v
		}
	}
	return n
}
