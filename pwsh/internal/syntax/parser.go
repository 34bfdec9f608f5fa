// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package syntax

import (
	"strings"
	"unicode/utf8"
)

// Edition is the dialect: powershell.exe 5.1 or pwsh.exe 7.
type Edition uint8

// The editions. Desktop refuses the syntax that only PowerShell 7 has (&&, ||, ??,
// ?:, ?., a pipe at the start of a line), as it does on Windows.
const (
	Desktop Edition = iota
	Core
)

// maxDepth bounds how deep a script may nest, so that no text can exhaust the
// stack. PowerShell's own limit is of the same order.
const maxDepth = 400

// Parse reads a script. The error is an *Error.
func Parse(src *Source, edition Edition) (block *ScriptBlock, err error) {
	if !utf8.ValidString(src.Text) { // positions count bytes of the parsed text
		src = &Source{Name: src.Name, Text: strings.ToValidUTF8(src.Text, "\ufffd")}
	}
	p := &parser{source: src, src: src.Text, edition: edition}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Error:
			block, err = nil, r
		default:
			panic(r)
		}
	}()
	block = p.scriptBody(0, false)
	if t := p.peekLine(); t.kind != tEOF {
		p.unexpected(t)
	}
	block.To = Pos(len(p.src))
	return block, nil
}

type parser struct {
	source  *Source
	src     string
	edition Edition
	pos     int
	depth   int
	// noComma is set inside of a method's arguments, where a comma ends one.
	noComma  bool
	cache    token
	cachePos int
	cached   bool
}

func span(from, to int) Span { return Span{Pos(from), Pos(to)} }

func (p *parser) failAt(from, to int, id, msg string, incomplete bool) {
	panic(&Error{Source: p.source, At: Pos(from), End: Pos(to), Msg: msg, ID: id, Incomplete: incomplete})
}

func (p *parser) fail(t token, id, msg string) {
	p.failAt(t.from, max(t.to, t.from), id, msg, t.kind == tEOF)
}

func (p *parser) unexpected(t token) {
	switch {
	case t.kind == tEOF:
		p.failAt(t.from, t.from, "MissingExpression",
			"Missing expression or closing delimiter at the end of the script.", true)
	case t.is("&&"), t.is("||"):
		p.fail(t, "InvalidEndOfLine", "The token '"+t.text+"' is not a valid statement separator in this version.")
	case t.is(")"), t.is("}"), t.is("]"):
		p.fail(t, "UnexpectedToken", "Unexpected token '"+t.text+"' in expression or statement.")
	}
	text := t.text
	if text == "" || t.kind == tSingle || t.kind == tDouble {
		text = p.source.Slice(Pos(t.from), Pos(min(t.from+20, len(p.src))))
	}
	p.fail(t, "UnexpectedToken", "Unexpected token '"+strings.TrimSpace(text)+"' in expression or statement.")
}

func (p *parser) expect(text, id, msg string) {
	t := p.peekLine()
	if !t.is(text) {
		if msg == "" {
			msg = "Missing '" + text + "' in expression or statement."
		}
		p.fail(t, id, msg)
	}
	p.next()
}

func (p *parser) enter() {
	p.depth++
	if p.depth > maxDepth {
		p.failAt(p.pos, p.pos, "ScriptTooComplicated", "Processing was stopped because the script is too complex.",
			false)
	}
}
func (p *parser) leave() { p.depth-- }

// withCommas parses f with commas joining arrays again, whatever surrounds it.
func (p *parser) withCommas(f func()) {
	old := p.noComma
	p.noComma = false
	f()
	p.noComma = old
}

// scriptBody reads the body of a script, or of a script block between its braces,
// up to the } (left to the caller) or the end.
func (p *parser) scriptBody(from int, filter bool) *ScriptBlock {
	b := &ScriptBlock{Span: span(from, from), Source: p.source, FilterKind: filter}
	p.withCommas(func() {
		for p.peekSeparators(); p.peek().word("using") && p.usingFollows(); p.peekSeparators() {
			b.Using = append(b.Using, p.using())
		}
		b.Param = p.paramBlock()
		if p.namedBlock() {
			p.namedBlocks(b)
			return
		}
		body := p.stmts(func(t token) bool { return t.is("}") })
		if filter {
			b.Process = body
		} else {
			b.EndBlock = body
		}
	})
	b.To = Pos(p.pos)
	return b
}

func (p *parser) peekSeparators() {
	for t := p.peek(); t.kind == tNewline || t.is(";"); t = p.peek() {
		p.next()
	}
}

func (p *parser) usingFollows() bool {
	save := p.pos
	defer func() { p.pos = save }()
	p.next()
	t := p.peek()
	return t.word("namespace") || t.word("module") || t.word("assembly")
}

