// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// maxGlob bounds the URLs that one pattern stands for, which are all held in
// memory; curl itself makes them one after the other.
const maxGlob = 100_000

// A match is one URL that a pattern stands for, and what its brackets and
// braces held, for "#1" in the name of the output.
type match struct {
	url   string
	parts []string
}

// globError is a mistake in a pattern; it is shown with its place.
type globError struct {
	what string
	pos  int
}

func (e *globError) Error() string { return e.what }

// glob expands {a,b} and [1-9]: curl.se/docs/manpage.html#URL. The last pattern
// varies fastest.
func glob(pattern string) ([]match, error) {
	matches := []match{{}}
	literal := func(s string) {
		for i := range matches {
			matches[i].url += s
		}
	}
	multiply := func(choices []string, pos int) error {
		if len(matches)*len(choices) > maxGlob {
			return &globError{"range overflow", pos}
		}
		var next []match
		for _, m := range matches {
			for _, c := range choices {
				parts := append(append([]string(nil), m.parts...), c)
				next = append(next, match{m.url + c, parts})
			}
		}
		matches = next
		return nil
	}
	for i := 0; i < len(pattern); {
		switch c := pattern[i]; {
		case c == '{':
			choices, n, err := globSet(pattern, i+1)
			if err != nil {
				return nil, err
			}
			if err := multiply(choices, n); err != nil {
				return nil, err
			}
			i = n
		case c == '[':
			if n := ipv6End(pattern, i); n > 0 {
				literal(pattern[i:n])
				i = n
				continue
			}
			choices, n, err := globRange(pattern, i+1)
			if err != nil {
				return nil, err
			}
			if err := multiply(choices, n); err != nil {
				return nil, err
			}
			i = n
		case c == '}' || c == ']':
			return nil, &globError{"unmatched close brace/bracket", i + 1}
		case c == '\\' && i+1 < len(pattern) && strings.IndexByte("{[}]", pattern[i+1]) >= 0:
			literal(pattern[i+1 : i+2])
			i += 2
		default:
			n := i + 1
			for n < len(pattern) && strings.IndexByte(`{[}]\`, pattern[n]) < 0 {
				n++
			}
			literal(pattern[i:n])
			i = n
		}
	}
	return matches, nil
}

// ipv6End returns where an IPv6 address in brackets, or "[]", ends; 0 if what
// begins here is none.
func ipv6End(s string, i int) int {
	end := strings.IndexByte(s[i:], ']')
	if end < 0 {
		return 0
	}
	inside, _, _ := strings.Cut(s[i+1:i+end], "%")
	if _, err := netip.ParseAddr(inside); err != nil && inside != "" {
		return 0
	}
	return i + end + 1
}

// globSet reads the choices after an opening brace and returns where they end.
func globSet(s string, start int) ([]string, int, error) {
	var choices []string
	var b strings.Builder
	for i := start; i < len(s); i++ {
		switch s[i] {
		case '{', '[':
			return nil, 0, &globError{"nested brace", i + 1}
		case ']':
			return nil, 0, &globError{"unexpected close bracket", i + 1}
		case '}':
			if i == start {
				return nil, 0, &globError{"empty string within braces", i + 1}
			}
			return append(choices, b.String()), i + 1, nil
		case ',':
			choices = append(choices, b.String())
			b.Reset()
		case '\\':
			if i+1 < len(s) {
				i++
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return nil, 0, &globError{"unmatched brace", start}
}

// globRange reads FROM-TO[:STEP] after an opening bracket.
func globRange(s string, start int) ([]string, int, error) {
	end := strings.IndexByte(s[start:], ']')
	if end < 0 || end == 0 {
		return nil, 0, &globError{"bad range specification", start + 1}
	}
	after := start + end + 1
	bad := &globError{"bad range", after}
	limits, stepText, hasStep := strings.Cut(s[start:start+end], ":")
	from, to, ok := strings.Cut(limits, "-")
	step := 1
	if hasStep {
		var err error
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
			return nil, 0, bad
		}
	}
	if isLetter(from) && isLetter(to) && ok {
		choices := stepped(int(from[0]), int(to[0]), step, func(n int) string { return string(rune(n)) })
		if choices == nil {
			return nil, 0, bad
		}
		return choices, after, nil
	}
	if s[start] < '0' || s[start] > '9' {
		if isLetter(s[start : start+1]) {
			return nil, 0, bad
		}
		return nil, 0, &globError{"bad range specification", start + 1}
	}
	a, errA := strconv.Atoi(from)
	b, errB := strconv.Atoi(strings.TrimLeft(to, " "))
	if errA != nil || errB != nil || !ok {
		return nil, 0, bad
	}
	width := 0
	if from[0] == '0' {
		width = len(from)
	}
	if (b-a)/step > maxGlob {
		return nil, 0, &globError{"range overflow", after}
	}
	choices := stepped(a, b, step, func(n int) string { return fmt.Sprintf("%0*d", width, n) })
	if choices == nil {
		return nil, 0, bad
	}
	return choices, after, nil
}

func isLetter(s string) bool {
	return len(s) == 1 && (s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z')
}

func stepped(from, to, step int, format func(int) string) []string {
	if from > to || from == to && step != 1 || from != to && step > to-from {
		return nil
	}
	var choices []string
	for n := from; n <= to; n += step {
		choices = append(choices, format(n))
	}
	return choices
}

// fillName replaces "#1" in the name of an output by what the first pattern held.
func fillName(name string, parts []string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		digits := 0
		for i+1+digits < len(name) && name[i+1+digits] >= '0' && name[i+1+digits] <= '9' {
			digits++
		}
		if name[i] == '#' && digits > 0 {
			if n, err := strconv.Atoi(name[i+1 : i+1+digits]); err == nil && n >= 1 && n <= len(parts) {
				b.WriteString(parts[n-1])
				i += digits
				continue
			}
		}
		b.WriteByte(name[i])
	}
	return b.String()
}
