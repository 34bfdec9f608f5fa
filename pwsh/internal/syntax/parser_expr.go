// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package syntax

import (
	"strings"
)

// precedence of the binary operators, loosest first. The comma binds tighter
// than all of them. Source: about_Operator_Precedence.
func precedence(op string) int {
	switch op {
	case "-and", "-or", "-xor":
		return 1
	case "-band", "-bor", "-bxor":
		return 2
	case "??":
		return 4
	case "+", "-":
		return 5
	case "*", "/", "%":
		return 6
	case "-f":
		return 7
	case "..":
		return 8
	case "-not", "-bnot":
		return 0
	}
	return 3 // the comparisons, -is, -as, -split, -join, -shl, -shr
}

// expr reads an expression.
func (p *parser) expr() Expr {
	p.enter()
	defer p.leave()
	x := p.binary(1)
	if t := p.peek(); p.edition == Core && t.is("?") && t.spaced {
		p.next()
		p.pos = p.blanks(p.pos, true)
		a := p.expr()
		p.expect(":", "MissingColonInTernaryExpression", "Missing ':' in the ternary expression.")
		p.pos = p.blanks(p.pos, true)
		b := p.expr()
		return &Ternary{Span: Span{x.Pos(), b.End()}, Cond: x, X: a, Y: b}
	}
	return x
}

// binary reads operators of at least the given precedence; all associate to
// the left.
func (p *parser) binary(level int) Expr {
	x := p.commaList()
	for {
		t := p.peek()
		op, sensitive, isOp := t.text, false, false
		switch t.kind {
		case tOp:
			op, sensitive, _ = splitOp(t.text)
			isOp = precedence(op) > 0
		case tPunct:
			switch t.text {
			case "+", "-", "*", "/", "%", "..":
				isOp = true
			case "??":
				isOp = p.edition == Core
			}
		}
		if !isOp || precedence(op) < level {
			return x
		}
		p.next()
		p.pos = p.blanks(p.pos, true)
		if t := p.peek(); t.kind == tEOF || t.is(")") || t.is("}") || t.is(";") || t.is("|") || t.kind == tWord {
			p.fail(t, "ExpectedValueExpression", "You must provide a value expression following the '"+op+"' operator.")
		}
		p.enter()
		y := p.binary(precedence(op) + 1)
		p.leave()
		x = &Binary{Span: Span{x.Pos(), y.End()}, Op: op, CaseSensitive: sensitive, X: x, Y: y, OpPos: Pos(t.from)}
	}
}

// commaList reads `a, b, c`.
func (p *parser) commaList() Expr {
	x := p.unary()
	if p.noComma || !p.peek().is(",") {
		return x
	}
	list := &ArrayLit{Elems: []Expr{x}}
	for p.peek().is(",") {
		p.next()
		p.pos = p.blanks(p.pos, true)
		if t := p.peek(); t.kind == tEOF || t.is(")") || t.is("}") || t.is(";") {
			p.fail(t, "MissingExpressionAfterToken", "Missing expression after ','.")
		}
		list.Elems = append(list.Elems, p.unary())
	}
	list.Span = Span{x.Pos(), list.Elems[len(list.Elems)-1].End()}
	return list
}

func (p *parser) unary() Expr {
	p.enter()
	defer p.leave()
	t := p.peek()
	switch {
	case t.kind == tOp:
		op, _, _ := splitOp(t.text)
		switch op {
		case "-not", "-bnot", "-split", "-join":
			p.next()
			p.pos = p.blanks(p.pos, true)
			var x Expr
			if op == "-split" || op == "-join" { // their operand is a whole list
				x = p.commaList()
			} else {
				x = p.unary()
			}
			return &Unary{Span: Span{Pos(t.from), x.End()}, Op: op, X: x}
		}
	case t.is("-"), t.is("+"):
		p.next()
		if n := p.peek(); n.kind == tNumber && n.from == t.to {
			if v, ok := parseNumber(t.text + p.src[n.from:n.to]); ok {
				p.next()
				return p.postfix(&Number{Span: span(t.from, n.to), Text: t.text + p.src[n.from:n.to], Value: v})
			}
		}
		x := p.unary()
		return &Unary{Span: Span{Pos(t.from), x.End()}, Op: t.text, X: x}
	case t.is("!"):
		p.next()
		x := p.unary()
		return &Unary{Span: Span{Pos(t.from), x.End()}, Op: "-not", X: x}
	case t.is("++"), t.is("--"):
		p.next()
		x := p.unary()
		return &Unary{Span: Span{Pos(t.from), x.End()}, Op: t.text, X: x}
	case t.is(","):
		p.next()
		p.pos = p.blanks(p.pos, true)
		x := p.unary()
		return &Unary{Span: Span{Pos(t.from), x.End()}, Op: ",", X: x}
	case t.is("["):
		return p.typeOrCast()
	}
	return p.primary()
}