func (p *parser) using() *UsingStmt {
	from := p.next().from
	kindTok := p.next()
	p.pos = p.blanks(p.pos, false)
	start := p.pos
	for p.pos < len(p.src) && strings.IndexByte(" \t\r\n;", p.src[p.pos]) < 0 {
		p.pos++
	}
	u := &UsingStmt{Span: span(from, p.pos), Kind: strings.ToLower(kindTok.text), Name: p.src[start:p.pos]}
	if u.Kind != "namespace" {
		p.failAt(from, p.pos, "UsingNotSupported", "'using "+u.Kind+"' is not supported by mullion's PowerShell. See "+
			"docs/fidelity/pwsh.md.", false)
	}
	if u.Name == "" {
		p.failAt(from, p.pos, "MissingUsingItemName", "Missing using name", false)
	}
	return u
}

func (p *parser) namedBlock() bool {
	p.peekSeparators()
	t := p.peek()
	if t.kind != tWord {
		return false
	}
	switch strings.ToLower(t.text) {
	case "begin", "process", "end", "dynamicparam", "clean":
		save := p.pos
		p.next()
		ok := p.peekLine().is("{")
		p.pos = save
		return ok
	}
	return false
}

func (p *parser) namedBlocks(b *ScriptBlock) {
	b.FilterKind = false
	for p.namedBlock() {
		t := p.next()
		body := p.block()
		switch strings.ToLower(t.text) {
		case "begin":
			b.Begin = body
		case "process":
			b.Process = body
		case "end":
			b.EndBlock, b.NamedEnd = body, true
		default:
			p.fail(t, "NamedBlockNotSupported", "The named block '"+t.text+
				"' is not supported by mullion's PowerShell. See docs/fidelity/pwsh.md.")
		}
		p.peekSeparators()
	}
	if t := p.peek(); t.kind != tEOF && !t.is("}") {
		p.fail(t, "UnexpectedToken", "unexpected token '"+t.text+
			"', expected 'begin', 'process', 'end', or 'dynamicparam'.")
	}
}

// paramBlock reads `[attributes] param ( … )` if it is next.
func (p *parser) paramBlock() *ParamBlock {
	p.peekSeparators()
	save := p.pos
	from := p.peek().from
	var attrs []*Attribute
	for p.peek().is("[") {
		a, _ := p.attributeOrType(true)
		if a == nil {
			p.pos = save
			return nil
		}
		attrs = append(attrs, a)
		p.pos = p.blanks(p.pos, true)
	}
	if !p.peek().word("param") {
		p.pos = save
		return nil
	}
	p.next()
	if !p.peekLine().is("(") {
		p.pos = save
		return nil
	}
	params := p.paramList()
	return &ParamBlock{Span: span(from, p.pos), Attributes: attrs, Params: params}
}

// paramList reads `( [type] $name = default, … )`.
func (p *parser) paramList() []*Param {
	p.expect("(", "MissingOpenParenthesis", "")
	var list []*Param
	for !p.peekLine().is(")") {
		list = append(list, p.param())
		if !p.peekLine().is(",") {
			break
		}
		p.next()
	}
	p.expect(")", "MissingEndParenthesisInFunctionParameterList", "Missing ')' in function parameter list.")
	return list
}

func (p *parser) param() *Param {
	x := &Param{Span: span(p.peekLine().from, p.pos)}
	for p.peekLine().is("[") {
		a, typ := p.attributeOrType(false)
		if a != nil {
			x.Attributes = append(x.Attributes, a)
		} else {
			x.Type = typ
		}
	}
	t := p.peekLine()
	if t.kind != tVar {
		p.fail(t, "MissingParameterName", "Missing the name of a parameter in the parameter list.")
	}
	p.next()
	x.Name = p.variable(t.from, t.to).Name
	if p.peekLine().is("=") {
		p.next()
		p.pos = p.blanks(p.pos, true)
		p.noCommas(func() { x.Default = p.expr() })
	}
	x.To = Pos(p.pos)
	return x
}

func (p *parser) noCommas(f func()) {
	old := p.noComma
	p.noComma = true
	f()
	p.noComma = old
}

