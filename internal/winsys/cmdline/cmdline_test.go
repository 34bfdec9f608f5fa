// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdline

import "testing"

// TestJoin: rows of "Parsing C command-line arguments" read backwards.
func TestJoin(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"/agnhost-2", "netexec"}, `/agnhost-2 netexec`},
		{[]string{"cmd", "/c", "echo hi & exit 3"}, `cmd /c "echo hi & exit 3"`},
		{[]string{"x", ""}, `x ""`},
		{[]string{"x", `a\\b`}, `x a\\b`},
		{[]string{"x", `a\"b`}, `x a\\\"b`},
		{[]string{"x", `a b\`}, `x "a b\\"`},
		{[]string{"x", "tab\there"}, "x \"tab\there\""},
	} {
		if got := Join(row.args); got != row.want {
			t.Errorf("%q: %s, want %s", row.args, got, row.want)
		}
	}
}

// TestEscapeArg has the examples of "Parsing C command-line arguments" on
// learn.microsoft.com.
func TestEscapeArg(t *testing.T) {
	for in, want := range map[string]string{
		"": `""`, "a": "a", "a b": `"a b"`, `a"b`: `a\"b`, `a\b`: `a\b`, `a b\`: `"a b\\"`, `a\\"b`: `a\\\\\"b`,
		`a\"b c`: `"a\\\"b c"`, "tab\there": "\"tab\there\"",
	} {
		if got := escapeArg(in); got != want {
			t.Errorf("escapeArg(%q) = %q, want %q", in, got, want)
		}
	}
}
