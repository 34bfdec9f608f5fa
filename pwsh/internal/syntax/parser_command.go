// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package syntax

import (
	"strings"
	"unicode/utf8"
)

// element reads one element of a pipeline: an expression or a command.
func (p *parser) element() PipelineElement {
	t := p.peek()
	if t.is("&") && p.byteAt(t.to) != '&' {
		p.next()
		return p.command("&", t.from)
	}
	if t.is(".") && (p.blankAt(t.to) || strings.IndexByte("$('\"{;|)}", p.byteAt(t.to)) >= 0) {
		p.next()
		return p.command(".", t.from)
	}
	if p.startsExpr(t) {
		x := p.expr()
		ce := &CommandExpr{X: x}
		for {
			r := p.redirect()
			if r == nil {
				break
			}
			ce.Redirect = append(ce.Redirect, r)
		}
		ce.Span = Span{x.Pos(), Pos(p.pos)}
		return ce
	}
	switch {
	case t.kind == tEOF, t.kind == tNewline, t.is("|"):
		p.fail(t, "EmptyPipeElement", "An empty pipe element is not allowed.")
	case t.is(")"), t.is("}"), t.is(";"), t.is("="), t.is("]"), t.is("&&"), t.is("||"):
		p.unexpected(t)
	}
	return p.command("", t.from)
}

func (p *parser) startsExpr(t token) bool {
	switch t.kind {
	case tNumber:
		r := p.runeAt(t.to)
		return !isNameRune(r) && r != '\\'
	case tSingle, tDouble, tVar, tSplat:
		return true
	case tOp:
		op, _, _ := splitOp(t.text)
		return op == "-not" || op == "-bnot" || op == "-split" || op == "-join"
	case tPunct:
		switch t.text {
		case "(", "@(", "@{", "$(", "{", "[", "!", "++", "--", "+", "-", ",":
			return true
		}
	}
	return false
}

// wordEnd reports whether a character ends a bare word of a command.
func wordEnd(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', '\f', '\v', ';', '|', '&', '(', ')', '{', '}', ',', '<', '>':
		return true
	}
	return false
}

func (p *parser) command(invoke string, from int) *Command {
	p.enter()
	defer p.leave()
	c := &Command{Invoke: invoke}
	p.pos = p.blanks(p.pos, false)
	if invoke == "" {
		c.Name = p.word()
	} else {
		if p.pos >= len(p.src) || strings.IndexByte(";|)}\n", p.src[p.pos]) >= 0 {
			p.failAt(from, p.pos, "MissingExpression", "Missing expression after '"+invoke+"' in pipeline element.",
				p.pos >= len(p.src))
		}
		c.Name = p.argPrimary()
	}
	for p.commandPart(c) {
	}
	c.Span = span(from, int(lastEnd(c)))
	return c
}

func lastEnd(c *Command) Pos {
	end := c.Name.End()
	if n := len(c.Args); n > 0 {
		end = max(end, c.Args[n-1].To)
	}
	if n := len(c.Redirect); n > 0 {
		end = max(end, c.Redirect[n-1].To)
	}
	return end
}

// commandPart reads one argument or redirection; it is false at the end.
func (p *parser) commandPart(c *Command) bool {
	i := p.blanks(p.pos, false)
	if i >= len(p.src) {
		p.pos = i
		return false
	}
	if r := p.redirect(); r != nil {
		c.Redirect = append(c.Redirect, r)
		return true
	}
	switch p.src[i] {
	case '\n', ';', '|', ')', '}':
		return false
	case '&':
		if p.byteAt(i+1) == '&' && p.edition != Core {
			p.failAt(i, i+2, "InvalidEndOfLine", "The token '&&' is not a valid statement separator in this version.",
				false)
		}
		return false
	case ',':
		p.failAt(i, i+1, "MissingArgument", "Missing argument in parameter list.", false)
	case '<':
		p.failAt(i, i+1, "RedirectionNotSupported", "The '<' operator is reserved for future use.", false)
	}
	p.pos = i
	r := p.runeAt(i)
	if strings.HasPrefix(p.src[i:], "--%") && p.blankAt(i+3) {
		p.verbatim(c, i)
		return true
	}
	if isDash(r) {
		next := p.runeAt(i + utf8.RuneLen(r))
		if isNameStart(next) || next == '?' {
			if a, ok := p.parameter(i + utf8.RuneLen(r)); ok {
				a.From = Pos(i)
				c.Args = append(c.Args, a)
				return true
			}
		}
	}
	x := p.argument()
	c.Args = append(c.Args, Arg{Span: Span{x.Pos(), x.End()}, Value: x})
	return true
}