// attributeOrType reads `[Name(…)]` as an attribute or `[type]` as a type. With
// soft, it returns two nils for an ill-formed one, so that the caller can back up.
func (p *parser) attributeOrType(soft bool) (*Attribute, *TypeName) {
	open := p.next()
	typ := p.typeName(soft)
	if typ == nil {
		return nil, nil
	}
	if !p.peekLine().is("(") {
		if !p.peek().is("]") {
			if soft {
				return nil, nil
			}
			p.fail(p.peek(), "EndSquareBracketExpectedAtEndOfAttribute",
				"Missing ] at end of attribute or type literal.")
		}
		p.next()
		typ.Span = span(open.from, p.pos)
		return nil, typ
	}
	p.next()
	a := &Attribute{Name: typ.String()}
	for !p.peekLine().is(")") {
		t := p.peek()
		if t.kind == tWord {
			p.next()
			arg := AttributeArg{Name: t.text}
			if p.peekLine().is("=") {
				p.next()
				p.pos = p.blanks(p.pos, true)
				p.noCommas(func() { arg.Value = p.expr() })
			}
			a.Named = append(a.Named, arg)
		} else {
			p.noCommas(func() { a.Args = append(a.Args, p.expr()) })
		}
		if !p.peekLine().is(",") {
			break
		}
		p.next()
	}
	p.expect(")", "MissingEndParenthesisInExpression", "Missing closing ')' in expression.")
	p.expect("]", "EndSquareBracketExpectedAtEndOfAttribute", "Missing ] at end of attribute or type literal.")
	a.Span = span(open.from, p.pos)
	return a, nil
}

// typeName reads the inside of a type literal. With soft it returns nil where
// no type stands.
func (p *parser) typeName(soft bool) *TypeName {
	p.enter()
	defer p.leave()
	i := p.blanks(p.pos, true)
	start := i
	for isNameRune(p.runeAt(i)) || p.byteAt(i) == '.' || p.byteAt(i) == '+' || p.byteAt(i) == '`' &&
		isDigit(p.byteAt(i+1)) {
		i++
		for i < len(p.src) && p.src[i]&0xc0 == 0x80 { // rest of a rune
			i++
		}
	}
	if i == start {
		if soft {
			return nil
		}
		p.failAt(i, i+1, "MissingTypename", "Missing type name after '['.", i >= len(p.src))
	}
	t := &TypeName{Span: span(start, i), Name: p.src[start:i]}
	p.pos = i
	for p.peek().is("[") {
		p.next()
		if p.peekLine().is("]") {
			p.next()
			t.Rank++
			continue
		}
		if t.Rank > 0 || t.Args != nil {
			p.fail(p.peek(), "MissingTypename", "Missing type name after '['.")
		}
		for {
			bracket := p.peekLine().is("[") // [List[[string]]] is legal
			if bracket {
				p.next()
			}
			arg := p.typeName(soft)
			if arg == nil {
				return nil
			}
			if bracket {
				p.expect("]", "EndSquareBracketExpectedAtEndOfType", "Missing ] at end of type token.")
			}
			t.Args = append(t.Args, arg)
			if !p.peekLine().is(",") {
				break
			}
			p.next()
		}
		if !p.peekLine().is("]") {
			if soft {
				return nil
			}
			p.fail(p.peek(), "EndSquareBracketExpectedAtEndOfType", "Missing ] at end of type token.")
		}
		p.next()
	}
	t.To = Pos(p.pos)
	return t
}

// block reads `{ statements }`.
func (p *parser) block() *Block {
	p.enter()
	defer p.leave()
	open := p.peekLine()
	if !open.is("{") {
		p.fail(open, "MissingStatementBlock", "Missing statement block: expected '{'.")
	}
	p.next()
	var b *Block
	p.withCommas(func() { b = p.stmts(func(t token) bool { return t.is("}") }) })
	if t := p.peekLine(); !t.is("}") {
		p.failAt(open.from, open.to, "MissingEndCurlyBrace",
			"Missing closing '}' in statement block or type definition.", t.kind == tEOF)
	}
	p.next()
	b.Span = span(open.from, p.pos)
	return b
}

// stmts reads statements up to a token that stop accepts, or the end.
func (p *parser) stmts(stop func(token) bool) *Block {
	b := &Block{Span: span(p.pos, p.pos)}
	for {
		p.peekSeparators()
		t := p.peek()
		if t.kind == tEOF || stop(t) {
			break
		}
		s := p.stmt()
		if trap, ok := s.(*TrapStmt); ok {
			b.Traps = append(b.Traps, trap)
		} else {
			b.Stmts = append(b.Stmts, s)
		}
		p.endOfStmt(s, stop)
	}
	b.To = Pos(p.pos)
	return b
}

// endOfStmt checks that a separator, or the end, follows a statement. A statement
// that ends in a block needs no separator.
func (p *parser) endOfStmt(s Stmt, stop func(token) bool) {
	t := p.peek()
	if t.kind == tEOF || t.kind == tNewline || t.is(";") || stop(t) {
		return
	}
	switch s.(type) {
	case *IfStmt, *LoopStmt, *ForStmt, *ForeachStmt, *SwitchStmt, *FunctionStmt, *TryStmt, *TrapStmt:
		return
	}
	p.unexpected(t)
}
