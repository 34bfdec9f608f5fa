// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package syntax

import (
	"strings"
)

// refused are the statements that this subset does not have.
var refused = map[string]bool{
	"class": true, "enum": true, "workflow": true, "configuration": true, "data": true,
	"parallel": true, "sequence": true, "inlinescript": true, "dynamicparam": true,
}

// stmt reads one statement.
func (p *parser) stmt() Stmt {
	p.enter()
	defer p.leave()
	t := p.peek()
	if t.is(":") && isNameStart(p.runeAt(t.to)) {
		return p.labelled()
	}
	if t.kind == tWord {
		if s := p.keyword(t, ""); s != nil {
			return s
		}
	}
	return p.chain()
}

func (p *parser) labelled() Stmt {
	colon := p.next()
	name := p.next()
	t := p.peekLine()
	if t.kind == tWord {
		if s := p.keyword(t, name.text); s != nil {
			return s
		}
	}
	p.failAt(colon.from, name.to, "LabelWithoutLoop", "A label must stand before a loop or switch statement.",
		t.kind == tEOF)
	return nil
}

// keyword reads the statement that a keyword begins, or returns nil: then the
// word is a command's name.
func (p *parser) keyword(t token, label string) Stmt {
	word := strings.ToLower(t.text)
	if after := p.byteAt(t.to); after == '-' || after == '.' || after == '\\' || after == ':' {
		return nil // if-this.exe
	}
	switch word {
	case "if":
		return p.ifStmt()
	case "while":
		return p.whileStmt(label)
	case "do":
		return p.doStmt(label)
	case "for":
		return p.forStmt(label)
	case "foreach":
		return p.foreachStmt(label)
	case "switch":
		return p.switchStmt(label)
	case "function", "filter":
		return p.functionStmt()
	case "return", "throw", "exit":
		return p.flowStmt(word)
	case "break", "continue":
		return p.breakStmt(word)
	case "try":
		return p.tryStmt()
	case "trap":
		return p.trapStmt()
	case "param":
		if save := p.pos; p.byteAt(p.blanks(t.to, true)) == '(' {
			p.pos = save
			p.fail(t, "UnexpectedToken",
				"Unexpected token 'param' in expression or statement: a param block stands first.")
		}
	}
	if refused[word] {
		next := p.blanks(t.to, false)
		if isNameStart(p.runeAt(next)) || p.byteAt(next) == '{' {
			p.fail(t, "StatementNotSupported", "The statement '"+t.text+
				"' is not supported by mullion's PowerShell. See docs/fidelity/pwsh.md.")
		}
	}
	return nil
}

// foreachForm ends the messages about a foreach loop.
const foreachForm = "\nThe correct form is: foreach ($a in $b) {...}"

// condition reads `( pipeline )`.
func (p *parser) condition(after string) Stmt {
	t := p.peekLine()
	isIf := after == "if" || after == "elseif"
	if !t.is("(") {
		if isIf {
			p.fail(t, "MissingOpenParenthesisInIfStatement", "Missing '(' after '"+after+"' in if statement.")
		}
		p.fail(t, "MissingOpenParenthesisAfterKeyword", "Missing opening '(' after keyword '"+after+"'.")
	}
	p.next()
	var s Stmt
	p.withCommas(func() {
		p.pos = p.blanks(p.pos, true)
		if t := p.peek(); t.is(")") || t.kind == tEOF {
			switch {
			case isIf:
				p.fail(p.peek(), "IfStatementMissingCondition", "Missing condition in if statement after '"+
					after+" ('.")
			case after == "switch":
				p.fail(p.peek(), "MissingSwitchValueExpression", "Missing expression after '(' in switch statement.")
			}
			p.fail(p.peek(), "MissingExpressionAfterKeyword", "Missing expression after '"+after+"' in loop.")
		}
		s = p.stmt()
	})
	p.expect(")", "MissingEndParenthesisAfterStatement", "Missing closing ')' after expression in '"+after+
		"' statement.")
	return s
}

func (p *parser) ifStmt() Stmt {
	s := &IfStmt{Span: span(p.next().from, 0)}
	cond := p.condition("if")
	s.Clauses = append(s.Clauses, IfClause{cond, p.block()})
	for {
		save := p.pos
		t := p.peekLine()
		switch {
		case t.word("elseif"):
			p.next()
			cond := p.condition("elseif")
			s.Clauses = append(s.Clauses, IfClause{cond, p.block()})
			continue
		case t.word("else"):
			p.next()
			s.Else = p.block()
		default:
			p.pos = save
		}
		break
	}
	s.To = Pos(p.pos)
	return s
}

