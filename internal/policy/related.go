// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"iter"
	"math"
	"slices"
	"sync"
)

// Related holds the other objects of the input that a rule may look up. The zero
// value is empty. With returns a larger Related; readers of the smaller one
// don't see a change.
type Related struct {
	workloads []Workload // the Windows workloads
	claims    []Claim
	sources   []Source
	index     *index // of these workloads and of later ones in Related made from it
	viewer    viewer // the object being judged: only objects near it are found
}

// index finds objects by the references to them. It is shared by a Related and
// every Related made from it, so that adding an object costs the same at any
// size.
type index struct {
	mu        sync.RWMutex
	workloads chains // guarded by mu; of positions in Related.workloads
	claims    chains // guarded by mu; of positions in Related.claims
	sources   chains // guarded by mu; of positions in Related.sources
	places    places // guarded by mu
}

// chains holds a list of positions for each key, ascending. Most lists have one
// element, so that slices would take twice the memory.
type chains struct {
	of    map[key]chain
	links []link
}

// chain is the first and the last link of a list.
type chain struct{ first, last, length int32 }

// link is one element of a list; the next one is 0 at its end.
type link struct{ position, next int32 }

func (c *chains) add(k key, position int) {
	if c.of == nil {
		c.of, c.links = map[key]chain{}, make([]link, 1)
	}
	added := int32(len(c.links))
	c.links = append(c.links, link{position: int32(position)})
	list, ok := c.of[k]
	if ok {
		c.links[list.last].next = added
	} else {
		list.first = added
	}
	list.last = added
	list.length++
	c.of[k] = list
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

// With returns r with more objects. It may be called only on the newest
// Related.
func (r Related) With(workloads []Workload, claims []Claim, sources ...Source) Related {
	if r.index == nil {
		r.index = &index{}
	}
	r.index.mu.Lock()
	defer r.index.mu.Unlock()
	for _, w := range workloads {
		for _, k := range w.keys() {
			r.index.workloads.add(k, len(r.workloads))
		}
		r.workloads = append(r.workloads, w)
	}
	for _, c := range claims {
		for _, k := range []key{{what: volumeOf, name: c.Volume}, {what: classOf, name: c.Class}} {
			r.index.claims.add(k, len(r.claims))
		}
		r.claims = append(r.claims, c)
	}
	for _, s := range sources {
		r.index.sources.add(key{what: nameOf, name: s.Name, more: s.Kind}, len(r.sources))
		r.sources = append(r.sources, s)
	}
	return r
}

func (w Workload) keys() []key {
	keys := []key{{what: nameOf, name: w.Name, more: w.Kind}}
	for _, l := range w.Labels {
		keys = append(keys, key{what: labelOf, name: l.Name, more: l.Value})
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
	all := pick(r.index, r.workloads, func(i *index) *chains { return &i.workloads }, k)
	return near(r, all, func(w Workload) viewer { return viewer{w.Location, identify(w.Kind, w.Namespace, w.Name)} })
}

// Named returns the workloads of a kind with a name.
func (r Related) Named(kind, name string) iter.Seq[Workload] {
	return r.find(key{what: nameOf, name: name, more: kind})
}

// findClaims returns the claims with a property, in the order of the input.
func (r Related) findClaims(k key) iter.Seq[Claim] {
	all := pick(r.index, r.claims, func(i *index) *chains { return &i.claims }, k)
	return near(r, all, func(c Claim) viewer {
		return viewer{c.Location, identify("PersistentVolumeClaim", c.Namespace, c.Name)}
	})
}

// FindSources returns the ConfigMaps or the Secrets with a name, in the order of
// the input.
func (r Related) FindSources(kind, name string) iter.Seq[Source] {
	all := pick(r.index, r.sources, func(i *index) *chains { return &i.sources },
		key{what: nameOf, name: name, more: kind})
	return near(r, all, func(s Source) viewer { return viewer{s.Location, identify(s.Kind, s.Namespace, s.Name)} })
}

// pick returns the objects of a list that have a property, without objects added
// after the list.
func pick[T any](i *index, list []T, of func(*index) *chains, k key) iter.Seq[T] {
	return func(yield func(T) bool) {
		if i == nil {
			return
		}
		i.mu.RLock()
		at := of(i).of[k].first
		i.mu.RUnlock()
		for at != 0 {
			i.mu.RLock()
			l := of(i).links[at]
			i.mu.RUnlock()
			if int(l.position) >= len(list) || !yield(list[l.position]) {
				return
			}
			at = l.next
		}
	}
}

// Selected returns the workloads in a namespace that have all labels, or no
// workload if labels is empty.
func (r Related) Selected(namespace string, labels map[string]string) iter.Seq[Workload] {
	return func(yield func(Workload) bool) {
		if r.index == nil || len(labels) == 0 {
			return
		}
		for w := range r.find(r.index.rarest(labels)) { // all that match have this one
			if SameNamespace(w.Namespace, namespace) && w.has(labels) && !yield(w) {
				return
			}
		}
	}
}

// rarest returns the label, one of several, that the fewest workloads have.
func (i *index) rarest(labels map[string]string) (rarest key) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	fewest := int32(math.MaxInt32)
	for name, value := range labels {
		k := key{what: labelOf, name: name, more: value}
		if n := i.workloads.of[k].length; n < fewest {
			rarest, fewest = k, n
		}
	}
	return rarest
}

func (w Workload) has(labels map[string]string) bool {
	for name, value := range labels {
		if !slices.Contains(w.Labels, Label{Name: name, Value: value}) {
			return false
		}
	}
	return true
}

// KnowsNamespace reports whether a namespace of that name is in the cluster or in
// the input.
func (p *Pod) KnowsNamespace(name string) bool {
	facts := p.Object.Facts
	if _, ok := facts.Namespaces[name]; ok || name == p.Object.Namespace {
		return true
	}
	return slices.ContainsFunc(facts.Related.workloads, func(w Workload) bool { return w.Namespace == name })
}

// UserOf returns a workload for Windows that uses a PersistentVolume or a
// StorageClass.
func (f *Facts) UserOf(o *Object) (Workload, bool) {
	if o.Kind == "PersistentVolume" {
		if ref := o.Find("spec", "claimRef"); ref.Set() {
			return f.Mounts(Claim{Namespace: ref.Find("namespace").Str(), Name: ref.Find("name").Str()})
		}
	}
	what := volumeOf
	if o.Kind == "StorageClass" {
		what = classOf
	}
	for c := range f.Related.findClaims(key{what: what, name: o.Name}) {
		if w, ok := f.Mounts(c); ok {
			return w, true
		}
	}
	if o.Kind == "StorageClass" {
		for w := range f.Related.find(key{what: classOf, name: o.Name}) {
			return w, true
		}
	}
	return Workload{}, false
}
