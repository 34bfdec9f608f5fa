// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"strconv"
	"strings"
	"time"

	"github.com/dlclark/regexp2"

	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// matchTimeout bounds the search for one match: an engine that backtracks can
// take exponential time. .NET has no bound by default.
const matchTimeout = 10 * time.Second

// Regex is System.Text.RegularExpressions.Regex.
type Regex struct {
	Pattern string
	re      *regexp2.Regexp
}

// TypeName returns the .NET name.
func (*Regex) TypeName() string { return "System.Text.RegularExpressions.Regex" }

// Text returns the pattern.
func (x *Regex) Text() string { return x.Pattern }

// Group is a group of a match.
type Group struct {
	Name    string // its number if it has no other
	Number  int
	Value   string
	Index   int // in characters
	Length  int
	Success bool
}

// TypeName returns the .NET name.
func (*Group) TypeName() string { return "System.Text.RegularExpressions.Group" }

// Text returns the text that the group matched.
func (g *Group) Text() string { return g.Value }

// Match is one match of a Regex.
type Match struct {
	Groups []*Group // the first is the whole match
	re     *Regex
	match  *regexp2.Match
	text   []rune
}

// TypeName returns the .NET name.
func (*Match) TypeName() string { return "System.Text.RegularExpressions.Match" }

// Text returns the matched text.
func (m *Match) Text() string {
	if m == nil || len(m.Groups) == 0 {
		return ""
	}
	return m.Groups[0].Value
}

// Regex compiles a pattern.
func (r *Runner) Regex(pattern string, ignoreCase bool) (*Regex, error) {
	opts := ""
	if ignoreCase {
		opts = "i"
	}
	return NewRegex(pattern, opts)
}

// NewRegex compiles a pattern with options of the letters i, m, n, s and x.
func NewRegex(pattern, opts string) (*Regex, error) {
	flags := regexp2.None
	for _, letter := range opts {
		flags |= map[rune]regexp2.RegexOptions{
			'i': regexp2.IgnoreCase, 'm': regexp2.Multiline, 'n': regexp2.ExplicitCapture, 's': regexp2.Singleline,
			'x': regexp2.IgnorePatternWhitespace,
		}[letter]
	}
	re, err := regexp2.Compile(pattern, flags)
	if err != nil {
		return nil, Failf("System.ArgumentException", "InvalidRegularExpression", "InvalidOperation", pattern,
			"The regular expression pattern %s is not valid.", pattern)
	}
	re.MatchTimeout = matchTimeout
	return &Regex{Pattern: pattern, re: re}, nil
}

// regexEscapes are the escapes of .NET's Regex.Escape.
var regexEscapes = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `+`, `\+`, `?`, `\?`, `|`, `\|`, `{`, `\{`, `[`, `\[`,
	`(`, `\(`, `)`, `\)`, `^`, `\^`, `$`, `\$`, `.`, `\.`, `#`, `\#`, " ", `\ `, "\t", `\t`, "\n", `\n`, "\f", `\f`,
	"\r", `\r`)

// QuoteRegex escapes a literal.
func QuoteRegex(s string) string { return regexEscapes.Replace(s) }

// Find returns the first match, or nil.
func (x *Regex) Find(s string) (*Match, error) {
	text := []rune(s)
	m, err := x.re.FindRunesMatch(text)
	return x.match(text, m, err)
}

// Next returns the match after this one, or nil.
func (m *Match) Next() (*Match, error) {
	if m.re == nil {
		return nil, nil // no match has no next one
	}
	next, err := m.re.re.FindNextMatch(m.match)
	return m.re.match(m.text, next, err)
}