func (p *parser) whileStmt(label string) Stmt {
	from := p.next().from
	cond := p.condition("while")
	body := p.block()
	return &LoopStmt{Span: span(from, p.pos), Label: label, Kind: While, Cond: cond, Body: body}
}

func (p *parser) doStmt(label string) Stmt {
	from := p.next().from
	body := p.block()
	t := p.peekLine()
	kind := DoWhile
	switch {
	case t.word("while"):
	case t.word("until"):
		kind = DoUntil
	default:
		p.fail(t, "MissingWhileOrUntilInDoWhile", "Missing while or until keyword in do loop.")
	}
	p.next()
	cond := p.condition(strings.ToLower(t.text))
	return &LoopStmt{Span: span(from, p.pos), Label: label, Kind: kind, Cond: cond, Body: body}
}

func (p *parser) forStmt(label string) Stmt {
	s := &ForStmt{Span: span(p.next().from, 0), Label: label}
	p.expect("(", "MissingOpenParenthesisAfterKeyword", "Missing opening '(' after keyword 'for'.")
	p.withCommas(func() {
		part := func() Stmt {
			t := p.peek()
			for t.kind == tNewline {
				p.next()
				t = p.peek()
			}
			if t.is(";") || t.is(")") {
				return nil
			}
			return p.stmt()
		}
		sep := func() {
			if t := p.peek(); t.is(";") || t.kind == tNewline {
				p.next()
			}
		}
		s.Init = part()
		sep()
		s.Cond = part()
		sep()
		s.Step = part()
	})
	p.expect(")", "MissingEndParenthesisAfterStatement", "Missing closing ')' after expression in 'for' statement.")
	s.Body = p.block()
	s.To = Pos(p.pos)
	return s
}

func (p *parser) foreachStmt(label string) Stmt {
	save := p.pos
	from := p.next().from
	t := p.peekLine()
	if !t.is("(") { // the alias of ForEach-Object in the middle of nowhere
		p.pos = save
		return nil
	}
	p.next()
	t = p.peekLine()
	if t.kind != tVar {
		p.fail(t, "MissingVariableNameAfterForeach", "Missing variable name after foreach."+foreachForm)
	}
	p.next()
	v := p.variable(t.from, t.to)
	if t := p.peekLine(); !t.word("in") {
		p.fail(t, "MissingInInForeach", "Missing 'in' after variable in foreach loop."+foreachForm)
	}
	p.next()
	p.pos = p.blanks(p.pos, true)
	var in Stmt
	p.withCommas(func() { in = p.stmt() })
	p.expect(")", "MissingEndParenthesisAfterForeach", "Missing closing ')' after expression in foreach loop.")
	body := p.block()
	return &ForeachStmt{Span: span(from, p.pos), Label: label, Var: v, In: in, Body: body}
}

func (p *parser) switchStmt(label string) Stmt {
	s := &SwitchStmt{Span: span(p.next().from, 0), Label: label}
	for {
		t := p.peekLine()
		if !t.is("-") || !isNameStart(p.runeAt(t.to)) {
			break
		}
		p.next()
		name := p.next()
		switch strings.ToLower(name.text) {
		case "regex":
			s.Match = MatchRegex
		case "wildcard":
			s.Match = MatchWildcard
		case "exact":
			s.Match = MatchExact
		case "casesensitive":
			s.CaseSensitive = true
		case "file":
			s.File = true
			from := p.blanks(p.pos, false)
			p.pos = from
			x := p.argument()
			s.On = &Pipeline{Span: span(from, p.pos),
				Elements: []PipelineElement{&CommandExpr{Span: span(from, p.pos), X: x}}}
		default:
			p.fail(name, "InvalidSwitchFlag", "The parameter "+name.text+" is not valid for the switch statement.")
		}
	}
	if !s.File {
		s.On = p.condition("switch")
	}
	p.expect("{", "MissingCurlyBraceInSwitchStatement", "Missing opening '{' in switch statement.")
	p.withCommas(func() {
		for {
			p.peekSeparators()
			if p.peek().is("}") {
				break
			}
			p.switchClause(s)
		}
	})
	p.next()
	s.To = Pos(p.pos)
	return s
}

