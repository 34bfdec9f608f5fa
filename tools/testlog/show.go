// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is a line of `go test -json`: see `go doc test2json` and `go help
// buildjson`.
type event struct {
	Action  string
	Package string
	Test    string // empty for the package's own events
	Output  string
	Elapsed float64 // seconds; of events that end a test
}

// pkg collects the output of a package's tests until the failed ones are known.
type pkg struct {
	tests  []string                    // that run or failed, in the order of their start
	output map[string]*strings.Builder // by test, "" for the package
}

// show prints events as go test does without -v: the output of failures, and one line for
// each package. Then it prints the slowest tests, and the first failure of each failed
// test, which may be far above or cut off in a log. It returns the tests that were
// skipped.
func show(events io.Reader, out io.Writer) ([]skip, error) {
	var skips []skip
	var long []event
	var failed strings.Builder
	packages := map[string]*pkg{}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			_, err := io.WriteString(out, slowest(long)+failed.String())
			return skips, err
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read events: %w", err)
		}
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			e = event{Output: line} // not of a test: go's own
		}
		p := packages[e.Package]
		if p == nil {
			p = &pkg{output: map[string]*strings.Builder{}}
			packages[e.Package] = p
		}
		text := p.add(e)
		if e.Test != "" && e.Action == "skip" {
			skips = append(skips, skip{Package: short(e.Package), Test: e.Test, Reason: reason(p.end(e.Test))})
		}
		if e.Test != "" && e.Action == "fail" {
			failed.WriteString(failure(e, p.output[e.Test]))
		}
		if e.Elapsed >= longSeconds && e.Test != "" && !strings.Contains(e.Test, "/") {
			long = append(long, e)
		}
		if _, err := io.WriteString(out, text); err != nil {
			return nil, fmt.Errorf("print the results: %w", err)
		}
	}
}

// Tests that take longSeconds are worth a line; the slowest maxLong of them are shown.
const (
	longSeconds = 20
	maxLong     = 15
)

// slowest returns a line for each of the slowest tests.
func slowest(ended []event) string {
	slices.SortStableFunc(ended, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	var lines strings.Builder
	for _, e := range ended[:min(len(ended), maxLong)] {
		fmt.Fprintf(&lines, "  %-6s %4.0f s  %s %s\n", "SLOW", e.Elapsed, short(e.Package), e.Test)
	}
	return lines.String()
}

// maxMessage is the most bytes of a message that failure shows.
const maxMessage = 300

// failure returns a line with the first message of a test that failed: "pod_test.go:3: why".
// It returns "" for a test without a message: its subtests have messages, or it panicked.
func failure(e event, output *strings.Builder) string {
	if output == nil {
		return ""
	}
	for line := range strings.Lines(output.String()) {
		line = strings.TrimSpace(line)
		if place, _, ok := strings.Cut(line, ": "); ok && strings.Contains(place, ".go:") {
			line = strings.ToValidUTF8(line[:min(len(line), maxMessage)], "")
			return fmt.Sprintf("  %-6s %s %s: %s\n", "FAIL", short(e.Package), e.Test, line)
		}
	}
	return ""
}

// add takes an event and returns the output to print now.
func (p *pkg) add(e event) string {
	switch {
	case e.Package == "":
		return e.Output // of the compiler
	case e.Action == "output":
		if p.output[e.Test] == nil {
			p.output[e.Test] = &strings.Builder{}
			p.tests = append(p.tests, e.Test)
		}
		p.output[e.Test].WriteString(e.Output)
	case e.Action == "pass" && e.Test != "":
		p.end(e.Test)
	case e.Test == "" && (e.Action == "pass" || e.Action == "skip"):
		return summary(p.end(""))
	case e.Test == "" && e.Action == "fail":
		var all strings.Builder
		last := p.end("")
		for _, t := range p.tests {
			all.WriteString(withoutMarks(p.output[t].String()))
		}
		all.WriteString(last)
		return all.String()
	}
	return ""
}

// end forgets a test, or the package itself, and returns its output.
func (p *pkg) end(test string) string {
	b := p.output[test]
	if b == nil {
		return ""
	}
	delete(p.output, test)
	p.tests = slices.DeleteFunc(p.tests, func(t string) bool { return t == test })
	return b.String()
}

// summary keeps the line "ok  	PACKAGE	TIME" and its like.
func summary(output string) string {
	var kept strings.Builder
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// withoutMarks leaves out "=== RUN" and its like.
func withoutMarks(output string) string {
	var kept strings.Builder
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "=== ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// reason returns a skipped test's reason, in one line without the place in its source.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(withoutMarks(output)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "--- SKIP") {
			continue
		}
		if place, text, ok := strings.Cut(line, ": "); ok && strings.Contains(place, ".go:") {
			said = said[:0] // the last message comes from Skip
			line = text
		}
		said = append(said, line)
	}
	return strings.Join(said, " ")
}

// module is the path before the packages' own.
const module = "github.com/mullion-k8s/mullion/"

func short(pkg string) string { return strings.TrimPrefix(pkg, module) }
