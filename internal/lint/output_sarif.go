// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
)

// sarifPrinter writes SARIF 2.1.0, which code hosts show next to the lines.
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
type sarifPrinter struct {
	w       *bufio.Writer
	version string
	root    string
	paths   *Paths
	begun   bool
}

// rootID stands for the checkout in names of files, as code hosts expect it.
// https://docs.github.com/code-security/reference/code-scanning/sarif-support-for-code-scanning
const rootID = "%SRCROOT%"

// fingerprintName names our fingerprints (3.27.17). GitHub's upload adds one of
// its own, of the lines around the finding.
const fingerprintName = "mullionFinding/v1"

const (
	homeURL  = "https://github.com/mullion-k8s/mullion"
	rulesURL = homeURL + "/blob/main/docs/reference/rules.md"
)

// object is a JSON object.
type object = map[string]any

// begin writes the text before the results.
func (p *sarifPrinter) begin() error {
	if p.begun {
		return nil
	}
	p.begun = true
	var rules []any
	all := allRules()
	for i := range all {
		rules = append(rules, object{
			"id":                   all[i].Code,
			"shortDescription":     object{"text": all[i].Title},
			"fullDescription":      object{"text": all[i].Why},
			"help":                 object{"text": all[i].Fix},
			"helpUri":              ruleURL(&all[i]),
			"defaultConfiguration": object{"level": sarifLevel(all[i].Severity)},
		})
	}
	root := url.URL{Scheme: "file", Path: strings.TrimSuffix(filepath.ToSlash(p.root), "/") + "/"}
	driver := object{"name": "mullion", "version": p.version, "informationUri": homeURL, "rules": rules}
	text, err := json.Marshal(object{
		"tool": object{"driver": driver},
		"originalUriBaseIds": object{rootID: object{
			"uri":         root.String(),
			"description": object{"text": "the checkout, or the working folder"},
		}},
		"columnKind": "unicodeCodePoints",
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.w, `{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0",`+
		`"runs":[%s,"results":[`+"\n", text[:len(text)-1])
	return err
}

// ruleURL returns the address of a rule in the reference: GitHub makes the
// fragment of the heading.
func ruleURL(r *rule.Rule) string {
	fragment := strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			return c
		}
		return -1
	}, strings.ToLower(r.Code+": "+r.Title))
	return rulesURL + "#" + fragment
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
	result := object{
		"ruleId":              r.Code,
		"level":               sarifLevel(r.Severity),
		"message":             object{"text": r.Message + ". Fix: " + r.Fix},
		"locations":           []any{p.location(r)},
		"partialFingerprints": object{fingerprintName: r.Identity(p.paths.Of(r.File)).fingerprint()},
	}
	if r.Suppressed != "" {
		result["suppressions"] = []any{object{"kind": "inSource", "justification": r.Suppressed}}
	}
	if len(r.fix) > 0 {
		result["fixes"] = []any{p.fix(r)}
	}
	b, err := json.Marshal(result)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.w, "%s%s\n", comma, b)
	return err
}

// artifact returns the location of a file (3.4).
func (p *sarifPrinter) artifact(file string) object {
	uri, relative := p.paths.uri(file)
	if !relative {
		return object{"uri": uri}
	}
	return object{"uri": uri, "uriBaseId": rootID}
}

// location returns a position in a file or, for an object in a cluster, its name
// and the field.
func (p *sarifPrinter) location(r Result) object {
	if r.File == "" {
		return object{"logicalLocations": []any{object{"fullyQualifiedName": r.Object + ": " + r.Field,
			"kind": "resource"}}}
	}
	region := object{"startLine": r.Line, "startColumn": max(r.Column, 1), "endLine": r.Line}
	if r.EndColumn > 0 {
		region["endColumn"] = r.EndColumn
	}
	return object{"physicalLocation": object{"artifactLocation": p.artifact(r.File), "region": region}}
}

// fix returns the changes of --fix for one result (3.55).
func (p *sarifPrinter) fix(r Result) object {
	var replacements []any
	for _, c := range r.fix {
		replacements = append(replacements, object{
			"deletedRegion": object{
				"startLine":   c.line,
				"startColumn": c.column,
				"endLine":     c.endLine,
				"endColumn":   c.endColumn,
			},
			"insertedContent": object{"text": c.with},
		})
	}
	return object{
		"description":     object{"text": r.Fix},
		"artifactChanges": []any{object{"artifactLocation": p.artifact(r.File), "replacements": replacements}},
	}
}

// Close writes the inputs that were not checked as notifications of the tool
// (3.20.21), which are not results.
func (p *sarifPrinter) Close(sum Summary) error {
	if err := p.begin(); err != nil {
		return err
	}
	notifications := []any{}
	add := func(file, text string) {
		n := object{"level": "note", "message": object{"text": text}}
		if file != "" {
			n["locations"] = []any{object{"physicalLocation": object{"artifactLocation": p.artifact(file)}}}
		}
		notifications = append(notifications, n)
	}
	for _, s := range sum.Skipped {
		add(s.File, plural(s.Documents, "document")+" skipped: a patch, or not a manifest")
	}
	for _, n := range sum.Unseen.Notes() {
		add("", n)
	}
	for _, n := range sum.Notes {
		add(n.File, n.Text)
	}
	b, err := json.Marshal([]any{object{"executionSuccessful": true, "toolExecutionNotifications": notifications}})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.w, "],\"invocations\":%s}]}\n", b)
	return p.w.Flush()
}

// plural counts things.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
