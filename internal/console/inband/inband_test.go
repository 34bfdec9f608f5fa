// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package inband

import "testing"

func TestCut(t *testing.T) {
	report := string(Report(120, 40))
	if report != "\x1b[48;40;120;0;0t" {
		t.Errorf("%q", report)
	}
	for i := range report {
		if _, n, more := Cut([]byte(report[:i])); n != 0 || !more {
			t.Errorf("%q: %d, %v", report[:i], n, more)
		}
	}
	for text, want := range map[string][3]int{
		report + "abc":            {120, 40, len(report)},
		"\x1b[48;1;2t":            {2, 1, 9},
		"\x1b[48;x;0t":            {},
		"\x1b[49;1;2;0;0t":        {},
		"\x1b[48;99999999;1;0;0t": {},
		"\x1b[48;1;000000000000000000001000000000000000000000t": {},
		"abc": {},
	} {
		e, n, more := Cut([]byte(text))
		if got := [3]int{int(e.Width), int(e.Height), n}; got != want || more || e.Gone {
			t.Errorf("%q: %v, %v; want %v", text, got, more, want)
		}
	}
}

func TestGone(t *testing.T) {
	for i := range len(Gone) {
		if _, n, more := Cut([]byte(Gone[:i])); n != 0 || !more {
			t.Errorf("%q: %d, %v", Gone[:i], n, more)
		}
	}
	if e, n, _ := Cut([]byte(Gone + "x")); n != len(Gone) || !e.Gone {
		t.Errorf("%+v, %d", e, n)
	}
}

func FuzzCut(f *testing.F) {
	f.Add([]byte("\x1b[48;1;2;0;0tx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, n, _ := Cut(data); n > len(data) || n > maxLength {
			t.Errorf("%d of %d bytes", n, len(data))
		}
	})
}