func (p *parser) switchClause(s *SwitchStmt) {
	t := p.peek()
	if t.kind == tEOF {
		p.fail(t, "MissingEndCurlyBrace", "Missing closing '}' in switch statement.")
	}
	if t.word("default") && p.byteAt(p.blanks(t.to, true)) == '{' {
		p.next()
		if s.Default != nil {
			p.fail(t, "MultipleSwitchDefaultClauses", "A switch statement can have only one default clause.")
		}
		s.Default = p.block()
		return
	}
	p.pos = t.from
	var pattern Expr
	p.noCommas(func() { pattern = p.argument() })
	if pattern == nil {
		p.fail(t, "MissingSwitchConditionExpression", "Missing condition in switch statement clause.")
	}
	s.Clauses = append(s.Clauses, SwitchClause{pattern, p.block()})
}

func (p *parser) functionStmt() Stmt {
	kw := p.next()
	filter := strings.EqualFold(kw.text, "filter")
	p.pos = p.blanks(p.pos, false)
	start := p.pos
	for p.pos < len(p.src) && strings.IndexByte(" \t\r\n({;)", p.src[p.pos]) < 0 {
		p.pos++
	}
	name := p.src[start:p.pos]
	if name == "" {
		p.failAt(kw.from, kw.to, "MissingNameAfterKeyword", "Missing name after "+strings.ToLower(kw.text)+" keyword.",
			p.pos >= len(p.src))
	}
	f := &FunctionStmt{Name: name, Filter: filter}
	if p.peekLine().is("(") {
		f.Params = p.paramList()
	}
	open := p.peekLine()
	if !open.is("{") {
		p.fail(open, "MissingFunctionBody", "Missing function body in function declaration.")
	}
	p.next()
	f.Body = p.scriptBody(open.to, filter)
	p.closeBrace(open)
	f.Span = span(kw.from, p.pos)
	return f
}

func (p *parser) closeBrace(open token) {
	if t := p.peekLine(); !t.is("}") {
		if t.kind != tEOF {
			p.unexpected(t)
		}
		p.failAt(open.from, open.to, "MissingEndCurlyBrace",
			"Missing closing '}' in statement block or type definition.", true)
	}
	p.next()
}

func (p *parser) flowStmt(word string) Stmt {
	t := p.next()
	s := &FlowStmt{Span: span(t.from, t.to), Kind: map[string]FlowKind{"return": Return, "throw": Throw,
		"exit": Exit}[word]}
	if !p.atStmtEnd() {
		s.Value = p.stmt()
		s.To = Pos(p.pos)
	}
	return s
}

func (p *parser) atStmtEnd() bool {
	t := p.peek()
	return t.kind == tEOF || t.kind == tNewline || t.is(";") || t.is("}") || t.is(")") || t.is("|") ||
		t.is("&&") || t.is("||")
}

func (p *parser) breakStmt(word string) Stmt {
	t := p.next()
	s := &FlowStmt{Span: span(t.from, t.to), Kind: Break}
	if word == "continue" {
		s.Kind = Continue
	}
	if !p.atStmtEnd() {
		p.pos = p.blanks(p.pos, false)
		s.Label = p.argument()
		s.To = Pos(p.pos)
	}
	return s
}

func (p *parser) tryStmt() Stmt {
	s := &TryStmt{Span: span(p.next().from, 0)}
	s.Body = p.block()
	for {
		save := p.pos
		t := p.peekLine()
		if t.word("catch") {
			p.next()
			s.Catches = append(s.Catches, p.catchClause())
			continue
		}
		if t.word("finally") {
			p.next()
			s.Finally = p.block()
		} else {
			p.pos = save
		}
		break
	}
	if s.Catches == nil && s.Finally == nil {
		p.failAt(p.pos, p.pos, "MissingCatchOrFinally", "The Try statement is missing its Catch or Finally block.",
			p.blanks(p.pos, true) >= len(p.src))
	}
	s.To = Pos(p.pos)
	return s
}

