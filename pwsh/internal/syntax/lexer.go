// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package syntax

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a token of expression mode.
type kind uint8

const (
	tEOF kind = iota
	tNewline
	tNumber
	tSingle // 'text' and @' '@, without expansion
	tDouble // "text" and @" "@
	tVar    // $name
	tSplat  // @name
	tWord   // a name: keyword, type name, property
	tOp     // -eq and its like, lower case
	tPunct  // everything else
)

// token is one token of expression mode.
type token struct {
	kind     kind
	from, to int
	text     string // lower case for tOp, as written for others
	spaced   bool   // blanks precede it
}

func (t token) is(p string) bool   { return t.kind == tPunct && t.text == p }
func (t token) word(w string) bool { return t.kind == tWord && strings.EqualFold(t.text, w) }

// puncts in the order in which they are tried: longer ones first.
var puncts = []string{
	"??=", "@(", "@{", "$(", "::", "..", "++", "--", "+=", "-=", "*=", "/=", "%=", "&&", "||", "??", "?.", "?[",
	"(", ")", "{", "}", "[", "]", ",", ".", ";", "|", "&", "=", "+", "-", "*", "/", "%", "!", "?", ":", ">",
	"<", "@", "$",
}

// operators are the dashed operators without their c and i variants.
// Source: about_Operators and about_Comparison_Operators.
var operators = map[string]bool{
	"-eq": true, "-ne": true, "-gt": true, "-ge": true, "-lt": true, "-le": true,
	"-like": true, "-notlike": true, "-match": true, "-notmatch": true,
	"-contains": true, "-notcontains": true, "-in": true, "-notin": true,
	"-replace": true, "-split": true, "-join": true, "-f": true,
	"-is": true, "-isnot": true, "-as": true,
	"-and": true, "-or": true, "-xor": true, "-not": true,
	"-band": true, "-bor": true, "-bxor": true, "-bnot": true, "-shl": true, "-shr": true,
}

// cased are the operators that have -c and -i variants.
var cased = map[string]bool{
	"-eq": true, "-ne": true, "-gt": true, "-ge": true, "-lt": true, "-le": true,
	"-like": true, "-notlike": true, "-match": true, "-notmatch": true,
	"-contains": true, "-notcontains": true, "-in": true, "-notin": true,
	"-replace": true, "-split": true,
}

// splitOp splits the c or i prefix off an operator.
func splitOp(op string) (name string, sensitive, ok bool) {
	if operators[op] {
		return op, false, true
	}
	if len(op) > 2 && (op[1] == 'c' || op[1] == 'i') {
		if base := "-" + op[2:]; cased[base] {
			return base, op[1] == 'c', true
		}
	}
	return op, false, false
}

func isNameStart(r rune) bool { return r == '_' || unicode.IsLetter(r) }
func isNameRune(r rune) bool  { return isNameStart(r) || unicode.IsDigit(r) }
func isBlank(c byte) bool     { return c == ' ' || c == '\t' || c == '\f' || c == '\v' || c == '\r' }
func isDigit(c byte) bool     { return c >= '0' && c <= '9' }

// isDash reports whether PowerShell treats r as a hyphen. With isSingleQuote and
// isDoubleQuote, text pasted from a web page still runs.
// Source: language specification, 2.3.5.2 and the grammar's dash rule.
func isDash(r rune) bool { return r == '-' || r == '–' || r == '—' || r == '―' }
func isSingleQuote(r rune) bool {
	return r == '\'' || r == '‘' || r == '’' || r == '‚' || r == '‛'
}
func isDoubleQuote(r rune) bool { return r == '"' || r == '“' || r == '”' || r == '„' }

func (p *parser) runeAt(i int) rune {
	if i >= len(p.src) {
		return 0
	}
	if c := p.src[i]; c < utf8.RuneSelf {
		return rune(c)
	}
	r, _ := utf8.DecodeRuneInString(p.src[i:])
	return r
}

func (p *parser) byteAt(i int) byte {
	if i >= len(p.src) {
		return 0
	}
	return p.src[i]
}

// blanks skips spaces, comments, escaped line ends and, if newlines is set, newlines.
func (p *parser) blanks(i int, newlines bool) int {
	for i < len(p.src) {
		switch c := p.src[i]; {
		case isBlank(c), newlines && c == '\n':
			i++
		case c == '`' && strings.HasPrefix(p.src[i:], "`\n"):
			i += 2
		case c == '`' && strings.HasPrefix(p.src[i:], "`\r\n"):
			i += 3
		case c == '#':
			for i < len(p.src) && p.src[i] != '\n' {
				i++
			}
		case c == '<' && strings.HasPrefix(p.src[i:], "<#"):
			j := strings.Index(p.src[i+2:], "#>")
			if j < 0 {
				p.failAt(i, i+2, "MissingTerminatorMultiLineComment",
					"The terminator '#>' is missing from the multiline comment.", true)
			}
			i += 2 + j + 2
		case c == 0xc2 && strings.HasPrefix(p.src[i:], "\u00a0"): // no-break space
			i += 2
		case c == 0xef && strings.HasPrefix(p.src[i:], "\ufeff"): // byte order mark
			i += 3
		default:
			return i
		}
	}
	return i
}

