// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/place"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// suppressAnnotation begins the annotations that suppress a rule for an object,
// with the reason as the value; package lint reads the same.
const suppressAnnotation = "ignore.lint.mullion.dev/"

// Validate returns the handler that judges the final state of objects: it refuses
// objects that cannot work on Windows, and warns about differences on Windows.
//
// An update is refused only for new problems: problems that the old object has
// too are only warnings, so that it can be fixed step by step, and controllers
// can update it. An annotation ignore.lint.mullion.dev/WIN019: REASON turns the
// refusal by a rule into a warning, and suppresses its warning. Labels of the
// namespace choose which findings are refused, shown and audited (see
// enforceLabel); without labels, admission does.
func Validate(facts Facts, c ValidateConfig, log *slog.Logger) Handler {
	h := &rules{
		facts:  factsClient{facts: facts, log: log},
		levels: defaultLevels(c.Admission),
		waived: c.Waived,
		index:  regexp.MustCompile(`\[[0-9]+\]`),
	}
	return h.handle
}

// ValidateConfig configures Validate.
type ValidateConfig struct {
	Admission policy.Admission // "" means policy.AdmissionEnforce
	Waived    []string         // codes of rules that do not hold in this cluster
}

type rules struct {
	facts      factsClient
	evaluators evaluators
	levels     levels // of namespaces without labels
	waived     []string
	index      *regexp.Regexp // of a list, in a field's path
}

func (h *rules) handle(ctx context.Context, r *Request) (Response, error) {
	if r.Operation != Create && r.Operation != Update || Exempt(r.Object) {
		return Allow(), nil
	}
	known := h.facts.get(ctx, r)
	level := h.levels.with(known.facts.Namespaces[r.Namespace].Labels)
	if level.silent() {
		return Allow(), nil
	}
	asked := known.facts
	asked.Subresource = r.SubResource
	found := h.evaluate(r, asked)
	before := map[string]int{}
	if r.Operation == Update && len(found) > 0 {
		// The old object is judged unchanged: only the subresource is new.
		for _, f := range h.evaluate(&Request{Object: r.OldObject}, known.facts) {
			before[h.key(f)]++
		}
	}
	resp := Response{Allowed: true, Warnings: known.warnings}
	var errs, audited []policy.Finding
	for _, f := range found {
		suppressed := Suppressed(r.Object, f.Code)
		had := before[h.key(f)] > 0
		if had {
			before[h.key(f)]--
		}
		if includes(level.audit, f.Severity) && !suppressed {
			audited = append(audited, f)
		}
		switch {
		case includes(level.enforce, f.Severity) && !suppressed && !had:
			errs = append(errs, f)
		case includes(level.warn, f.Severity) && (f.Severity == policy.Error || !suppressed):
			resp.Warnings = append(resp.Warnings, line(f))
		}
	}
	resp.Audit = map[string]string{}
	if len(audited) > 0 {
		resp.Audit["found"] = codes(audited)
	}
	if len(errs) > 0 {
		resp.Allowed, resp.Refusal = false, status(errs)
		resp.Audit["refused"] = codes(errs)
	}
	return resp, nil
}

// Suppressed reports whether an object's annotations suppress a rule, with a reason.
func Suppressed(object map[string]any, code string) bool {
	reason := tree.Root(object).Find("metadata", "annotations", suppressAnnotation+code).Str()
	return strings.TrimSpace(reason) != ""
}

// evaluate returns the findings about the object of a request: as it is, if it was
// placed for the same request; else as placement leaves it, or its pods.
func (h *rules) evaluate(r *Request, facts policy.Facts) []policy.Finding {
	judge := h.evaluators.get(facts.Kubernetes)
	var out []policy.Finding
	if r.placements != nil {
		out = place.CheckPlaced(judge, r.parse(), facts, r.placements)
	} else {
		out = place.Check(judge, r.parse(), facts)
	}
	return slices.DeleteFunc(out, func(f policy.Finding) bool { return slices.Contains(h.waived, f.Code) })
}

// key identifies a finding independently of its place in lists: a container may
// have moved.
func (h *rules) key(f policy.Finding) string {
	return f.Code + " " + h.index.ReplaceAllString(f.Field, "[]") + " " + h.index.ReplaceAllString(f.Message, "[]")
}

// status is 403, as Pod Security Admission answers: kubectl then prints the
// whole message. Programs find the fields in the causes.
func status(errs []policy.Finding) metav1.Status {
	s := metav1.Status{
		Code:    http.StatusForbidden,
		Reason:  metav1.StatusReasonForbidden,
		Message: refusal(errs),
		Details: &metav1.StatusDetails{},
	}
	for _, f := range errs[:min(len(errs), maxProblems)] {
		s.Details.Causes = append(s.Details.Causes, metav1.StatusCause{Type: metav1.CauseType(f.Code), Field: f.Field,
			Message: clip(oneLine(f.Message), maxProblem)})
	}
	return s
}

func codes(found []policy.Finding) string {
	var out []string
	for _, f := range found {
		out = append(out, f.Code)
	}
	return strings.Join(out, " ")
}
