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

type findOptions struct {
	invert, count, number, ignoreCase bool
	text                              string
	files                             []string
}

// parseFind reads the options; ok is false without a text.
func parseFind(args []string) (o findOptions, ok bool) {
	for _, a := range args {
		switch strings.ToLower(a) {
		case "/v":
			o.invert = true
		case "/c":
			o.count = true
		case "/n":
			o.number = true
		case "/i":
			o.ignoreCase = true
		case "/off", "/offline":
		default:
			if ok {
				o.files = append(o.files, a)
				continue
			}
			// cmd.exe keeps the quotes; CreateProcess callers may drop them.
			o.text, ok = strings.Trim(a, `"`), true
		}
	}
	if o.ignoreCase {
		o.text = strings.ToLower(o.text)
	}
	return o, ok
}

// hit reports whether a line is selected. An empty text matches no line, as on Windows.
func (o findOptions) hit(line string) bool {
	if o.ignoreCase {
		line = strings.ToLower(line)
	}
	return (o.text != "" && strings.Contains(line, o.text)) != o.invert
}

// find searches for a text: /V, /C, /N and /I.
func find(_ context.Context, env *Env) int {
	o, ok := parseFind(env.Args)
	if !ok {
		env.errorf("FIND: Parameter format not correct\n")
		return 2
	}
	if len(o.files) == 0 {
		return boolInt(o.search(env, "", env.Stdin) == 0)
	}
	hits := 0
	for _, name := range expand(o.files) {
		f, err := os.Open(name)
		if err != nil {
			env.errorf("File not found - %s\n", strings.ToUpper(name))
			continue
		}
		hits += o.search(env, name, f)
		_ = f.Close() // opened for reading
	}
	return boolInt(hits == 0)
}

// search prints the matching lines of one file, or their number.
func (o findOptions) search(env *Env, name string, r io.Reader) (hits int) {
	if name != "" && !o.count {
		env.printf("\n---------- %s\n", strings.ToUpper(name))
	}
	eachLine(r, func(i int, line string) {
		if !o.hit(line) {
			return
		}
		hits++
		switch {
		case o.count:
		case o.number:
			env.printf("[%d]%s\n", i, line)
		default:
			env.printf("%s\n", line)
		}
	})
	if o.count && name != "" {
		env.printf("\n---------- %s: %d\n", strings.ToUpper(name), hits)
	} else if o.count {
		env.printf("%d\n", hits)
	}
	return hits
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
