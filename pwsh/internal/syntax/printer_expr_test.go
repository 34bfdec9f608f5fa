// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package syntax

import (
	"strings"
)

// name writes a command's name, which stands bare.
func (p *printer) name(x Expr) {
	switch x := x.(type) {
	case *String:
		word := bareWord(x.Value)
		if !isCommand(word) { // `1 and d`o are commands, 1 and do are not
			for i := range word {
				if !strings.ContainsRune("0abefnrtuv`\r\n", rune(word[i])) && (i == 0 || word[i-1] != '`') {
					word = word[:i] + "`" + word[i:]
					break
				}
			}
		}
		p.str(word)
	case *Expand:
		for i, part := range x.Parts {
			if s, ok := part.(*String); ok {
				word := bareWord(s.Value)
				if i == 0 && word[0] >= '1' && word[0] <= '9' {
					word = "`" + word
				}
				p.str(word)
			} else {
				p.expr(part)
			}
		}
	default:
		p.expr(x)
	}
}

// isCommand reports whether a text is the name of a command.
func isCommand(text string) bool {
	b, err := Parse(&Source{Text: text}, Core)
	if err != nil || len(b.EndBlock.Stmts) != 1 {
		return false
	}
	pl, ok := b.EndBlock.Stmts[0].(*Pipeline)
	if !ok {
		return false
	}
	_, ok = pl.Elements[0].(*Command)
	return ok
}

