// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bufio"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// junitPrinter writes JUnit's XML, which most CI servers show: a suite for each
// file, a failed test for each finding.
// https://github.com/testmoapp/junitxml
type junitPrinter struct {
	w      *bufio.Writer
	paths  *Paths
	suites []*junitSuite
	byFile map[string]*junitSuite
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	File    string        `xml:"file,attr,omitempty"`
	Line    int           `xml:"line,attr,omitempty"`
	Failure *junitMessage `xml:"failure"`
	Skipped *junitMessage `xml:"skipped"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

func (p *junitPrinter) Print(r Result) error {
	name := cmp.Or(p.paths.Of(r.File), r.Object)
	suite := p.byFile[name]
	if suite == nil {
		if p.byFile == nil {
			p.byFile = map[string]*junitSuite{}
		}
		suite = &junitSuite{Name: name}
		p.byFile[name], p.suites = suite, append(p.suites, suite)
	}
	where := name
	if r.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", name, r.Line, r.Column)
	}
	test := junitCase{
		Name:  strings.TrimSpace(r.Code + " " + r.Object),
		Class: name,
		Line:  r.Line,
	}
	if r.File != "" {
		test.File = name
	}
	suite.Tests++
	if r.Suppressed != "" {
		suite.Skipped++
		test.Skipped = &junitMessage{Message: r.Suppressed}
	} else {
		suite.Failures++
		test.Failure = &junitMessage{
			Message: r.Message,
			Type:    r.Severity.String(),
			Text:    fmt.Sprintf("%s: %s %s: %s\nfix: %s", where, r.Severity, r.Code, r.Message, r.Fix),
		}
	}
	suite.Cases = append(suite.Cases, test)
	return nil
}

// Close writes the suites, and one with a passed test for the run: servers take a
// file without tests for a broken one.
func (p *junitPrinter) Close(sum Summary) error {
	run := &junitSuite{
		Name:  "mullion lint",
		Tests: 1,
		Cases: []junitCase{{
			Name:  plural(sum.Objects, "object") + " in " + plural(sum.Files, "file"),
			Class: "mullion lint",
		}},
	}
	root := struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []*junitSuite
	}{Suites: append([]*junitSuite{run}, p.suites...)}
	if _, err := io.WriteString(p.w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(p.w)
	enc.Indent("", " ")
	if err := enc.Encode(root); err != nil {
		return err
	}
	fmt.Fprintln(p.w)
	return p.w.Flush()
}
