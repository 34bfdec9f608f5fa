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

// setting is the GMSA setting of a pod, or of one of its containers of any sort.
type setting struct {
	kind string // pod or container, as messages have it
	list string // containers, initContainers, ephemeralContainers; "" for the pod
	name string
	path tree.Path // of its windowsOptions

	spec     *string // name of the GMSACredentialSpec; nil if not set
	contents *string
}

// id identifies a setting within its pod, independently of the order.
func (s setting) id() string { return s.list + "/" + s.name }

func (s setting) String() string { return fmt.Sprintf("%s %q", s.kind, s.name) }

func (s setting) empty() bool { return s.spec == nil && s.contents == nil }

// settings lists a pod's settings that name a GMSA or hold a credential spec.
func settings(pod map[string]any) []setting {
	var out []setting
	add := func(s setting, at tree.Value) {
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
	add(setting{kind: "pod", name: name}, root.Get("spec"))
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		for _, c := range root.Get("spec", list).Items() {
			add(setting{kind: "container", list: list, name: c.Find("name").Str()}, c)
		}
	}
	return out
}

// text returns the string in a field, or nil if it is not a string.
func text(v tree.Value) *string {
	if s, ok := v.Raw().(string); ok {
		return &s
	}
	return nil
}