// typeOrCast reads `[type]`, `[type]::member` or `[type] operand`.
func (p *parser) typeOrCast() Expr {
	open := p.peek()
	a, typ := p.attributeOrType(false)
	if a != nil {
		p.failAt(open.from, p.pos, "AttributeNotSupported", "The attribute '["+a.Name+
			"]' on an expression is not supported by mullion's PowerShell. See docs/fidelity/pwsh.md.", false)
	}
	t := p.peek()
	if !t.spaced && (t.is("::") || t.is(".")) {
		return p.postfix(&TypeExpr{Span: typ.Span, Type: typ})
	}
	operand := false
	switch t.kind {
	case tNumber, tSingle, tDouble, tVar:
		operand = true
	case tOp:
		op, _, _ := splitOp(t.text)
		operand = op == "-not" || op == "-bnot"
	case tPunct:
		switch t.text {
		case "(", "@(", "@{", "$(", "{", "[", "!", "++", "--", "+", "-": // no comma: [int], [string] is a list of types
			operand = true
		}
		if t.text == "+" || t.text == "-" { // `[int] - 5` is a mistake, `[int]-5` a cast
			operand = !p.blankAt(t.to)
		}
	}
	if !operand {
		return &TypeExpr{Span: typ.Span, Type: typ}
	}
	x := p.unary()
	return &Cast{Span: Span{typ.From, x.End()}, Type: typ, X: x}
}

func (p *parser) blankAt(i int) bool {
	return i >= len(p.src) || isBlank(p.src[i]) || p.src[i] == '\n'
}

func (p *parser) primary() Expr {
	t := p.peek()
	switch t.kind {
	case tNumber:
		p.next()
		v, ok := parseNumber(t.text)
		if !ok {
			p.fail(t, "BadNumericConstant", "The numeric constant "+t.text+" is not valid.")
		}
		return p.postfix(&Number{Span: span(t.from, t.to), Text: t.text, Value: v})
	case tSingle, tDouble:
		return p.postfix(p.quoted(t.from))
	case tVar:
		p.next()
		return p.postfix(p.variable(t.from, t.to))
	case tSplat:
		p.fail(t, "SplattingNotPermitted", "The splatting operator '@' cannot be used to reference variables in an "+
			"expression. '"+t.text+"' can be used only as an argument to a command. To reference variables in an "+
			"expression use '$"+t.text[1:]+"'.")
	case tPunct:
		if x := p.bracketed(t); x != nil {
			return p.postfix(x)
		}
	}
	p.unexpected(t)
	return nil
}

// bracketed reads an expression that begins with a bracket, or returns nil.
func (p *parser) bracketed(t token) (x Expr) {
	switch t.text {
	case "(":
		p.next()
		p.withCommas(func() {
			p.pos = p.blanks(p.pos, true)
			if p.peek().is(")") {
				p.fail(p.peek(), "ExpectedExpression", "An expression was expected after '('.")
			}
			s := p.stmt()
			p.closing(")", t)
			x = &Paren{Span: span(t.from, p.pos), X: s}
		})
	case "$(", "@(":
		p.next()
		p.withCommas(func() {
			b := p.stmts(func(t token) bool { return t.is(")") })
			p.closing(")", t)
			b.Span = span(t.from, p.pos)
			if t.text == "$(" {
				x = &SubExpr{Span: b.Span, Body: b}
			} else {
				x = &ArrayExpr{Span: b.Span, Body: b}
			}
		})
	case "@{":
		p.withCommas(func() { x = p.hash() })
	case "{":
		p.next()
		p.withCommas(func() {
			body := p.scriptBody(t.to, false)
			p.closeBrace(t)
			x = &BlockExpr{Span: span(t.from, p.pos), Body: body}
		})
	default:
		return nil
	}
	return x
}

func (p *parser) closing(text string, open token) {
	t := p.peekLine()
	if !t.is(text) {
		id, msg := "MissingEndParenthesisInExpression", "Missing closing ')' in expression."
		if text == "]" {
			id, msg = "MissingEndSquareBracket", "Missing ']' after array index expression."
		}
		if t.kind != tEOF {
			p.fail(t, id, msg)
		}
		p.failAt(open.from, open.to, id, msg, true)
	}
	p.next()
}

