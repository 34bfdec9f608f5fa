// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// skip is a test that was skipped.
type skip struct {
	Package string // below the module
	Test    string
	Reason  string
}

func (s skip) name() string { return s.Package + " " + s.Test }

// parseExpected reads a list of tests: in each line the package, the test and
// the reason. "#" begins a comment.
func parseExpected(list []byte) (names []string, err error) {
	for line := range strings.Lines(string(list)) {
		line, _, _ = strings.Cut(line, "#")
		switch f := strings.Fields(line); {
		case len(f) == 0:
		case len(f) < 3:
			return nil, fmt.Errorf("%q: want PACKAGE TEST REASON", strings.TrimSpace(line))
		default:
			names = append(names, f[0]+" "+f[1])
		}
	}
	return names, nil
}

// printSkips lists the skipped tests by reason and package.
func printSkips(w io.Writer, skips []skip) error {
	byReason := map[string]map[string][]string{}
	for _, s := range skips {
		if byReason[s.Reason] == nil {
			byReason[s.Reason] = map[string][]string{}
		}
		byReason[s.Reason][s.Package] = append(byReason[s.Reason][s.Package], s.Test)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "  %-6s %d tests\n", "SKIP", len(skips))
	for _, why := range slices.Sorted(maps.Keys(byReason)) {
		fmt.Fprintf(&text, "         %s\n", why)
		for _, pkg := range slices.Sorted(maps.Keys(byReason[why])) {
			fmt.Fprintf(&text, "           %s: %s\n", pkg, strings.Join(byReason[why][pkg], ", "))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// compare fails unless the skipped tests match the list.
func compare(list string, want []string, got []skip) error {
	skipped := map[string]bool{}
	unexpected := 0
	for _, s := range got {
		skipped[s.name()] = true
		if !slices.Contains(want, s.name()) {
			unexpected++
		}
	}
	if unexpected > 0 {
		return fmt.Errorf("%d skipped tests are not in %s, so not everything was tested\n"+
			"test: hint: give the machine what they need ('make deps', root), or accept it with 'make test PARTIAL=1'",
			unexpected, list)
	}
	for _, name := range want {
		if !skipped[name] {
			return fmt.Errorf("%s lists %s, which was not skipped\ntest: hint: remove it from the list", list, name)
		}
	}
	return nil
}
