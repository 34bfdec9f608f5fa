// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package syntax

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// quoted reads the string or here-string at i, which holds its first
// character.
func (p *parser) quoted(i int) Expr {
	if p.src[i] == '@' {
		return p.hereString(i)
	}
	r := p.runeAt(i)
	if isDoubleQuote(r) {
		return p.doubleQuoted(i)
	}
	var b strings.Builder
	j := i + utf8.RuneLen(r)
	for j < len(p.src) {
		r := p.runeAt(j)
		n := max(utf8.RuneLen(r), 1)
		if isSingleQuote(r) {
			next := p.runeAt(j + n)
			if !isSingleQuote(next) {
				p.pos = j + n
				return &String{Span: span(i, p.pos), Value: b.String()}
			}
			b.WriteRune(r)
			j += n + utf8.RuneLen(next) // the two may be different quotes
			continue
		}
		b.WriteString(p.src[j : j+n])
		j += n
	}
	p.failAt(i, i+1, "TerminatorExpectedAtEndOfString", "The string is missing the terminator: '.", true)
	return nil
}

// builder collects the parts of an expandable string.
type builder struct {
	p     *parser
	parts []Expr
	text  strings.Builder
	from  int // where text began
}

func (b *builder) flush(to int) {
	if b.text.Len() > 0 {
		b.parts = append(b.parts, &String{Span: span(b.from, to), Value: b.text.String()})
		b.text.Reset()
	}
	b.from = to
}

// dollar reads an expansion at i, which holds a $, and returns where it ends;
// it is i if there is no expansion.
func (b *builder) dollar(i int, inString bool) int {
	p := b.p
	if p.byteAt(i+1) == '(' {
		b.flush(i)
		p.pos = i
		var x Expr
		p.withCommas(func() { x = p.bracketed(p.peek()) })
		b.parts = append(b.parts, x)
		b.from = p.pos
		return p.pos
	}
	end := p.variableEnd(i)
	if end == i {
		return i
	}
	if inString && p.byteAt(end) == ':' && p.byteAt(end+1) != ':' && p.src[i+1] != '{' && isNameRune(p.runeAt(i+1)) &&
		!strings.Contains(p.src[i:end], ":") {
		p.failAt(i, end+1, "InvalidVariableReferenceWithDrive",
			"Variable reference is not valid. ':' was not followed by a valid variable name character. Consider "+
				"using ${} to delimit the name.", false)
	}
	b.flush(i)
	b.parts = append(b.parts, p.variable(i, end))
	b.from = end
	return end
}

// merge joins texts that touch: quoted parts of a word leave them apart.
func (b *builder) merge() {
	var out []Expr
	for _, x := range b.parts {
		s, ok := x.(*String)
		if n := len(out); ok && n > 0 {
			if last, ok := out[n-1].(*String); ok {
				out[n-1] = &String{Span: Span{last.From, s.To}, Value: last.Value + s.Value}
				continue
			}
		}
		out = append(out, x)
	}
	b.parts = out
}

func (b *builder) finish(from, to int, bare bool) Expr {
	b.flush(to)
	b.merge()
	if len(b.parts) == 0 {
		return &String{Span: span(from, to), Bare: bare}
	}
	if s, ok := b.parts[0].(*String); ok && len(b.parts) == 1 {
		return &String{Span: span(from, to), Value: s.Value, Bare: bare}
	}
	return &Expand{Span: span(from, to), Parts: b.parts, Bare: bare}
}

func (p *parser) doubleQuoted(i int) Expr {
	p.enter()
	defer p.leave()
	j := i + utf8.RuneLen(p.runeAt(i))
	b := builder{p: p, from: j}
	for j < len(p.src) {
		c := p.src[j]
		r := p.runeAt(j)
		n := max(utf8.RuneLen(r), 1)
		switch {
		case isDoubleQuote(r):
			next := p.runeAt(j + n)
			if !isDoubleQuote(next) {
				x := b.finish(i, j+n, false)
				setSpan(x, i, j+n)
				p.pos = j + n
				return x
			}
			b.text.WriteString(p.src[j : j+n])
			j += n + utf8.RuneLen(next) // the two may be different quotes
		case c == '`':
			j = p.escape(j, &b.text)
		case c == '$':
			if end := b.dollar(j, true); end > j {
				j = end
				continue
			}
			b.text.WriteByte(c)
			j++
		default:
			b.text.WriteString(p.src[j : j+n])
			j += n
		}
	}
	p.failAt(i, i+1, "TerminatorExpectedAtEndOfString", "The string is missing the terminator: \".", true)
	return nil
}

