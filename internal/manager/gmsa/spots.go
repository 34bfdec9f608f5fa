// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package gmsa

import (
	"fmt"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

const (
	nameField     = "gmsaCredentialSpecName"
	contentsField = "gmsaCredentialSpec"
)

// spot is a place of a pod that may name a GMSA: the pod itself, or one of its
// containers of any sort.
type spot struct {
	kind string // pod or container, as messages have it
	list string // containers, initContainers, ephemeralContainers; "" for the pod
	name string
	path tree.Path // of its windowsOptions

	spec     *string // name of the GMSACredentialSpec; nil if not set
	contents *string
}

// id tells the spots of one pod apart, whatever their order is.
func (s spot) id() string { return s.list + "/" + s.name }

func (s spot) String() string { return fmt.Sprintf("%s %q", s.kind, s.name) }

func (s spot) empty() bool { return s.spec == nil && s.contents == nil }

// spots lists the places that name a GMSA or hold a credential spec.
func spots(pod map[string]any) []spot {
	var out []spot
	add := func(s spot, at tree.Value) {
		options := at.Get("securityContext", "windowsOptions")
		s.spec, s.contents = text(options.Find(nameField)), text(options.Find(contentsField))
		if s.empty() {
			return
		}
		s.path = options.Path()
		out = append(out, s)
	}
	root := tree.Root(pod)
	name := root.Find("metadata", "name").Str()
	if name == "" {
		name = root.Find("metadata", "generateName").Str()
	}
	add(spot{kind: "pod", name: name}, root.Get("spec"))
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		for _, c := range root.Get("spec", list).Items() {
			add(spot{kind: "container", list: list, name: c.Find("name").Str()}, c)
		}
	}
	return out
}

// text returns the string that a field holds; nil if it holds none.
func text(v tree.Value) *string {
	if s, ok := v.Raw().(string); ok {
		return &s
	}
	return nil
}
