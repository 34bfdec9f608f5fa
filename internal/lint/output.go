// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// Printer writes results in one format.
type Printer interface {
	Print(Result) error
	Close(Summary) error // writes the remaining output
}

// NewPrinter returns a printer for text, json or sarif. version is mullion's
// version.
func NewPrinter(format string, w io.Writer, version string) (Printer, error) {
	b := bufio.NewWriter(w)
	switch format {
	case "text":
		return &textPrinter{w: b}, nil
	case "json":
		return &jsonPrinter{w: b}, nil
	case "sarif":
		return &sarifPrinter{w: b, version: version}, nil
	}
	return nil, fmt.Errorf("output format %q: want text, json or sarif", format)
}

// textPrinter writes the position, the line and a caret under it.
type textPrinter struct{ w *bufio.Writer }

func (p *textPrinter) Print(r Result) error {
	if r.Suppressed != "" {
		return nil
	}
	object := ""
	if r.Object != "" {
		object = " (" + r.Object + ")"
	}
	if r.File == "" {
		fmt.Fprintf(p.w, "%s: %s: %s %s: %s\n", r.Object, r.Field, r.Severity, r.Code, r.Message)
	} else {
		fmt.Fprintf(p.w, "%s:%d:%d: %s %s: %s%s\n", r.File, r.Line, r.Column, r.Severity, r.Code, r.Message, object)
	}
	if r.excerpt != "" {
		fmt.Fprintf(p.w, "  %s\n  %s\n", printable(r.excerpt), caret(r.excerpt, r.caret, r.width))
	}
	_, err := fmt.Fprintf(p.w, "  fix: %s\n", r.Fix)
	return err
}

// printable keeps control characters of a file off the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if r < ' ' || r == 0x7F || r >= 0x80 && r < 0xA0 {
			return utf8.RuneError
		}
		return r
	}, s)
}

// caret underlines width bytes, starting at a column (in bytes or runes, as the
// parser counts).
func caret(line string, column, width int) string {
	const maxTildes = 40
	runes := utf8.RuneCountInString(line)
	column = max(1, min(column, runes+1))
	width = max(1, min(width, runes-column+1, maxTildes))
	return strings.Repeat(" ", column-1) + "^" + strings.Repeat("~", width-1)
}

func (p *textPrinter) Close(Summary) error { return p.w.Flush() }

// jsonPrinter writes one object per line: it can be read while it is written,
// and 50,000 documents need no memory.
type jsonPrinter struct{ w *bufio.Writer }

func (p *jsonPrinter) Print(r Result) error { return json.NewEncoder(p.w).Encode(r) }

// Close writes a line for each kind of objects that were not looked at. It has
// no code: it is not a finding.
func (p *jsonPrinter) Close(sum Summary) error {
	type unseen struct {
		Kind    string `json:"kind"`
		Group   string `json:"group"`
		Objects int    `json:"objects"`
	}
	for _, k := range sum.Unseen.kinds() {
		line := map[string]unseen{"notLookedAt": {k.Name, k.Group, sum.Unseen[k]}}
		if err := json.NewEncoder(p.w).Encode(line); err != nil {
			return err
		}
	}
	return p.w.Flush()
}

// sarifPrinter writes SARIF 2.1.0, which code hosts show next to the lines.
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
type sarifPrinter struct {
	w       *bufio.Writer
	version string
	begun   bool
}

func (p *sarifPrinter) begin() error {
	type text struct {
		Text string `json:"text"`
	}
	type rule struct {
		ID      string `json:"id"`
		Short   text   `json:"shortDescription"`
		Full    text   `json:"fullDescription"`
		Help    text   `json:"help"`
		Default struct {
			Level string `json:"level"`
		} `json:"defaultConfiguration"`
	}
	var rules []rule
	all := allRules()
	for i := range all {
		r := rule{ID: all[i].Code, Short: text{all[i].Title}, Full: text{all[i].Why}, Help: text{all[i].Fix}}
		r.Default.Level = sarifLevel(all[i].Severity)
		rules = append(rules, r)
	}
	b, err := json.Marshal(rules)
	if err != nil {
		return err
	}
	v, err := json.Marshal(p.version)
	if err != nil {
		return err
	}
	p.begun = true
	_, err = fmt.Fprintf(p.w, `{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0",`+
		`"runs":[{"tool":{"driver":{"name":"mullion","version":%s,"rules":%s}},"results":[`+"\n", v, b)
	return err
}

func sarifLevel(s policy.Severity) string {
	switch s {
	case policy.Error:
		return "error"
	case policy.Warning:
		return "warning"
	}
	return "note"
}

func (p *sarifPrinter) Print(r Result) error {
	comma := ","
	if !p.begun {
		comma = ""
		if err := p.begin(); err != nil {
			return err
		}
	}
	type object = map[string]any
	result := object{
		"ruleId": r.Code, "level": sarifLevel(r.Severity), "message": object{"text": r.Message + ". Fix: " + r.Fix},
		"locations": []any{sarifLocation(r)},
	}
	if r.Suppressed != "" {
		result["suppressions"] = []any{object{"kind": "inSource", "justification": r.Suppressed}}
	}
	b, err := json.Marshal(result)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.w, "%s%s\n", comma, b)
	return err
}

// sarifLocation returns a position in a file or, for an object in a cluster,
// its name and the field.
func sarifLocation(r Result) map[string]any {
	type object = map[string]any
	if r.File == "" {
		return object{"logicalLocations": []any{object{"fullyQualifiedName": r.Object + ": " + r.Field,
			"kind": "resource"}}}
	}
	return object{"physicalLocation": object{
		"artifactLocation": object{"uri": filepath.ToSlash(r.File)},
		"region":           object{"startLine": r.Line, "startColumn": max(r.Column, 1)},
	}}
}

// Close says which kinds of objects were not looked at as notifications of the
// tool (3.20.21), which are not results.
func (p *sarifPrinter) Close(sum Summary) error {
	if !p.begun {
		if err := p.begin(); err != nil {
			return err
		}
	}
	fmt.Fprint(p.w, "]")
	if notes := sum.Unseen.Notes(); len(notes) > 0 {
		type object = map[string]any
		var notifications []any
		for _, n := range notes {
			notifications = append(notifications, object{"level": "note", "message": object{"text": n}})
		}
		b, err := json.Marshal([]any{object{"executionSuccessful": true, "toolExecutionNotifications": notifications}})
		if err != nil {
			return err
		}
		fmt.Fprintf(p.w, `,"invocations":%s`, b)
	}
	fmt.Fprintln(p.w, "}]}")
	return p.w.Flush()
}