// verbatim reads the rest of the line after --%, which goes to the command as
// it is: one argument that holds a command line.
func (p *parser) verbatim(c *Command, i int) {
	rest := p.src[i+3:]
	if j := strings.IndexAny(rest, "|\n"); j >= 0 {
		rest = rest[:j]
	}
	p.pos = i + 3 + len(rest)
	c.Args = append(c.Args, Arg{Span: span(i, i+3), Value: &String{Span: span(i, i+3), Value: "--%", Bare: true}})
	if rest = strings.TrimSpace(rest); rest != "" {
		c.Args = append(c.Args, Arg{Span: span(i, p.pos), Value: &String{Span: span(i, p.pos), Value: rest}})
	}
}

// parameter reads `Name`, `Name:` or `Name:value` after the dash.
func (p *parser) parameter(i int) (Arg, bool) {
	j := i
	for j < len(p.src) {
		c := p.src[j]
		if wordEnd(c) || c == '.' || c == '[' || c == ':' {
			break
		}
		if c == '"' || c == '\'' || c == '$' || c == '`' {
			return Arg{}, false // then it is a bare word
		}
		j++
	}
	a := Arg{Span: span(i, j), Param: p.src[i:j]}
	p.pos = j
	if p.byteAt(j) != ':' {
		return a, true
	}
	p.pos = p.blanks(j+1, false)
	a.HasColon = true
	if p.pos >= len(p.src) || strings.IndexByte("\n;|)}", p.src[p.pos]) >= 0 {
		p.failAt(i, j+1, "ParameterRequiresArgument", "Parameter -"+a.Param+": requires an argument.",
			p.pos >= len(p.src))
	}
	a.Value = p.argument()
	a.To = Pos(p.pos)
	return a, true
}

// argument reads an argument, with the array that commas make of it.
func (p *parser) argument() Expr {
	p.enter()
	defer p.leave()
	x := p.argPrimary()
	if p.noComma {
		return x
	}
	list := &ArrayLit{Elems: []Expr{x}}
	for {
		i := p.blanks(p.pos, false)
		if p.byteAt(i) != ',' {
			break
		}
		p.pos = p.blanks(i+1, true)
		if p.pos >= len(p.src) || strings.IndexByte(";|)},", p.src[p.pos]) >= 0 {
			p.failAt(i, i+1, "MissingExpressionAfterToken", "Missing expression after ','.", p.pos >= len(p.src))
		}
		list.Elems = append(list.Elems, p.argPrimary())
	}
	if len(list.Elems) == 1 {
		return x
	}
	list.Span = Span{x.Pos(), Pos(p.pos)}
	return list
}

// argPrimary reads one value of command mode at the parser's offset.
func (p *parser) argPrimary() Expr {
	i := p.blanks(p.pos, false)
	p.pos = i
	c, r := p.byteAt(i), p.runeAt(i)
	switch {
	case c == '$' && p.byteAt(i+1) != '(':
		end := p.variableEnd(i)
		if end == i {
			return p.word()
		}
		next := p.byteAt(end)
		switch {
		case end >= len(p.src), wordEnd(next):
			p.pos = end
			return p.variable(i, end)
		case next == '.' && p.memberFollows(end+1) && !isBlank(p.byteAt(end+1)), next == '[', next == ':' &&
			p.byteAt(end+1) == ':':
			p.pos = end
			return p.postfixArg(p.variable(i, end))
		}
		return p.word()
	case c == '@' && isNameStart(p.runeAt(i+1)):
		p.pos = p.nameEnd(i + 1)
		return p.variable(i, p.pos)
	case c == '(', c == '{', c == '$', c == '@' && (p.byteAt(i+1) == '(' || p.byteAt(i+1) == '{'):
		return p.postfixArg(p.bracketed(p.peek()))
	case isSingleQuote(r), isDoubleQuote(r), c == '@' && (isSingleQuote(p.runeAt(i+1)) || isDoubleQuote(p.runeAt(i+1))):
		return p.postfixArg(p.quoted(i))
	}
	x := p.word()
	if s, ok := x.(*String); ok && s.Bare && p.src[s.From:s.To] == s.Value {
		if v, ok := parseNumber(s.Value); ok && s.Value[0] != '+' {
			return &Number{Span: s.Span, Text: s.Value, Value: v}
		}
	}
	return x
}