func (p *parser) catchClause() CatchClause {
	var c CatchClause
	for p.peekLine().is("[") {
		p.next()
		c.Types = append(c.Types, p.typeName(false))
		p.expect("]", "EndSquareBracketExpectedAtEndOfType", "Missing ] at end of type token.")
		if p.peekLine().is(",") {
			p.next()
		}
	}
	c.Body = p.block()
	return c
}

func (p *parser) trapStmt() Stmt {
	s := &TrapStmt{Span: span(p.next().from, 0)}
	if p.peekLine().is("[") {
		p.next()
		s.Type = p.typeName(false)
		p.expect("]", "EndSquareBracketExpectedAtEndOfType", "Missing ] at end of type token.")
	}
	s.Body = p.block()
	s.To = Pos(p.pos)
	return s
}

// chain reads pipelines joined by && and ||.
func (p *parser) chain() Stmt {
	left := p.assignOrPipeline()
	if p.edition != Core {
		return left
	}
	for {
		t := p.peek()
		if !t.is("&&") && !t.is("||") {
			return left
		}
		p.next()
		p.pos = p.blanks(p.pos, true)
		var right Stmt
		if k := p.peek(); k.kind == tWord && (k.word("exit") || k.word("throw") || k.word("return")) {
			right = p.flowStmt(strings.ToLower(k.text))
		} else {
			right = p.assignOrPipeline()
		}
		left = &Chain{Span: Span{left.Pos(), right.End()}, Left: left, Right: right, Op: t.text}
	}
}

var assignOps = map[string]bool{"=": true, "+=": true, "-=": true, "*=": true, "/=": true, "%=": true, "??=": true}

// assignOrPipeline reads an assignment or a pipeline.
func (p *parser) assignOrPipeline() Stmt {
	p.enter()
	defer p.leave()
	first := p.element()
	if ce, ok := first.(*CommandExpr); ok && len(ce.Redirect) == 0 {
		t := p.peek()
		if t.kind == tPunct && assignOps[t.text] && (t.text != "??=" || p.edition == Core) {
			if !assignable(ce.X) {
				p.fail(t, "InvalidLeftHandSide", "The assignment expression is not valid. The input to an assignment "+
					"operator must be an object that is able to accept assignments, such as a variable or a property.")
			}
			p.next()
			p.pos = p.blanks(p.pos, true)
			if p.atStmtEnd() {
				p.fail(p.peek(), "ExpectedValueExpression", "You must provide a value expression following the '"+
					t.text+"' operator.")
			}
			right := p.stmt()
			return &Assign{Span: Span{ce.From, right.End()}, Left: ce.X, Op: t.text, Right: right}
		}
	}
	pl := &Pipeline{Elements: []PipelineElement{first}}
	for {
		t := p.peek()
		if t.kind == tNewline && p.edition == Core {
			save := p.pos
			if !p.peekLine().is("|") {
				p.pos = save
				break
			}
			t = p.peek()
		}
		if !t.is("|") {
			break
		}
		p.next()
		p.pos = p.blanks(p.pos, true)
		if p.peek().kind == tEOF {
			p.fail(p.peek(), "EmptyPipeElement", "An empty pipe element is not allowed.")
		}
		el := p.element()
		if ce, ok := el.(*CommandExpr); ok {
			p.failAt(int(ce.From), int(ce.To), "ExpressionsMustBeFirstInPipeline",
				"Expressions are only allowed as the first element of a pipeline.", false)
		}
		pl.Elements = append(pl.Elements, el)
	}
	pl.Span = Span{first.Pos(), Pos(p.pos)}
	if t := p.peek(); t.is("&") {
		p.fail(t, "AmpersandNotAllowed", "The ampersand (&) character is not allowed. The & operator is reserved for "+
			"future use; wrap an ampersand in double quotation marks (\"&\") to pass it as part of a string.")
	}
	return pl
}

func assignable(x Expr) bool {
	switch x := x.(type) {
	case *Variable:
		return !x.Splat
	case *Member:
		return !x.Call
	case *Index:
		return true
	case *Cast:
		return assignable(x.X)
	case *Paren:
		if pl, ok := x.X.(*Pipeline); ok && len(pl.Elements) == 1 {
			if ce, ok := pl.Elements[0].(*CommandExpr); ok {
				return assignable(ce.X)
			}
		}
	case *ArrayLit:
		for _, e := range x.Elems {
			if !assignable(e) {
				return false
			}
		}
		return true
	}
	return false
}
