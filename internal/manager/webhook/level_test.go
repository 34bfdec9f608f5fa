// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package webhook

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
)

// labelled are the facts about one namespace with labels.
type labelled map[string]string

func (l labelled) Facts(context.Context, string, *policy.Parsed) (policy.Facts, []string) {
	return policy.Facts{Namespaces: map[string]policy.Namespace{"ns": {Labels: l}}}, nil
}

// TestLevels judges a pod with an error (WIN216) and a warning (WIN312).
func TestLevels(t *testing.T) {
	const both = `{c: {resources: null, volumeMounts: [{name: v, mountPath: 'C:'}]}, ` +
		`spec: {volumes: [{name: v, emptyDir: {}}]}}`
	const warning = `c: {resources: null}`
	for _, tt := range []struct {
		name, pod string
		admission policy.Admission
		labels    labelled
		refused   string // codes
		warned    string
		audited   string
	}{
		{name: "default", pod: both, refused: "WIN216", warned: "WIN312"},
		{name: "default", pod: warning, warned: "WIN312"},
		{name: "off", pod: both, labels: labelled{enforceLabel: "none", warnLabel: "none"}},
		{name: "warn", pod: both, labels: labelled{enforceLabel: "none"}, warned: "WIN216 WIN312"},
		{name: "warn of errors", pod: both, labels: labelled{enforceLabel: "none", warnLabel: "cannot-run"},
			warned: "WIN216"},
		{name: "strict", pod: both, labels: labelled{enforceLabel: "strict"}, refused: "WIN216 WIN312"},
		{name: "strict", pod: warning, labels: labelled{enforceLabel: "strict"}, refused: "WIN312"},
		{name: "audit", pod: both, labels: labelled{enforceLabel: "none", warnLabel: "none", auditLabel: "strict"},
			audited: "WIN216 WIN312"},
		{name: "cluster warns", pod: both, admission: policy.AdmissionWarn, warned: "WIN216 WIN312"},
		{name: "cluster warns, namespace enforces", pod: both, admission: policy.AdmissionWarn,
			labels: labelled{enforceLabel: "cannot-run"}, refused: "WIN216", warned: "WIN312"},
		{name: "cluster is off", pod: both, admission: policy.AdmissionOff},
		{name: "cluster is off, namespace warns", pod: both, admission: policy.AdmissionOff,
			labels: labelled{warnLabel: "cannot-run"}, warned: "WIN216"},
		{name: "cluster enforces, namespace does not", pod: both, admission: policy.AdmissionEnforce,
			labels: labelled{enforceLabel: "none"}, warned: "WIN216 WIN312"},
		{name: "mistyped", pod: both, labels: labelled{enforceLabel: "Strict"}, refused: "WIN216", warned: "WIN312"},
	} {
		judge := Validate(tt.labels, ValidateConfig{Admission: tt.admission}, slog.New(slog.DiscardHandler))
		resp, err := judge(t.Context(), &Request{
			Operation: Create,
			Namespace: "ns",
			Object:    policytest.Tweak(t, tt.pod),
		})
		if err != nil {
			t.Fatal(err)
		}
		var warned []string
		for _, w := range resp.Warnings {
			code, _, _ := strings.Cut(w, " ")
			warned = append(warned, code)
		}
		if resp.Allowed != (tt.refused == "") || sorted(resp.Audit["refused"]) != tt.refused ||
			sorted(strings.Join(warned, " ")) != tt.warned || sorted(resp.Audit["found"]) != tt.audited {
			t.Errorf("%s: allowed %v, audit %v, warnings %q", tt.name, resp.Allowed, resp.Audit, warned)
		}
		if strict := "it does not run on Windows as written"; tt.pod == warning && !resp.Allowed &&
			!strings.Contains(resp.Refusal.Message, strict) {
			t.Errorf("%s: %q, want %q", tt.name, resp.Refusal.Message, strict)
		}
	}
}

func sorted(codes string) string {
	list := strings.Fields(codes)
	slices.Sort(list)
	return strings.Join(list, " ")
}