// postfixArg reads members and indexes that touch an argument.
func (p *parser) postfixArg(x Expr) Expr {
	if c := p.byteAt(p.pos); c == '.' || c == '[' || c == ':' || c == '?' {
		y := p.postfix(x)
		if u, ok := y.(*Unary); ok && u.Postfix { // `$x.y ++` is two arguments
			p.pos = int(u.X.End())
			return u.X
		}
		return y
	}
	return x
}

// word reads a bare word, with the quotes and expansions in it.
func (p *parser) word() Expr {
	i := p.pos
	b := builder{p: p, from: i}
	j := i
	for j < len(p.src) {
		c := p.src[j]
		r := p.runeAt(j)
		n := max(utf8.RuneLen(r), 1)
		switch {
		case wordEnd(c):
			goto done
		case c == '`':
			if k := j + 1; k >= len(p.src) || p.src[k] == '\n' || p.src[k] == '\r' {
				goto done
			}
			j = p.escape(j, &b.text)
		case c == '$':
			if end := b.dollar(j, false); end > j {
				j = end
				continue
			}
			b.text.WriteByte(c)
			j++
		case isSingleQuote(r), isDoubleQuote(r):
			switch x := p.quoted(j).(type) {
			case *String:
				b.text.WriteString(x.Value)
			case *Expand:
				b.flush(j)
				b.parts = append(b.parts, x.Parts...)
			}
			j = p.pos
		default:
			b.text.WriteString(p.src[j : j+n])
			j += n
		}
	}
done:
	if j == i {
		p.pos = i
		p.unexpected(p.lex(i))
	}
	x := b.finish(i, j, true)
	setSpan(x, i, j)
	p.pos = j
	return x
}

// redirect reads a redirection if one is next. Source: about_Redirection.
func (p *parser) redirect() *Redirect {
	i := p.blanks(p.pos, false)
	j := i
	r := &Redirect{Stream: 1}
	switch c := p.byteAt(j); {
	case c == '*' && p.byteAt(j+1) == '>':
		r.Stream = 0
		j++
	case c >= '1' && c <= '6' && p.byteAt(j+1) == '>':
		r.Stream = int(c - '0')
		j++
	}
	if p.byteAt(j) != '>' {
		return nil
	}
	j++
	if p.byteAt(j) == '>' {
		r.Append = true
		j++
	} else if p.byteAt(j) == '&' && isDigit(p.byteAt(j+1)) {
		r.Merge = int(p.src[j+1] - '0')
		if r.Merge != 1 {
			p.failAt(i, j+2, "RedirectionStreamCanOnlyMergeToOutputStream",
				"Redirection only allows another stream to be merged with the output stream. Please correct the "+
					"redirection operation to merge into the output stream then try running your script again.", false)
		}
		p.pos = j + 2
		r.Span = span(i, p.pos)
		return r
	}
	p.pos = p.blanks(j, false)
	if p.pos >= len(p.src) || strings.IndexByte("\n;|)}", p.src[p.pos]) >= 0 {
		p.failAt(i, j, "MissingFileSpecification", "Missing file specification after redirection operator.",
			p.pos >= len(p.src))
	}
	p.noCommas(func() { r.File = p.argument() })
	r.Span = span(i, p.pos)
	return r
}
