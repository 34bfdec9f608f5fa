// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package gmsa

import (
	"fmt"

	"github.com/mullion-k8s/mullion/internal/policy"
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
	path policy.Path // of its windowsOptions

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
	add := func(s spot, at map[string]any, path policy.Path) {
		options := object(object(at, "securityContext"), "windowsOptions")
		s.spec, s.contents = text(options, nameField), text(options, contentsField)
		if s.empty() {
			return
		}
		s.path = append(path, key("securityContext"), key("windowsOptions"))
		out = append(out, s)
	}
	meta, spec := object(pod, "metadata"), object(pod, "spec")
	name, _ := meta["name"].(string)
	if name == "" {
		name, _ = meta["generateName"].(string)
	}
	add(spot{kind: "pod", name: name}, spec, policy.Path{key("spec")})
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		items, _ := spec[list].([]any)
		for i, item := range items {
			c, _ := item.(map[string]any)
			name, _ := c["name"].(string)
			add(spot{kind: "container", list: list, name: name}, c, policy.Path{key("spec"), key(list), {Index: i}})
		}
	}
	return out
}

func key(k string) policy.Step { return policy.Step{Key: k, Index: -1} }

func object(m map[string]any, key string) map[string]any {
	out, _ := m[key].(map[string]any)
	return out
}

func text(m map[string]any, key string) *string {
	if s, ok := m[key].(string); ok {
		return &s
	}
	return nil
}
