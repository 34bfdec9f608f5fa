// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"github.com/mullion-k8s/mullion/internal/lint/schema"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/place"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// judge applies the rules of package policy to objects, and the schemas of their
// kinds.
type judge struct {
	rules   *rule.Set
	schemas *schema.Checker
	placed  bool
}

func newJudge(c Config) *judge {
	return &judge{rules: rule.New(c.Facts), schemas: schema.New(c.Facts.Kubernetes), placed: c.Placed}
}

// evaluate judges objects of a cluster, whose schemas the API server has checked.
func (j *judge) evaluate(parsed *policy.Parsed, facts policy.Facts) []policy.Finding {
	if j.placed {
		return place.Check(j.rules, parsed, facts)
	}
	return j.rules.Check(parsed, facts)
}

// written judges objects of manifests. Placement would add to them; the schema is
// applied to the text that a person wrote.
func (j *judge) written(parsed *policy.Parsed, facts policy.Facts) []policy.Finding {
	out := j.evaluate(parsed, facts)
	for _, o := range parsed.Objects() {
		out = append(out, j.schemas.Check(o)...)
	}
	return out
}

// patches judges incomplete objects, and mistyped objects that seem incomplete.
func (j *judge) patches(objects []tree.Value) []policy.Finding {
	var out []policy.Finding
	for _, o := range objects {
		out = append(out, j.schemas.CheckPatch(o)...)
	}
	return out
}
