// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// module is the path before the packages' own.
const module = "github.com/mullion-k8s/mullion/"

// event is a line of `go test -json`: see `go doc test2json`.
type event struct {
	Action  string
	Package string
	Test    string // empty for the package's own events
	Output  string
}

// read returns the tests that were skipped.
func read(events io.Reader) ([]skip, error) {
	var skips []skip
	output := map[[2]string]string{} // by package and test, of those that did not pass
	for d := json.NewDecoder(events); ; {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return skips, nil
		} else if err != nil {
			return nil, err
		}
		test := [2]string{e.Package, e.Test}
		switch {
		case e.Test == "":
		case e.Action == "output":
			output[test] += e.Output
		case e.Action == "skip":
			skips = append(skips, skip{strings.TrimPrefix(e.Package, module), e.Test, reason(output[test])})
			delete(output, test)
		case e.Action == "pass":
			delete(output, test)
		}
	}
}

// reason returns a skipped test's reason, in one line without the place in its source.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- SKIP") {
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