func (x *Regex) match(text []rune, found *regexp2.Match, err error) (*Match, error) {
	if err != nil {
		return nil, Failf("System.Text.RegularExpressions.RegexMatchTimeoutException", "RegexMatchTimeoutException",
			"OperationTimeout", x.Pattern, "The Regex engine has timed out while trying to match a pattern to an "+
				"input string. This can occur for many reasons, including very large inputs or excessive backtracking "+
				"caused by nested quantifiers, back-references and other factors.")
	}
	if found == nil {
		return nil, nil
	}
	m := &Match{re: x, match: found, text: text}
	names, numbers := x.re.GetGroupNames(), x.re.GetGroupNumbers()
	for i, g := range found.Groups() {
		m.Groups = append(m.Groups, &Group{
			Name: names[i], Number: numbers[i], Value: g.String(), Index: g.Index, Length: g.Length,
			Success: len(g.Captures) > 0,
		})
	}
	return m, nil
}

// All lists every match.
func (x *Regex) All(s string) ([]*Match, error) {
	var list []*Match
	m, err := x.Find(s)
	for ; m != nil && err == nil; m, err = m.Next() {
		list = append(list, m)
	}
	return list, err
}

// Split cuts the text at the matches; groups are kept as parts. limit 0 is no
// limit.
func (x *Regex) Split(s string, limit int) ([]string, error) {
	list, err := x.All(s)
	if err != nil {
		return nil, err
	}
	if limit > 0 && len(list) >= limit {
		list = list[:limit-1]
	}
	var parts []string
	text, last := []rune(s), 0
	for _, m := range list {
		parts = append(parts, string(text[last:m.match.Index]))
		for _, g := range m.Groups[1:] {
			if g.Success {
				parts = append(parts, g.Value)
			}
		}
		last = m.match.Index + m.match.Length
	}
	return append(parts, string(text[last:])), nil
}

// Replace substitutes up to n matches (-1: all); see Match.Result.
func (x *Regex) Replace(s, sub string, n int) (string, error) {
	return x.ReplaceFunc(s, n, func(m *Match) (string, error) { return m.Result(sub), nil })
}

// ReplaceFunc substitutes the result of f for up to n matches (-1: all).
func (x *Regex) ReplaceFunc(s string, n int, f func(*Match) (string, error)) (string, error) {
	list, err := x.All(s)
	if err != nil {
		return "", err
	}
	if n >= 0 && len(list) > n {
		list = list[:n]
	}
	var b strings.Builder
	text, last := []rune(s), 0
	for _, m := range list {
		t, err := f(m)
		if err != nil {
			return "", err
		}
		b.WriteString(string(text[last:m.match.Index]))
		b.WriteString(t)
		last = m.match.Index + m.match.Length
		if b.Len() > value.MaxItems {
			return "", value.ErrTooLarge
		}
	}
	b.WriteString(string(text[last:]))
	return b.String(), nil
}

// Result expands a substitution.
// Source: https://learn.microsoft.com/dotnet/standard/base-types/substitutions-in-regular-expressions, read 2026-11.
func (m *Match) Result(sub string) string {
	if len(m.Groups) == 0 {
		return ""
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(sub, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		text, length := m.reference(rest)
		b.WriteString(text)
		sub = rest[length:]
	}
}

// reference returns the text for a reference that begins after a $, and the
// reference's length. A $ without one stands for itself.
func (m *Match) reference(s string) (text string, length int) {
	if s == "" {
		return "$", 0
	}
	switch s[0] {
	case '$':
		return "$", 1
	case '&':
		return m.Text(), 1
	case '`':
		return string(m.text[:m.match.Index]), 1
	case '\'':
		return string(m.text[m.match.Index+m.match.Length:]), 1
	case '+':
		return m.Groups[len(m.Groups)-1].Value, 1
	case '_':
		return string(m.text), 1
	case '{':
		name, _, closed := strings.Cut(s[1:], "}")
		if g := m.Group(name); closed && g != nil {
			return g.Value, len(name) + 2
		}
	}
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	for n := digits; n > 0; n-- {
		if g := m.Group(s[:n]); g != nil {
			return g.Value, n
		}
	}
	return "$", 0
}

// Group returns a group by its name or number, or nil.
func (m *Match) Group(name string) *Group {
	number, err := strconv.Atoi(name)
	for _, g := range m.Groups {
		if g.Name == name || err == nil && g.Number == number {
			return g
		}
	}
	return nil
}
