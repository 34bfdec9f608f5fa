// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// lineMax bounds a line of text, in bytes: lines of logs are shorter, and a
// binary must not take all memory.
const lineMax = 16 << 20

// find searches for a text: /V, /C, /N and /I.
func find(_ context.Context, env *Env) int {
	var invert, count, number, ignoreCase bool
	var text *string
	var files []string
	for _, a := range env.Args {
		switch strings.ToLower(a) {
		case "/v":
			invert = true
		case "/c":
			count = true
		case "/n":
			number = true
		case "/i":
			ignoreCase = true
		case "/off", "/offline":
		default:
			if text == nil {
				// cmd.exe keeps the quotes; CreateProcess callers may drop them.
				t := strings.Trim(a, `"`)
				text = &t
				continue
			}
			files = append(files, a)
		}
	}
	if text == nil {
		env.errorf("FIND: Parameter format not correct\n")
		return 2
	}
	want := *text
	if ignoreCase {
		want = strings.ToLower(want)
	}
	hit := func(line string) bool {
		if ignoreCase {
			line = strings.ToLower(line)
		}
		// An empty text matches nothing, in Windows.
		return (want != "" && strings.Contains(line, want)) != invert
	}
	code := 1
	each := func(name string, r io.Reader) {
		n := 0
		if name != "" && !count {
			env.printf("\n---------- %s\n", strings.ToUpper(name))
		}
		eachLine(r, func(i int, line string) {
			if !hit(line) {
				return
			}
			n++
			switch {
			case count:
			case number:
				env.printf("[%d]%s\n", i, line)
			default:
				env.printf("%s\n", line)
			}
		})
		if n > 0 {
			code = 0
		}
		if count && name != "" {
			env.printf("\n---------- %s: %d\n", strings.ToUpper(name), n)
		} else if count {
			env.printf("%d\n", n)
		}
	}
	if len(files) == 0 {
		each("", env.Stdin)
		return code
	}
	for _, name := range expand(files) {
		f, err := os.Open(name)
		if err != nil {
			env.errorf("File not found - %s\n", strings.ToUpper(name))
			continue
		}
		each(name, f)
		_ = f.Close() // opened for reading
	}
	return code
}

// eachLine calls f for every line, counted from 1, without its end.
func eachLine(r io.Reader, f func(i int, line string)) {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, lineMax)
	for i := 1; sc.Scan(); i++ {
		f(i, strings.TrimSuffix(sc.Text(), "\r"))
	}
}

// expand resolves wildcards, which on Windows is the program's own work.
func expand(names []string) []string {
	var out []string
	for _, n := range names {
		if strings.ContainsAny(n, "*?") {
			if found, err := filepath.Glob(n); err == nil && len(found) > 0 {
				out = append(out, found...)
				continue
			}
		}
		out = append(out, n)
	}
	return out
}