// peek returns the next token of expression mode.
func (p *parser) peek() token {
	if p.cached && p.cachePos == p.pos {
		return p.cache
	}
	t := p.lex(p.pos)
	p.cache, p.cachePos, p.cached = t, p.pos, true
	return t
}

// peekLine is peek with newlines skipped first.
func (p *parser) peekLine() token {
	p.pos = p.blanks(p.pos, true)
	return p.peek()
}

func (p *parser) next() token {
	t := p.peek()
	p.pos = t.to
	return t
}

func (p *parser) lex(at int) token {
	i := p.blanks(at, false)
	t := token{from: i, to: i, spaced: i > at || at == 0}
	if i >= len(p.src) {
		return t
	}
	c, r := p.src[i], p.runeAt(i)
	switch {
	case c == '\n':
		t.kind, t.to, t.text = tNewline, i+1, "\n"
	case isDigit(c) || c == '.' && isDigit(p.byteAt(i+1)):
		t.to = p.numberEnd(i)
		t.kind = tNumber
	case isSingleQuote(r), isDoubleQuote(r):
		t.kind = tSingle
		if isDoubleQuote(r) {
			t.kind = tDouble
		}
	case c == '@' && (isSingleQuote(p.runeAt(i+1)) || isDoubleQuote(p.runeAt(i+1))):
		t.kind = tSingle
		if isDoubleQuote(p.runeAt(i + 1)) {
			t.kind = tDouble
		}
	case c == '$':
		if end := p.variableEnd(i); end > i {
			t.kind, t.to = tVar, end
			break
		}
		p.lexPunct(&t)
	case c == '@' && isNameStart(p.runeAt(i+1)):
		t.kind, t.to = tSplat, p.nameEnd(i+1)
	case isDash(r):
		p.lexDash(&t, utf8.RuneLen(r))
	case isNameStart(r):
		t.kind, t.to = tWord, p.nameEnd(i)
	default:
		p.lexPunct(&t)
	}
	if t.text == "" {
		t.text = p.src[t.from:t.to]
	}
	return t
}

func (p *parser) lexDash(t *token, width int) {
	i := t.from
	if j := i + width; isNameStart(p.runeAt(j)) {
		end := p.nameEnd(j)
		if name := "-" + strings.ToLower(p.src[j:end]); validOp(name) {
			t.kind, t.to, t.text = tOp, end, name
			return
		}
	}
	t.kind, t.to, t.text = tPunct, i+width, "-"
	switch r := p.runeAt(t.to); {
	case isDash(r):
		t.to, t.text = t.to+utf8.RuneLen(r), "--"
	case r == '=':
		t.to, t.text = t.to+1, "-="
	}
}

func validOp(name string) bool {
	_, _, ok := splitOp(name)
	return ok
}

func (p *parser) lexPunct(t *token) {
	rest := p.src[t.from:]
	for _, s := range puncts {
		if strings.HasPrefix(rest, s) {
			if (s == "?." || s == "?[") && p.edition != Core {
				continue
			}
			t.kind, t.to, t.text = tPunct, t.from+len(s), s
			return
		}
	}
	_, n := utf8.DecodeRuneInString(rest)
	t.kind, t.to = tPunct, t.from+n
}

func (p *parser) nameEnd(i int) int {
	for i < len(p.src) {
		r := p.runeAt(i)
		if !isNameRune(r) {
			break
		}
		i += max(utf8.RuneLen(r), 1)
	}
	return i
}

// variableEnd returns the end of the variable at i, which holds a $; it is i when
// no variable stands there.
func (p *parser) variableEnd(i int) int {
	switch c := p.byteAt(i + 1); {
	case c == '{':
		for j := i + 2; j < len(p.src); j++ {
			switch p.src[j] {
			case '`':
				j++
			case '}':
				return j + 1
			}
		}
		p.failAt(i, i+2, "IncompleteDollarVariableReference",
			"${variable} reference starting is missing the closing '}'.", true)
	case c == '$', c == '^':
		return i + 2
	case c == '?':
		return i + 2
	case isNameRune(p.runeAt(i + 1)):
		j := p.nameEnd(i + 1)
		// One scope or drive: $env:PATH. A :: belongs to a static member.
		if p.byteAt(j) == ':' && p.byteAt(j+1) != ':' && isNameRune(p.runeAt(j+1)) {
			return p.nameEnd(j + 1)
		}
		return j
	}
	return i
}

