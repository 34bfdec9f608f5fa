// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"iter"
	"sync"
)

// Related holds the objects of the same input that others are judged by. The zero
// value is empty. With returns a larger one and changes nothing that readers of
// the smaller one see.
type Related struct {
	workloads []Workload // those for Windows
	claims    []Claim
	index     *index // of these and, in what grew from it, of later ones
}

// index finds objects by what others refer to. It is shared by a Related and all
// that grow from it, so that adding an object costs the same at any size.
type index struct {
	mu        sync.RWMutex
	workloads map[key][]int // guarded by mu; positions in Related.workloads, ascending
	claims    map[key][]int // guarded by mu; positions in Related.claims, ascending
}

// key is one property of an object.
type key struct {
	what property
	name string
	more string // the label's value, the workload's kind
}

type property int

const (
	labelOf  property = iota // name=value
	nameOf                   // the name, and the kind
	claimOf                  // the name of a claim that a workload mounts
	classOf                  // the StorageClass of a claim
	volumeOf                 // the volume of a claim
)

// With returns r and more objects. Of what it is called on, only the newest may
// grow.
func (r Related) With(workloads []Workload, claims []Claim) Related {
	if r.index == nil {
		r.index = &index{workloads: map[key][]int{}, claims: map[key][]int{}}
	}
	r.index.mu.Lock()
	defer r.index.mu.Unlock()
	for _, w := range workloads {
		for _, k := range w.keys() {
			r.index.workloads[k] = append(r.index.workloads[k], len(r.workloads))
		}
		r.workloads = append(r.workloads, w)
	}
	for _, c := range claims {
		for _, k := range []key{{what: volumeOf, name: c.Volume}, {what: classOf, name: c.Class}} {
			r.index.claims[k] = append(r.index.claims[k], len(r.claims))
		}
		r.claims = append(r.claims, c)
	}
	return r
}

func (w Workload) keys() []key {
	keys := []key{{what: nameOf, name: w.Name, more: w.Kind}}
	for k, v := range w.Labels {
		keys = append(keys, key{what: labelOf, name: k, more: v})
	}
	for _, c := range w.Claims {
		keys = append(keys, key{what: claimOf, name: c})
	}
	for _, c := range w.Classes {
		keys = append(keys, key{what: classOf, name: c})
	}
	return keys
}

// find returns the workloads with a property, in the order of the input.
func (r Related) find(k key) iter.Seq[Workload] {
	return pick(r.index, r.workloads, func(i *index) []int { return i.workloads[k] })
}

// findClaims returns the claims with a property, in the order of the input.
func (r Related) findClaims(k key) iter.Seq[Claim] {
	return pick(r.index, r.claims, func(i *index) []int { return i.claims[k] })
}

// pick returns the objects at the positions that an index names, without those
// that were added after the list.
func pick[T any](i *index, list []T, named func(*index) []int) iter.Seq[T] {
	return func(yield func(T) bool) {
		if i == nil {
			return
		}
		i.mu.RLock()
		positions := named(i) // others only append
		i.mu.RUnlock()
		for _, p := range positions {
			if p >= len(list) || !yield(list[p]) {
				return
			}
		}
	}
}

// selected returns the first workload in a namespace that has all labels; false
// if there is none, or no label is asked for.
func (r Related) selected(namespace string, labels map[string]string) (Workload, bool) {
	// All that match have the rarest label.
	rarest := func(i *index) []int {
		var out []int
		first := true
		for k, v := range labels {
			if at := i.workloads[key{what: labelOf, name: k, more: v}]; first || len(at) < len(out) {
				out, first = at, false
			}
		}
		return out
	}
	for w := range pick(r.index, r.workloads, rarest) {
		if sameNamespace(w.Namespace, namespace) && w.has(labels) {
			return w, true
		}
	}
	return Workload{}, false
}

func (w Workload) has(labels map[string]string) bool {
	for k, v := range labels {
		if w.Labels[k] != v {
			return false
		}
	}
	return true
}
