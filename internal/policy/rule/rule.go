// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package rule finds what cannot work on Windows, for lint, admission and the
// controllers that explain pods: it takes an object and facts about the cluster and
// returns findings.
//
// A rule that only forbids or flags a field is a row of the table in
// fields.go; a rule with logic is a function in a file named after its
// subject. Every rule is listed in All.
package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// The tests that show most of the failures: with the validation of the API
// server, and on a cluster with Windows nodes.
const (
	provenByValidation = "test/conformance/validation.TestFacts"
	provenOnCluster    = "test/e2e.TestCannotRun"
)

// Rule is one fact about Windows nodes.
type Rule struct {
	Code     string
	Title    string          // the problem, in a few words
	Severity policy.Severity // the highest that it reports
	Field    string          // the field that it reads, for documents
	Why      string          // the problem and its cause
	Fix      string          // the remedy
	Sources  []string        // where it can be checked
	Since    policy.Version  // the first Kubernetes version in which it holds; 0: all
	Before   policy.Version  // the first version in which it no longer holds; 0: it always holds
	Inferred bool            // concluded, neither documented nor observed: never an Error
	Proof    string          // DIRECTORY.TEST that shows the failure; every rule with an Error has one

	kinds  []string                       // the kinds that object checks
	object func(*policy.Object, reporter) // checks an object of one of the kinds
	pod    func(*policy.Pod, reporter)    // checks a pod or a pod template of any kind
}

func (r *Rule) holds(v policy.Version) bool {
	return v == 0 && r.Before == 0 || v != 0 && v >= r.Since && (r.Before == 0 || v < r.Before)
}

func (r *Rule) applies(o *policy.Object) bool {
	return r.pod != nil && len(o.Pods) > 0 || slices.Contains(r.kinds, o.Kind)
}

// versions describes the Kubernetes versions in which the rule holds.
func (r *Rule) versions() string {
	switch {
	case r.Since != 0 && r.Before != 0:
		return fmt.Sprintf("%s to before %s", r.Since, r.Before)
	case r.Since != 0:
		return "from " + r.Since.String()
	case r.Before != 0:
		return "before " + r.Before.String()
	}
	return "all"
}

// Section returns the heading under which a rule is listed, by the first digit
// of its code.
func (r *Rule) Section() string {
	for _, s := range sections {
		if strings.HasPrefix(r.Code, "WIN"+s.digit) {
			return s.title
		}
	}
	return ""
}

// sections are the hundreds of the codes.
var sections = []struct{ digit, title string }{
	{"0", "Linux-only fields"},
	{"1", "Windows options"},
	{"2", "Accepted, then refused or failing on the node"},
	{"3", "Accepted, and ignored or different"},
	{"4", "Placement"},
	{"5", "Identity: GMSA and HostProcess"},
	{"6", "Services and networking"},
	{"7", "Builds and known faults"},
	{"8", "Refused by every cluster"},
	{"9", "Files that cannot be read"},
}

// All lists every rule, in the order of the codes.
func All() []Rule {
	out := slices.Concat(
		fieldRules(), osRules(), userRules(), hostProcessRules(), gmsaRules(), volumeRules(), mountRules(),
		pathRules(), imageRules(), tagRules(), buildRules(), commandLineRules(), placementRules(), selectorRules(),
		runtimeClassRules(), resourceRules(), containerRules(), securityRules(), serviceRules(), configRules(),
		knownRules(), driveRules(), scaleRules(),
	)
	slices.SortFunc(out, func(a, b Rule) int { return strings.Compare(a.Code, b.Code) })
	return out
}

// reporter takes the findings of one rule about one object.
type reporter struct {
	rule  *Rule
	scope tree.Value      // the object, or the item of a List
	most  policy.Severity // no finding is worse; None: the rule's own severity
	out   *[]policy.Finding
}

// at reports a field, with the rule's severity.
func (r reporter) at(v tree.Value, format string, args ...any) *policy.Finding {
	return r.as(r.rule.Severity, v, format, args...)
}

// as reports a field with another severity than the rule's worst.
func (r reporter) as(s policy.Severity, v tree.Value, format string, args ...any) *policy.Finding {
	if r.most != policy.None {
		s = min(s, r.most)
	}
	path := v.Path()
	*r.out = append(*r.out, policy.Finding{
		Code: r.rule.Code, Severity: s, Path: path, Field: path.String(), Missing: !v.Set(),
		Message: fmt.Sprintf(format, args...), Fix: r.rule.Fix, Scope: r.scope.Path(),
	})
	return &(*r.out)[len(*r.out)-1]
}