// variable returns the node of a tVar or tSplat token.
func (p *parser) variable(from, to int) *Variable {
	text := p.src[from+1 : to]
	if strings.HasPrefix(text, "{") {
		text = unescapeName(text[1 : len(text)-1])
	}
	v := &Variable{Span: span(from, to), Name: text, Splat: p.src[from] == '@'}
	if i := strings.IndexByte(text, ':'); i > 0 && i+1 < len(text) {
		v.Scope, v.Name = strings.ToLower(text[:i]), text[i+1:]
	}
	v.Lower = strings.ToLower(v.Name)
	return v
}

func unescapeName(s string) string {
	if !strings.Contains(s, "`") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '`' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// numberEnd returns the end of the numeric literal at i.
func (p *parser) numberEnd(i int) int {
	j := i
	if p.src[i] == '0' && (p.byteAt(i+1)|0x20) == 'x' {
		j = i + 2
		for j < len(p.src) && strings.IndexByte("0123456789abcdefABCDEF", p.src[j]) >= 0 {
			j++
		}
	} else {
		for isDigit(p.byteAt(j)) {
			j++
		}
		if p.byteAt(j) == '.' && p.byteAt(j+1) != '.' && !isNameStart(p.runeAt(j+1)) {
			j++
			for isDigit(p.byteAt(j)) {
				j++
			}
		}
		if p.byteAt(j)|0x20 == 'e' {
			k := j + 1
			if c := p.byteAt(k); c == '+' || c == '-' {
				k++
			}
			if isDigit(p.byteAt(k)) {
				for isDigit(p.byteAt(k)) {
					k++
				}
				j = k
			}
		}
	}
	for isNameStart(p.runeAt(j)) && p.src[j] < utf8.RuneSelf && j < i+64 {
		k := j + 1
		if _, ok := parseNumber(p.src[i:k]); !ok {
			if k+1 <= len(p.src) {
				if _, ok := parseNumber(p.src[i : k+1]); ok {
					j = k + 1
					continue
				}
			}
			break
		}
		j = k
	}
	return j
}

// multipliers of numeric literals. Source: about_Numeric_Literals.
var multipliers = []struct {
	suffix string
	by     int64
}{{"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30}, {"tb", 1 << 40}, {"pb", 1 << 50}}

// parseNumber reads a numeric literal, with an optional sign: int32 if it
// fits, then int64, then float64, as PowerShell chooses. The suffix l selects
// int64. The suffix d (decimal) gives float64: there is no decimal type here.
func parseNumber(s string) (any, bool) {
	text := strings.ToLower(s)
	by := int64(1)
	for _, m := range multipliers {
		if t, ok := strings.CutSuffix(text, m.suffix); ok {
			text, by = t, m.by
			break
		}
	}
	neg := false
	if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
		neg, text = text[0] == '-', text[1:]
	}
	if hex, ok := strings.CutPrefix(text, "0x"); ok {
		return parseHex(hex, by, neg)
	}
	long := false
	decimal := false
	if t, ok := strings.CutSuffix(text, "l"); ok {
		text, long = t, true
	} else if t, ok := strings.CutSuffix(text, "d"); ok {
		text, decimal = t, true
	}
	if text == "" || !isDigit(text[0]) && (text[0] != '.' || len(text) < 2 || !isDigit(text[1])) {
		return nil, false
	}
	if strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789.e+-", r) }) >= 0 {
		return nil, false
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && !decimal {
		if hi := math.MaxInt64 / by; n <= hi {
			n *= by
			if neg {
				n = -n
			}
			if !long && n >= math.MinInt32 && n <= math.MaxInt32 {
				return int32(n), true
			}
			return n, true
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil, false
	}
	f *= float64(by)
	if neg {
		f = -f
	}
	if long {
		if f != math.Trunc(f) || math.Abs(f) >= math.MaxInt64 {
			return nil, false
		}
		return int64(f), true
	}
	return f, true
}

// parseHex follows 5.1: eight digits are an int32 with its sign bit, sixteen
// an int64.
func parseHex(hex string, by int64, neg bool) (any, bool) {
	long := strings.HasSuffix(hex, "l")
	hex = strings.TrimSuffix(hex, "l")
	u, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		return nil, false
	}
	n := int64(u)
	if len(hex) <= 8 && u > math.MaxInt32 && !long {
		n = int64(int32(u))
	}
	n *= by
	if neg {
		n = -n
	}
	if !long && n >= math.MinInt32 && n <= math.MaxInt32 {
		return int32(n), true
	}
	return n, true
}
