// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// Regex is System.Text.RegularExpressions.Regex over Go's regexp package.
//
// Fidelity: subset - look-around and back-references are refused with an error
// that says so; what both dialects know matches alike, since Go's leftmost
// match prefers alternatives in their order, as .NET does (docs/fidelity/pwsh.md).
type Regex struct {
	Pattern string
	Options string
	re      *regexp.Regexp
}

// TypeName returns the .NET name.
func (*Regex) TypeName() string { return "System.Text.RegularExpressions.Regex" }

// Text returns the pattern.
func (x *Regex) Text() string { return x.Pattern }

// Group is a group of a match.
type Group struct {
	Name    string
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
	Groups   []*Group // the first is the whole match
	re       *Regex
	text     string
	from, to int
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

// Next returns the match behind this one, or nil.
func (m *Match) Next() *Match {
	at := m.to
	if m.from == m.to {
		at++
	}
	if at > len(m.text) {
		return nil
	}
	return m.re.Find(m.text, at)
}

// Regex compiles a pattern.
func (r *Runner) Regex(pattern string, ignoreCase bool) (*Regex, error) {
	opts := ""
	if ignoreCase {
		opts = "i"
	}
	return NewRegex(pattern, opts)
}

// NewRegex compiles a pattern with options of the letters i, m, s and x.
func NewRegex(pattern, opts string) (*Regex, error) {
	text, err := translate(pattern)
	if err != nil {
		return nil, err
	}
	if strings.Contains(opts, "x") {
		return nil, NotImplemented("the regular expression option IgnorePatternWhitespace")
	}
	flags := opts
	if flags != "" {
		text = "(?" + flags + ")" + text
	}
	re, err := regexp.Compile(text)
	if err != nil {
		for _, part := range []struct{ mark, name string }{
			{"(?=", "look-ahead"}, {"(?!", "look-ahead"}, {"(?<=", "look-behind"}, {"(?<!", "look-behind"},
			{"(?>", "an atomic group"}, {"(?(", "a conditional group"},
		} {
			if strings.Contains(pattern, part.mark) {
				return nil, NotImplemented("the regular expression '" + pattern + "' (" + part.name + ")")
			}
		}
		for d := '1'; d <= '9'; d++ {
			if strings.Contains(pattern, `\`+string(d)) || strings.Contains(pattern, `\k<`) {
				return nil, NotImplemented("the regular expression '" + pattern + "' (a back-reference)")
			}
		}
		return nil, Failf("System.ArgumentException", "InvalidRegularExpression", "InvalidOperation", pattern,
			"The regular expression pattern %s is not valid.", pattern)
	}
	return &Regex{Pattern: pattern, Options: opts, re: re}, nil
}

// translate rewrites what .NET spells or means differently: \Z, \e and (?'n');
// \w and \d, which are Unicode's there; and characters that Go does not let a
// pattern escape.
// Source: https://learn.microsoft.com/dotnet/standard/base-types/character-classes-in-regular-expressions, read
// 2026-11.
func translate(p string) (string, error) {
	if !strings.ContainsAny(p, `\'$[`) {
		return p, nil
	}
	var b strings.Builder
	inClass := false
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '\\' && i+1 < len(p):
			i++
			switch p[i] {
			case 'Z':
				b.WriteString(`(?:\n?\z)`)
			case 'e':
				b.WriteString(`\x1b`)
			case 'd':
				b.WriteString(`\p{Nd}`)
			case 'D':
				b.WriteString(`\P{Nd}`)
			case 'w':
				if inClass {
					b.WriteString(wordClass)
				} else {
					b.WriteString("[" + wordClass + "]")
				}
			case 'W':
				if inClass {
					b.WriteString(`\W`) // Go has no class within a class: letters beyond ASCII count as others
				} else {
					b.WriteString("[^" + wordClass + "]")
				}
			case '/', '"', '\'', ' ', '#', ':', '=', ',', ';', '@', '%', '&', '~', '`', '<', '>', '!', '_':
				b.WriteString(regexp.QuoteMeta(string(p[i])))
			default:
				b.WriteByte('\\')
				b.WriteByte(p[i])
			}
		case c == '[' && inClass && p[i-1] == '-':
			return "", NotImplemented("the regular expression '" + p + "' (subtraction of a character class)")
		case c == '[':
			inClass = true
			b.WriteByte(c)
		case c == ']':
			inClass = false
			b.WriteByte(c)
		case c == '$' && !inClass:
			b.WriteString(`(?:$)`)
		case strings.HasPrefix(p[i:], "(?'"):
			if j := strings.IndexByte(p[i+3:], '\''); j > 0 {
				b.WriteString("(?P<" + p[i+3:i+3+j] + ">")
				i += 3 + j
				continue
			}
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// wordClass is the meaning of \w within a class.
const wordClass = `\p{L}\p{Mn}\p{Nd}\p{Pc}`

// QuoteRegex escapes a literal.
func QuoteRegex(s string) string { return regexp.QuoteMeta(s) }

// MatchString reports whether the text has a match.
func (x *Regex) MatchString(s string) bool { return x.re.MatchString(s) }

// Find returns the first match at or behind a byte offset, or nil.
func (x *Regex) Find(s string, from int) *Match {
	if from > len(s) {
		return nil
	}
	var loc []int
	if from == 0 {
		loc = x.re.FindStringSubmatchIndex(s)
	} else { // a fresh start would see ^ at the offset
		for _, l := range x.re.FindAllStringSubmatchIndex(s, -1) {
			if l[0] >= from {
				loc = l
				break
			}
		}
	}
	if loc == nil {
		return nil
	}
	return x.makeMatch(s, loc)
}

func (x *Regex) makeMatch(s string, loc []int) *Match {
	m := &Match{re: x, text: s, from: loc[0], to: loc[1]}
	names := x.re.SubexpNames()
	// .NET numbers the groups with a name behind all others.
	for _, named := range []bool{false, true} {
		for i, name := range names {
			if (name != "") != named {
				continue
			}
			g := &Group{Name: name, Number: len(m.Groups)}
			if a, b := loc[2*i], loc[2*i+1]; a >= 0 {
				g.Success, g.Value = true, s[a:b]
				g.Index, g.Length = len([]rune(s[:a])), len([]rune(s[a:b]))
			}
			m.Groups = append(m.Groups, g)
		}
	}
	return m
}

// All lists every match.
func (x *Regex) All(s string) []*Match {
	var list []*Match
	for _, loc := range x.re.FindAllStringSubmatchIndex(s, -1) {
		list = append(list, x.makeMatch(s, loc))
	}
	return list
}

// Split cuts the text at the matches; groups are kept as parts. limit 0 is no
// limit.
func (x *Regex) Split(s string, limit int) []string {
	var parts []string
	last := 0
	for _, m := range x.All(s) {
		if limit > 0 && len(parts)+1 >= limit {
			break
		}
		if m.from == m.to && (m.from == 0 && len(x.Pattern) == 0 || m.from == len(s) && len(x.Pattern) == 0) {
			parts = append(parts, s[last:m.from])
			last = m.to
			continue
		}
		parts = append(parts, s[last:m.from])
		for _, g := range m.Groups[1:] {
			if g.Success {
				parts = append(parts, g.Value)
			}
		}
		last = m.to
	}
	return append(parts, s[last:])
}

// Replace substitutes up to n matches (-1: all); $1, ${name}, $&, $$ are .NET's.
func (x *Regex) Replace(s, sub string, n int) string {
	out, _ := x.replaceN(s, n, func(m *Match) (string, error) { return m.Result(sub), nil })
	return out
}

// ReplaceFunc substitutes what f gives.
func (x *Regex) ReplaceFunc(s string, f func(*Match) (string, error)) (string, error) {
	return x.replaceN(s, -1, f)
}

func (x *Regex) replaceN(s string, n int, f func(*Match) (string, error)) (string, error) {
	var b strings.Builder
	last := 0
	for i, m := range x.All(s) {
		if n >= 0 && i >= n {
			break
		}
		t, err := f(m)
		if err != nil {
			return "", err
		}
		b.WriteString(s[last:m.from])
		b.WriteString(t)
		last = m.to
		if b.Len() > value.MaxItems {
			return "", value.ErrTooLarge
		}
	}
	b.WriteString(s[last:])
	return b.String(), nil
}

// Result expands a substitution.
// Source: https://learn.microsoft.com/dotnet/standard/base-types/substitutions-in-regular-expressions, read 2026-11.
func (m *Match) Result(sub string) string {
	if !strings.Contains(sub, "$") {
		return sub
	}
	var b strings.Builder
	for i := 0; i < len(sub); i++ {
		if sub[i] != '$' || i+1 >= len(sub) {
			b.WriteByte(sub[i])
			continue
		}
		switch c := sub[i+1]; {
		case c == '$':
			b.WriteByte('$')
			i++
		case c == '&':
			b.WriteString(m.text[m.from:m.to])
			i++
		case c == '`':
			b.WriteString(m.text[:m.from])
			i++
		case c == '\'':
			b.WriteString(m.text[m.to:])
			i++
		case c == '_':
			b.WriteString(m.text)
			i++
		case c == '{':
			j := strings.IndexByte(sub[i:], '}')
			if j < 0 {
				b.WriteByte('$')
				continue
			}
			if g := m.Group(sub[i+2 : i+j]); g != nil {
				b.WriteString(g.Value)
				i += j
				continue
			}
			b.WriteByte('$')
		case c >= '0' && c <= '9':
			j := i + 1
			for j < len(sub) && j < i+3 && sub[j] >= '0' && sub[j] <= '9' {
				j++
			}
			found := false
			for ; j > i+1 && !found; j-- {
				if g := m.Group(sub[i+1 : j]); g != nil {
					b.WriteString(g.Value)
					i, found = j-1, true
				}
			}
			if !found {
				b.WriteByte('$')
			}
		default:
			b.WriteByte('$')
		}
	}
	return b.String()
}

// Group returns a group by its name or number, or nil.
func (m *Match) Group(name string) *Group {
	if n, err := strconv.Atoi(name); err == nil {
		if n >= 0 && n < len(m.Groups) {
			return m.Groups[n]
		}
		return nil
	}
	for _, g := range m.Groups {
		if g.Name == name {
			return g
		}
	}
	return nil
}
