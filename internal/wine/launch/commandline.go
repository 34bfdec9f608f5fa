// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import "strings"

// commandLine joins arguments as containerd's shim does on Windows: programs that
// split the line by Microsoft's rules get the same arguments back, the first as it
// was written. Wine would put the path of the file there.
//
// Source: "Parsing C command-line arguments", learn.microsoft.com/cpp/c-language.
func commandLine(args []string) string {
	var b strings.Builder
	for i, a := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		quoteArgument(&b, a)
	}
	return b.String()
}

// quoteArgument writes one argument. Backslashes count only before a quotation
// mark, where each is doubled.
func quoteArgument(b *strings.Builder, a string) {
	if a != "" && !strings.ContainsAny(a, " \t\n\v\"") {
		b.WriteString(a)
		return
	}
	b.WriteByte('"')
	backslashes := 0
	for _, c := range []byte(a) {
		switch c {
		case '\\':
			backslashes++
		case '"':
			b.WriteString(strings.Repeat(`\`, backslashes+1))
			backslashes = 0
		default:
			backslashes = 0
		}
		b.WriteByte(c)
	}
	b.WriteString(strings.Repeat(`\`, backslashes))
	b.WriteByte('"')
}
