// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/place"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// Place returns the handler that writes into pods, and into the templates of
// DaemonSets, the fields they need to be scheduled on nodes that can run them.
// It records its changes and the reasons in an annotation of the pod and in the
// audit log.
func Place(facts Facts, log *slog.Logger) Handler {
	p := &placement{facts: factsClient{facts: facts, log: log}}
	return p.handle
}

type placement struct {
	facts      factsClient
	evaluators evaluators
}

func (p *placement) handle(ctx context.Context, r *Request) (Response, error) {
	if r.Operation != Create && r.Operation != Update || r.SubResource != "" || Exempt(r.Object) {
		return Allow(), nil
	}
	if r.Kind.Kind != "Pod" && r.Kind.Kind != "DaemonSet" {
		return Response{}, failf(http.StatusBadRequest, "placement is for pods and DaemonSets, not for %s",
			clip(r.Kind.Kind, 64))
	}
	known := p.facts.get(ctx, r)
	resp := Response{Allowed: true, Warnings: known.warnings}
	var why []string
	r.placements = place.Pods(p.evaluators.get(known.facts.Kubernetes), r.parse(), known.facts)
	for _, placed := range r.placements {
		resp.Warnings = append(resp.Warnings, removed(placed)...)
		// A pod for Windows carries the note even if it needed no change: when
		// another webhook adds fields that Windows refuses, policy sees by it that
		// the user did not write them.
		if len(placed.Edits) == 0 && placed.OS != "windows" {
			continue
		}
		resp.Edits = append(resp.Edits, placed.Edits...)
		if placed.Note.Op != "" {
			resp.Edits = append(resp.Edits, placed.Note)
		}
		why = append(why, placed.Why)
	}
	if len(resp.Edits) > 0 {
		resp.Audit = map[string]string{"placed": strings.Join(why, "; ")}
	}
	return resp, nil
}

// removed lists the removed fields; the rules, which judge afterwards, cannot.
func removed(placed place.Placement) []string {
	gone := map[string]bool{}
	for _, e := range placed.Edits {
		if e.Op == tree.Remove {
			gone[e.Path.String()] = true
		}
	}
	var out []string
	for _, f := range placed.Findings {
		if gone[f.Field] {
			f.Fix = "" // it is done
			out = append(out, line(f))
		}
	}
	return out
}

// Exempt reports whether an object is left as it is: it is being deleted, or
// mirrors a static pod. The match conditions exclude it too; a webhook must not
// depend on how it was registered.
func Exempt(object map[string]any) bool {
	meta := tree.Root(object).Find("metadata")
	return meta.Find("deletionTimestamp").Set() || meta.Find("annotations", "kubernetes.io/config.mirror").Set()
}
