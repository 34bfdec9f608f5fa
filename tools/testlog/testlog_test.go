// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestShow reads what `go test -json` of Go 1.26 printed for a module with all
// results: failed, skipped, panicked, without tests, not compiled, timed out.
func TestShow(t *testing.T) {
	events, err := os.Open(filepath.Join("testdata", "events.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	var out bytes.Buffer
	skips, err := show(events, &out)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "shown.txt", out.Bytes())
	var listed bytes.Buffer
	if err := printSkips(&listed, skips); err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "skipped.txt", listed.Bytes())
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

// TestRecord writes and reads a record, and lets two groups append to one.
func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record")
	events := `{"Action":"output","Package":"x/p","Test":"TestA","Output":"    a_test.go:3: why\n"}
{"Action":"skip","Package":"x/p","Test":"TestA"}
`
	for range 2 {
		if err := showTo(file, strings.NewReader(events), &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
	}
	record, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseSkips(record)
	one := skip{"x/p", "TestA", "why"}
	if err != nil || !slices.Equal(got, []skip{one, one}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestSlowest(t *testing.T) {
	events := `{"Action":"pass","Package":"x/p","Test":"TestQuick","Elapsed":1.5}
{"Action":"pass","Package":"x/p","Test":"TestSlow","Elapsed":21.2}
{"Action":"pass","Package":"x/p","Test":"TestSlower/case","Elapsed":93}
{"Action":"pass","Package":"x/p","Test":"TestSlower","Elapsed":94.6}
{"Action":"pass","Package":"x/p","Elapsed":117.3}
`
	var out bytes.Buffer
	if _, err := show(strings.NewReader(events), &out); err != nil {
		t.Fatal(err)
	}
	if want := "  SLOW     95 s  x/p TestSlower\n  SLOW     21 s  x/p TestSlow\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
