// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"hash/fnv"
	"iter"
	"path/filepath"
	"slices"
	"strings"
)

// Location is the location of an object in the input. A repository often has the
// same object several times, one for each example or environment: objects that
// are applied together are near to each other.
type Location struct {
	World string // the unit that is applied as a whole: a build, a chart; "" for files
	File  string
}

// viewer is an object at a place.
type viewer struct {
	Location
	id identity
}

// identity is the hash of kind, namespace and name. It is only compared for
// equality, for any number of objects.
type identity uint64

func identify(kind, namespace, name string) identity {
	h := fnv.New64a()
	for _, s := range []string{kind, namespace, name} {
		_, _ = h.Write(append([]byte(s), 0)) // never fails
	}
	return identity(h.Sum64())
}

// places records the files of objects.
type places struct {
	first map[identity]string   // the first file
	all   map[identity][]string // of objects that are in several files
	busy  map[string]bool       // folders that have workloads, for any operating system
}

// Seen notes that a file has an object, which may be there more than once, or be
// of no interest otherwise. r must come from With.
func (r Related) Seen(kind, namespace, name, file string) {
	r.index.mu.Lock()
	defer r.index.mu.Unlock()
	p := &r.index.places
	if p.first == nil {
		p.first, p.all, p.busy = map[identity]string{}, map[identity][]string{}, map[string]bool{}
	}
	if known, ok := kinds[Kind{Name: kind}]; ok && !known.unknown {
		p.busy[filepath.Dir(file)] = true
	}
	id := identify(kind, namespace, name)
	first, ok := p.first[id]
	switch {
	case !ok:
		p.first[id] = file
	case first == file || slices.Contains(p.all[id], file):
	case len(p.all[id]) == 0:
		p.all[id] = []string{first, file}
	default:
		p.all[id] = append(p.all[id], file)
	}
}

// near returns the objects that can belong to the viewer.
func near[T any](r Related, all iter.Seq[T], as func(T) viewer) iter.Seq[T] {
	return func(yield func(T) bool) {
		for one := range all {
			if r.index.near(r.viewer, as(one)) && !yield(one) {
				return
			}
		}
	}
}

// near reports whether two objects can belong together: they are of one world,
// and neither has a copy nearer to the other. An object in a folder that has
// workloads is meant for these workloads, or for workloads in folders below.
func (i *index) near(a, b viewer) bool {
	if a.World != b.World {
		return false
	}
	if a.World != "" || a.File == b.File {
		return true
	}
	i.mu.RLock()
	defer i.mu.RUnlock()
	p := &i.places
	shared := common(a.File, b.File)
	nearer := func(id identity, than string) bool {
		return slices.ContainsFunc(p.all[id], func(f string) bool { return common(f, than) > shared })
	}
	if nearer(a.id, b.File) || nearer(b.id, a.File) {
		return false
	}
	own, other := filepath.Dir(a.File), filepath.Dir(b.File)
	return !p.busy[own] || own == other || own == "." || strings.HasPrefix(other, own+string(filepath.Separator))
}

// common returns how many folders, and files, two paths begin with in common.
func common(a, b string) int {
	n := 0
	for a != "" && b != "" {
		first, restA, _ := strings.Cut(a, string(filepath.Separator))
		other, restB, _ := strings.Cut(b, string(filepath.Separator))
		if first != other {
			break
		}
		a, b = restA, restB
		n++
	}
	return n
}
