// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package cmdline writes Windows command lines: the container runtime joins a
// container's arguments with it, and mullion-init starts programs with the result.
package cmdline

import "strings"

// Join joins arguments as containerd does on Windows. A program that splits
// the line by Microsoft's rules gets the same arguments back.
//
// Source: "Parsing C command-line arguments", learn.microsoft.com/cpp/c-language.
func Join(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = escapeArg(a)
	}
	return strings.Join(quoted, " ")
}

// escapeArg quotes an argument as CommandLineToArgvW splits it, by the rules of
// syscall.EscapeArg for Windows, which other systems do not have.
func escapeArg(s string) string {
	if s == "" {
		return `""`
	}
	if !strings.ContainsAny(s, "\" \t\\") {
		return s
	}
	quote := strings.ContainsAny(s, " \t")
	var b strings.Builder
	if quote {
		b.WriteByte('"')
	}
	slashes := 0
	for i := range len(s) {
		switch s[i] {
		case '\\':
			slashes++
		case '"':
			b.WriteString(strings.Repeat(`\`, slashes+1)) // double the preceding ones, escape the quote
			slashes = 0
		default:
			slashes = 0
		}
		b.WriteByte(s[i])
	}
	if quote {
		b.WriteString(strings.Repeat(`\`, slashes))
		b.WriteByte('"')
	}
	return b.String()
}
