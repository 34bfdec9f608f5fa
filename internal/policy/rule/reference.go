// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"fmt"
	"strings"
)

// markdown formats the rule as a section of the reference.
func (r *Rule) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s: %s\n\n%s\n\n", r.Code, r.Title, strings.TrimSuffix(sentence(r.Why), ".")+".")
	severity := r.Severity.String()
	if r.Inferred {
		severity += " (concluded from code, not confirmed on a node)"
	}
	fmt.Fprintf(&b, "- severity: %s\n- field: `%s`\n- Kubernetes: %s\n- fix: %s\n", severity, r.Field,
		r.versions(), r.Fix)
	if r.Proof != "" {
		fmt.Fprintf(&b, "- shown by: `%s`\n", r.Proof)
	}
	for _, s := range r.Sources {
		if !strings.HasPrefix(s, "https://") {
			s = "`" + s + "`"
		}
		fmt.Fprintf(&b, "- source: %s\n", s)
	}
	return b.String()
}

// Text formats the rule for a terminal.
func (r *Rule) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n%s.\n\nseverity    %s", r.Code, strings.ReplaceAll(r.Title, "`", ""),
		strings.TrimSuffix(sentence(r.Why), "."), r.Severity)
	if r.Inferred {
		b.WriteString(" (concluded from code, not confirmed on a node)")
	}
	fmt.Fprintf(&b, "\nfield       %s\nKubernetes  %s\nfix         %s\n", r.Field, r.versions(), r.Fix)
	for _, s := range r.Sources {
		fmt.Fprintf(&b, "source      %s\n", s)
	}
	return b.String()
}

func sentence(s string) string {
	if s == "" || ('a' > s[0] || s[0] > 'z') || strings.HasPrefix(s, "gitRepo") || strings.HasPrefix(s, "containerd") ||
		strings.HasPrefix(s, "kube") || strings.HasPrefix(s, "hcsshim") || strings.HasPrefix(s, "spec.") {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// Reference returns the reference page of the rules.
func Reference(rules []Rule) string {
	var b strings.Builder
	b.WriteString(`# Rules

These are the rules of ` + "`mullion lint`" + ` for Windows nodes. This page is generated from the code
(` + "`go test ./internal/lint -update`" + `). ` + "`mullion lint explain CODE`" + ` prints one rule.

A code never changes its meaning. There are three severities:

- An error cannot work: the API server, the kubelet or the runtime refuses the object, or the program does not start.
  A test shows it.
- A warning is accepted, but Windows ignores the field or treats it differently, or it fails according to documents.
- An info is good to know. It is printed only with ` + "`--severity info`" + `.

## Rules that refuse objects

mullion's admission webhooks refuse only errors, and only these rules have errors. Their tests run against the
validation of the API server, or make the mistake on a cluster with Windows nodes. Every API server itself refuses the
mistakes of WIN801 and the rules after it.

`)
	for i := range rules {
		if r := &rules[i]; r.Proof != "" && r.Code < "WIN8" {
			fmt.Fprintf(&b, "- %s: %s\n", r.Code, r.Title)
		}
	}
	section := ""
	for i := range rules {
		if s := rules[i].Section(); s != section {
			section = s
			fmt.Fprintf(&b, "\n## %s\n", s)
		}
		b.WriteString("\n" + rules[i].markdown())
	}
	return b.String()
}
