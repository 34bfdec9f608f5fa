// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// Severity is the severity of a finding.
type Severity int

// The severities. A rule that is only inferred from its sources is never an
// Error.
const (
	None    Severity = iota
	Info             // works; good to know
	Warning          // accepted, but ignored or different on Windows, or likely to fail
	Error            // refused, or cannot run
)

func (s Severity) String() string {
	return cmp.Or(map[Severity]string{Info: "info", Warning: "warning", Error: "error"}[s], "none")
}

// MarshalText encodes the severity as its name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseSeverity is the inverse of String.
func ParseSeverity(s string) (Severity, error) {
	for _, v := range []Severity{Info, Warning, Error} {
		if s == v.String() {
			return v, nil
		}
	}
	return None, fmt.Errorf("severity %q: want error, warning or info", s)
}

// Finding is one remark of a rule about one field.
type Finding struct {
	Code     string      `json:"code"`
	Severity Severity    `json:"severity"`
	Path     tree.Path   `json:"-"`
	Field    string      `json:"field"` // Path as text
	Missing  bool        `json:"missing,omitempty"`
	Message  string      `json:"message"`
	Fix      string      `json:"fix"`
	Edits    []tree.Edit `json:"-"` // resolve the finding without a change of behaviour on Windows
	Scope    tree.Path   `json:"-"` // the object, or the item of a List, whose annotations may suppress it
}

// Edit adds a safe change to the finding.
func (f *Finding) Edit(op tree.Op, path tree.Path, value any) *Finding {
	f.Edits = append(f.Edits, tree.Edit{Op: op, Path: path, Value: value})
	return f
}

// SortFindings orders findings by field.
func SortFindings(list []Finding) {
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
}
