// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package webhook

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mullion-k8s/mullion/internal/policy"
)

const (
	// maxWarning and maxWarnings, in characters: the API server truncates
	// longer ones. k8s.io/apiserver pkg/endpoints/filters/warning.go,
	// truncateItemRunes and truncateAtTotalRunes.
	maxWarning  = 256
	maxWarnings = 4096
	// maxAudit bounds the value of an audit annotation, in characters; the log is
	// for machines.
	maxAudit = 1024
	// maxMessage bounds a refusal, in characters. It becomes an event's message
	// where a controller makes the pods; events keep 1024 bytes, people read less.
	maxMessage = 8192
	// maxProblems is how many problems a refusal names.
	maxProblems = 10
	// maxProblem bounds one of them, in characters.
	maxProblem = 512
)

// clip makes a text of others harmless and at most n characters long: control
// characters would make the API server drop a warning, and may command a
// terminal.
func clip(s string, n int) string {
	var b strings.Builder
	count := 0
	for _, r := range s {
		if count == n-1 && utf8.RuneCountInString(s) > n {
			b.WriteRune('…')
			break
		}
		if r == utf8.RuneError || unicode.IsControl(r) && r != '\n' || r == '\u2028' || r == '\u2029' {
			r = ' '
		}
		b.WriteRune(r)
		count++
	}
	return b.String()
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }

// boundWarnings keeps the order, omits duplicates, and counts the warnings that
// did not fit.
func boundWarnings(all []string) []string {
	var out []string
	seen := map[string]bool{}
	total := 0
	const rest = 64 // characters, for the line that counts the omitted findings
	for i, w := range all {
		w = clip(oneLine(w), maxWarning)
		if w == "" || seen[w] {
			continue
		}
		seen[w] = true
		n := utf8.RuneCountInString(w)
		if total+n > maxWarnings-rest {
			return append(out, fmt.Sprintf("… and %d more; see `mullion lint`", len(all)-i))
		}
		out, total = append(out, w), total+n
	}
	return out
}

func boundAudit(all map[string]string) map[string]string {
	out := maps.Clone(all)
	for k, v := range out {
		out[k] = clip(oneLine(v), maxAudit)
	}
	return out
}

// line writes a finding for users: the problem, its place, and the remedy.
func line(f policy.Finding) string {
	s := f.Code + " " + f.Field + ": " + f.Message
	if f.Fix != "" {
		s += "; fix: " + f.Fix
	}
	return clip(oneLine(s), maxProblem)
}

// refusal is the message of a refusal.
func refusal(errs []policy.Finding) string {
	var b strings.Builder
	what := "it cannot work on Windows"
	if !slices.ContainsFunc(errs, func(f policy.Finding) bool { return f.Severity == policy.Error }) {
		what = "it does not run on Windows as written"
	}
	if len(errs) == 1 {
		b.WriteString(what + ": " + line(errs[0]))
	} else {
		fmt.Fprintf(&b, "%s, for %d reasons:", what, len(errs))
		for _, f := range errs[:min(len(errs), maxProblems)] {
			b.WriteString("\n* " + line(f))
		}
		if n := len(errs) - maxProblems; n > 0 {
			fmt.Fprintf(&b, "\n* and %d more", n)
		}
	}
	var codes []string
	for _, f := range errs {
		codes = append(codes, f.Code)
	}
	slices.Sort(codes)
	fmt.Fprintf(&b, "\n(`mullion lint explain %s` explains the rule)", slices.Compact(codes)[0])
	return b.String()
}