// bareWord escapes what would end a word or mean something in it.
func bareWord(s string) string {
	if s == "" {
		return `""`
	}
	var b strings.Builder
	for i, r := range s {
		switch r {
		case '\n':
			b.WriteString("`n")
			continue
		case '\r':
			b.WriteString("`r")
			continue
		case '\t':
			b.WriteString("`t")
			continue
		case 0:
			b.WriteString("`0")
			continue
		case ' ', ';', '|', '&', '(', ')', '{', '}', ',', '<', '>', '$', '`', '"', '\'', '\f', '\v':
			b.WriteByte('`')
		default:
			if isSingleQuote(r) || isDoubleQuote(r) {
				b.WriteByte('`')
			}
			if i == 0 && (strings.ContainsRune("#@[-!+.:=]/*%?^~", r) || isDash(r)) {
				b.WriteByte('`')
			}
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (p *printer) word(x *Expand) {
	for _, part := range x.Parts {
		switch e := part.(type) {
		case *String:
			p.str(`"`, escapeDouble(e.Value), `"`)
		case *Variable:
			p.variable(e)
		default:
			p.expr(part)
		}
	}
}

// arg writes an argument of a command: what is not simple goes into
// parentheses or quotes.
func (p *printer) arg(x Expr) {
	switch x := x.(type) {
	case *ArrayLit:
		for i, e := range x.Elems {
			if i > 0 {
				p.str(", ")
			}
			p.arg(e)
		}
	case *String:
		if x.Bare && plainWord(x.Value) {
			p.str(x.Value)
			return
		}
		p.quoted(x.Value)
	case *Expand:
		if x.Bare && len(x.Parts) > 0 {
			if s, ok := x.Parts[0].(*String); ok && plainWord(s.Value) && s.Value[0] != '-' {
				p.str(s.Value)
				p.word(&Expand{Parts: x.Parts[1:]})
				return
			}
		}
		p.expr(x)
	case *Number:
		p.str(x.Text)
	case *Variable, *ArrayExpr, *SubExpr, *Paren, *Hash, *BlockExpr, *Member, *Index:
		p.expr(x)
	default:
		p.str("(")
		p.expr(x)
		p.str(")")
	}
}

// plainWord reports whether a word can stand without quotes and mean itself.
func plainWord(s string) bool {
	if s == "" {
		return false
	}
	if _, number := parseNumber(s); number {
		return false
	}
	for _, r := range s {
		if !isNameRune(r) && !strings.ContainsRune(`./\:=+*?%~^!`, r) || r > 126 {
			return false
		}
	}
	return isNameStart(rune(s[0])) || s[0] == '.' || s[0] == '/' || s[0] == '\\' || s[0] == '*'
}

func (p *printer) quoted(s string) {
	p.str("'")
	for _, r := range s {
		if isSingleQuote(r) {
			p.b.WriteRune(r)
		}
		p.b.WriteRune(r)
	}
	p.str("'")
}

func escapeDouble(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '`' || r == '$' || isDoubleQuote(r):
			b.WriteByte('`')
		case r == 0:
			b.WriteString("`0")
			continue
		case r == '\r':
			b.WriteString("`r")
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (p *printer) variable(v *Variable) {
	if v.Splat {
		p.str("@", v.Name)
		return
	}
	p.str("${")
	if v.Scope != "" {
		p.str(v.Scope, ":")
	}
	p.str(escapeName(v.Name), "}")
}

// expr writes a part of an expression. Added parentheses would add a node,
// so only the tree's own Paren nodes preserve precedence.
func (p *printer) expr(x Expr) {
	switch x := x.(type) {
	case *Number:
		p.str(x.Text)
	case *String:
		p.quoted(x.Value)
	case *Expand:
		p.expand(x)
	case *Variable:
		p.variable(x)
	case *ArrayLit:
		for i, e := range x.Elems {
			if i > 0 {
				p.str(", ")
			}
			p.expr(e)
		}
	case *ArrayExpr:
		p.str("@(\n")
		p.stmts(x.Body)
		p.str(")")
	case *SubExpr:
		p.str("$(\n")
		p.stmts(x.Body)
		p.str(")")
	case *Paren:
		p.str("(")
		p.stmt(x.X)
		p.str(")")
	case *Hash:
		p.str("@{\n")
		for _, e := range x.Pairs {
			p.expr(e.Key)
			p.str(" = ")
			p.stmt(e.Value)
			p.str("\n")
		}
		p.str("}")
	case *BlockExpr:
		p.str("{\n")
		p.script(x.Body)
		p.str("}")
	case *Unary:
		p.unary(x)
	case *Binary:
		p.expr(x.X)
		op := x.Op
		if x.CaseSensitive {
			op = "-c" + op[1:]
		}
		p.str(" ", op, " ")
		p.expr(x.Y)
	case *Ternary:
		p.expr(x.Cond)
		p.str(" ? ")
		p.expr(x.X)
		p.str(" : ")
		p.expr(x.Y)
	case *Cast:
		p.str("[", x.Type.String(), "]")
		p.expr(x.X)
	case *TypeExpr:
		p.str("[", x.Type.String(), "]")
	case *Member:
		p.member(x)
	case *Index:
		p.expr(x.X)
		if x.NullSafe {
			p.str("?")
		}
		p.str("[")
		p.expr(x.I)
		p.str("]")
	}
}

// expand writes a string in double quotes, with what is expanded in it.
func (p *printer) expand(x *Expand) {
	p.str(`"`)
	for _, part := range x.Parts {
		switch e := part.(type) {
		case *String:
			p.str(escapeDouble(e.Value))
		case *Variable:
			p.variable(e)
		default:
			p.expr(part)
		}
	}
	p.str(`"`)
}

func (p *printer) unary(x *Unary) {
	switch {
	case x.Postfix:
		p.expr(x.X)
		p.str(x.Op)
	case x.Op == "-" || x.Op == "+": // a blank keeps `- 5` apart from the literal -5
		p.str(x.Op, " ")
		p.expr(x.X)
	default:
		p.str(x.Op, " ")
		p.expr(x.X)
	}
}

func (p *printer) member(x *Member) {
	p.expr(x.X)
	switch {
	case x.Static:
		p.str("::")
	case x.NullSafe:
		p.str("?.")
	default:
		p.str(".")
	}
	if s, ok := x.Name.(*String); ok && s.Bare && s.Value != "" && !isDigit(s.Value[0]) {
		p.str(s.Value)
	} else {
		p.expr(x.Name)
	}
	if !x.Call {
		return
	}
	p.str("(")
	for i, a := range x.Args {
		if i > 0 {
			p.str(", ")
		}
		p.expr(a)
	}
	p.str(")")
}
