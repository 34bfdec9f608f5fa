// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// Identity holds the part of a finding that stays when lines move, items of lists change
// places, or a later version of lint has other words for it.
type Identity struct {
	Rule   string `json:"rule"`
	File   string `json:"file,omitempty"` // relative to a folder that stays, with slashes
	Object string `json:"object,omitempty"`
	Field  string `json:"field,omitempty"` // with names of items instead of their numbers
}

// Identity returns the identity of a result whose file has another name.
func (r *Result) Identity(file string) Identity {
	return Identity{Rule: r.Code, File: file, Object: r.Object, Field: r.place}
}

// fingerprint returns a text that differs for different identities.
func (i Identity) fingerprint() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{i.Rule, i.File, i.Object, i.Field}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// namedField returns the field of a finding within its object. Items of lists
// are named if they have a name: spec.containers[app].image.
func namedField(object map[string]any, f policy.Finding) string {
	if len(f.Path) <= len(f.Scope) {
		return ""
	}
	var out tree.Path
	at := tree.Root(object).At(f.Scope)
	for _, step := range f.Path[len(f.Scope):] {
		at = at.At(tree.Path{step})
		if name := at.Find("name").Str(); step.Index >= 0 && name != "" {
			out = append(out, tree.Step{Key: "[" + name + "]", Index: -1})
		} else {
			out = append(out, step)
		}
	}
	return strings.NewReplacer("[[", "[", "]]", "]").Replace(out.String())
}
