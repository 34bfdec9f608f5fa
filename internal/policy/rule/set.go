// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// Set holds the rules that apply under some facts.
type Set struct {
	rules     []Rule
	byCode    map[string]*Rule // every rule, including rules that do not apply
	linuxOnly []LinuxField
}

// New picks the rules that hold under the facts.
func New(facts policy.Facts) *Set {
	s := &Set{byCode: map[string]*Rule{}, linuxOnly: linuxFields()}
	for _, r := range All() {
		s.byCode[r.Code] = &r
		if r.holds(facts.Kubernetes) {
			s.rules = append(s.rules, r)
		}
	}
	return s
}

// Check applies all rules to an object. To check many objects, reuse one Set.
func Check(object map[string]any, facts policy.Facts) []policy.Finding {
	return New(facts).Check(policy.Parse(object), facts)
}

// Check applies the rules to an object, or to the items of a List. The facts
// may include more than the facts given to New, but must have the same
// Kubernetes version. The findings are ordered by field. It may be called
// concurrently.
func (s *Set) Check(object *policy.Parsed, facts policy.Facts) []policy.Finding {
	var out []policy.Finding
	for _, o := range object.Under(facts) {
		for i := range s.rules {
			r := &s.rules[i]
			if !r.applies(o) {
				continue
			}
			rep := reporter{rule: r, scope: o.Value, out: &out}
			if r.object != nil && slices.Contains(r.kinds, o.Kind) {
				r.object(o, rep)
			}
			if r.pod != nil {
				for _, p := range o.Pods {
					r.pod(p, rep)
				}
			}
		}
	}
	policy.SortFindings(out)
	return out
}

// CheckPod applies one rule to a pod, whether or not it holds under the facts
// of the set.
func (s *Set) CheckPod(code string, p *policy.Pod) []policy.Finding {
	var out []policy.Finding
	if r := s.byCode[code]; r.pod != nil {
		r.pod(p, reporter{rule: r, scope: p.Object.Value, out: &out})
	}
	return out
}

// Finding returns a finding of a rule about a field of a pod.
func (s *Set) Finding(code string, p *policy.Pod, at tree.Value, severity policy.Severity, text string) policy.Finding {
	var out []policy.Finding
	return *reporter{rule: s.byCode[code], scope: p.Object.Value, out: &out}.as(severity, at, "%s", text)
}

// LinuxFields returns the fields that the API server refuses on a pod with
// spec.os.name: windows.
func (s *Set) LinuxFields() []LinuxField { return s.linuxOnly }

// LinuxField is a field that the API server refuses on a pod with
// spec.os.name: windows.
type LinuxField struct {
	Code      string
	container bool
	path      []string
	when      trigger
}

// In returns the field's values in a pod.
func (f *LinuxField) In(p *policy.Pod) []tree.Value {
	if !f.container {
		if v := p.Spec.Find(f.path...); v.Set() && f.when(v) {
			return []tree.Value{v}
		}
		return nil
	}
	var out []tree.Value
	for _, c := range p.Containers {
		if v := c.Find(f.path...); v.Set() && f.when(v) {
			out = append(out, v)
		}
	}
	return out
}

// linuxFields returns the forbidding rows of the table, and the forbidden
// fields that have their own rules.
func linuxFields() []LinuxField {
	var out []LinuxField
	for _, f := range fields() {
		if f.forbids() {
			out = append(out, LinuxField{f.code, f.level == onContainer, strings.Split(f.path, "."), f.when})
		}
	}
	return append(out,
		LinuxField{"WIN014", false, []string{"securityContext", "supplementalGroupsPolicy"}, isSet},
		LinuxField{"WIN021", true, []string{"securityContext", "privileged"}, isSet},
		LinuxField{"WIN027", true, []string{"lifecycle", "stopSignal"}, func(v tree.Value) bool {
			return v.Set() && v.Str() != "SIGTERM" && v.Str() != "SIGKILL"
		}},
	)
}