func (p *parser) hash() Expr {
	open := p.next()
	h := &Hash{}
	for {
		p.peekSeparators()
		t := p.peek()
		if t.is("}") {
			break
		}
		if t.kind == tEOF {
			p.failAt(open.from, open.to, "MissingEndCurlyBrace", "The hash literal was incomplete.", true)
		}
		var key Expr
		if t.kind == tWord || t.kind == tOp {
			p.next()
			key = &String{Span: span(t.from, t.to), Value: p.src[t.from:t.to], Bare: true}
		} else {
			p.noCommas(func() { key = p.unary() })
		}
		eq := p.peek()
		if !eq.is("=") {
			p.fail(eq, "MissingEqualsInHashLiteral", "Missing '=' operator after key in hash literal.")
		}
		p.next()
		p.pos = p.blanks(p.pos, true)
		value := p.peek()
		if value.is("}") || value.is(";") || value.kind == tEOF {
			p.fail(value, "MissingStatementInHashLiteral", "Missing statement after '=' in hash literal.")
		}
		h.Pairs = append(h.Pairs, HashPair{key, p.stmt()})
		t = p.peek()
		if !t.is(";") && !t.is("}") && t.kind != tNewline && t.kind != tEOF {
			p.unexpected(t)
		}
	}
	p.next()
	h.Span = span(open.from, p.pos)
	return h
}

// postfix reads members, calls, indexes and ++ after an operand.
func (p *parser) postfix(x Expr) Expr {
	for {
		t := p.peek()
		from := x.Pos()
		switch {
		case t.spaced && !t.is("++") && !t.is("--"):
			return x
		case (t.is(".") || t.is("?.")) && p.memberFollows(t.to), t.is("::"):
			x = p.member(x, t)
		case t.is("["), t.is("?["):
			p.next()
			p.pos = p.blanks(p.pos, true)
			var i Expr
			p.withCommas(func() { i = p.expr() })
			p.closing("]", t)
			x = &Index{Span: Span{from, Pos(p.pos)}, X: x, I: i, NullSafe: t.is("?[")}
		case t.is("++"), t.is("--"):
			if !assignable(x) {
				return x
			}
			p.next()
			return &Unary{Span: Span{from, Pos(p.pos)}, Op: t.text, X: x, Postfix: true}
		default:
			return x
		}
	}
}

func (p *parser) memberFollows(i int) bool {
	r := p.runeAt(p.blanks(i, true))
	return isNameStart(r) || r == '$' || r == '(' || isSingleQuote(r) || isDoubleQuote(r) ||
		isDigit(byte(r)) && r < 0x80
}

func (p *parser) member(x Expr, dot token) Expr {
	p.next()
	t := p.peekLine()
	m := &Member{X: x, Static: dot.is("::"), NullSafe: dot.is("?.")}
	switch {
	case t.kind == tWord, t.kind == tNumber:
		p.next()
		if t.kind == tNumber {
			p.pos = p.nameEnd(t.from)
		}
		m.Name = &String{Span: span(t.from, p.pos), Value: p.src[t.from:p.pos], Bare: true}
	case t.kind == tSingle, t.kind == tDouble:
		m.Name = p.quoted(t.from)
	case t.kind == tVar:
		p.next()
		m.Name = p.variable(t.from, t.to)
	case t.is("("), t.is("$("):
		m.Name = p.bracketed(t)
	default:
		p.fail(t, "MissingPropertyName", "Missing property name after reference operator.")
	}
	if p.byteAt(p.pos) == '(' {
		m.Call = true
		m.Args = p.arguments()
	} else if p.byteAt(p.pos) == '{' && !m.Static { // .ForEach{…} and .Where{…}
		open := p.peek()
		if s, ok := m.Name.(*String); ok && (strings.EqualFold(s.Value, "foreach") ||
			strings.EqualFold(s.Value, "where")) {
			m.Call = true
			m.Args = []Expr{p.bracketed(open)}
		}
	}
	m.Span = Span{x.Pos(), Pos(p.pos)}
	return m
}

// arguments reads `(a, b)` of a method call.
func (p *parser) arguments() []Expr {
	open := p.next()
	args := []Expr{}
	p.noCommas(func() {
		for !p.peekLine().is(")") {
			args = append(args, p.expr())
			t := p.peekLine()
			if !t.is(",") {
				break
			}
			p.next()
			if n := p.peekLine(); n.is(")") {
				p.fail(n, "MissingExpressionAfterToken", "Missing expression after ','.")
			}
		}
	})
	p.closing(")", open)
	return args
}
