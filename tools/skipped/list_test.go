// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestList reads what `go test -json` printed in two groups, and compares with a list.
func TestList(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := file("one", `{"Action":"run","Package":"`+module+`p","Test":"TestA"}
{"Action":"output","Package":"`+module+`p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"`+module+`p","Test":"TestB","Output":"    b_test.go:3: working\n"}
{"Action":"output","Package":"`+module+`p","Test":"TestA","Output":"    a_test.go:3: a log\n"}
{"Action":"output","Package":"`+module+`p","Test":"TestA","Output":"    a_test.go:4: needs\n"}
{"Action":"output","Package":"`+module+`p","Test":"TestA","Output":"        root\n"}
{"Action":"output","Package":"`+module+`p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"`+module+`p","Test":"TestA"}
{"Action":"pass","Package":"`+module+`p","Test":"TestB"}
{"Action":"skip","Package":"`+module+`without-tests"}
`)
	two := file("two", `{"Action":"output","Package":"q","Test":"TestC/x","Output":"    c_test.go:3: needs root\n"}
{"Action":"skip","Package":"q","Test":"TestC/x"}
`)
	var out bytes.Buffer
	err := list(&out, file("expected", "p TestA needs root\n"), []string{one, two}, false)
	if err == nil || !strings.Contains(err.Error(), "1 skipped tests are not in") {
		t.Errorf("two skipped, one expected: %v", err)
	}
	const want = "  SKIP   2 tests\n         needs root\n           p: TestA\n           q: TestC/x\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if err := list(&out, file("none", ""), []string{one, two}, true); err != nil {
		t.Errorf("-partial: %v", err)
	}
	if err := list(&out, file("none", ""), []string{file("cut", `{"Action":"ou`)}, false); err == nil {
		t.Error("a file that ends in the middle of an event: no error")
	}
}

func TestCompare(t *testing.T) {
	a, b := skip{"internal/a", "TestA", "needs root"}, skip{"internal/b", "TestB/x", "needs Wine"}
	const list = "# comment\n\ninternal/a TestA needs root # always\n"
	for _, tc := range []struct {
		list string
		got  []skip
		want string // in the error
	}{
		{list, []skip{a}, ""},
		{"", nil, ""},
		{list, []skip{a, b}, "1 skipped tests are not in skipped.txt"},
		{list, nil, "internal/a TestA, which was not skipped"},
		{"internal/a TestA\n", nil, "want PACKAGE TEST REASON"},
	} {
		names, err := parseExpected([]byte(tc.list))
		if err == nil {
			err = compare("skipped.txt", names, tc.got)
		}
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q with %v: %v, want %q", tc.list, tc.got, err, tc.want)
		}
	}
}