func setSpan(x Expr, from, to int) {
	switch x := x.(type) {
	case *String:
		x.Span = span(from, to)
	case *Expand:
		x.Span = span(from, to)
	}
}

// escape reads a backtick escape at i. Source: about_Special_Characters.
func (p *parser) escape(i int, b *strings.Builder) int {
	if i+1 >= len(p.src) {
		return i + 1
	}
	switch c := p.src[i+1]; c {
	case '0':
		b.WriteByte(0)
	case 'a':
		b.WriteByte(7)
	case 'b':
		b.WriteByte(8)
	case 'f':
		b.WriteByte(12)
	case 'n':
		b.WriteByte(10)
	case 'r':
		b.WriteByte(13)
	case 't':
		b.WriteByte(9)
	case 'v':
		b.WriteByte(11)
	case 'e':
		if p.edition == Core {
			b.WriteByte(27)
		} else {
			b.WriteByte('e')
		}
	case 'u':
		if p.edition == Core && p.byteAt(i+2) == '{' {
			if j := strings.IndexByte(p.src[i:], '}'); j > 0 && j <= 9 {
				if n, err := strconv.ParseUint(p.src[i+3:i+j], 16, 32); err == nil && n <= utf8.MaxRune {
					b.WriteRune(rune(n))
					return i + j + 1
				}
			}
			p.failAt(i, i+3, "InvalidUnicodeEscapeSequence",
				"The Unicode escape sequence is not valid. A valid sequence is `u{ followed by one to six hex digits "+
					"and a closing '}'.", false)
		}
		b.WriteByte('u')
	default:
		r := p.runeAt(i + 1)
		n := max(utf8.RuneLen(r), 1)
		b.WriteString(p.src[i+1 : min(i+1+n, len(p.src))])
		return i + 1 + n
	}
	return i + 2
}

// hereString reads @' … '@ or @" … "@: the header ends its line, the footer
// begins one.
func (p *parser) hereString(i int) Expr {
	p.enter()
	defer p.leave()
	quote := p.runeAt(i + 1)
	double := isDoubleQuote(quote)
	j := i + 1 + utf8.RuneLen(quote)
	for j < len(p.src) && isBlank(p.src[j]) {
		j++
	}
	if p.byteAt(j) != '\n' {
		p.failAt(i, j, "UnexpectedCharactersAfterHereStringHeader",
			"No characters are allowed after a here-string header but before the end of the line.", j >= len(p.src))
	}
	start := j + 1
	b := builder{p: p, from: start}
	atLine := true
	for j = start; j < len(p.src); {
		r := p.runeAt(j)
		n := max(utf8.RuneLen(r), 1)
		if atLine && (double && isDoubleQuote(r) || !double && isSingleQuote(r)) && p.byteAt(j+n) == '@' {
			text := b.text.String()
			if t, ok := strings.CutSuffix(text, "\r\n"); ok {
				text = t
			} else {
				text = strings.TrimSuffix(text, "\n")
			}
			b.text.Reset()
			b.text.WriteString(text)
			end := j + n + 1
			x := b.finish(i, end, false)
			setSpan(x, i, end)
			p.pos = end
			return x
		}
		atLine = p.src[j] == '\n'
		switch {
		case double && r == '`':
			j = p.escape(j, &b.text)
			continue
		case double && r == '$':
			if end := b.dollar(j, true); end > j {
				j = end
				continue
			}
		}
		b.text.WriteString(p.src[j : j+n])
		j += n
	}
	p.failAt(i, i+2, "TerminatorExpectedAtEndOfString", "The string is missing the terminator: "+string(quote)+"@.",
		true)
	return nil
}
