// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package syntax

import (
	"strings"
)

// printed writes a tree as text that parses to the same tree. Comments and
// layout are not kept.
func printed(b *ScriptBlock) string {
	p := &printer{}
	p.script(b)
	return p.b.String()
}

type printer struct{ b strings.Builder }

func (p *printer) str(parts ...string) {
	for _, s := range parts {
		p.b.WriteString(s)
	}
}

func (p *printer) script(b *ScriptBlock) {
	for _, u := range b.Using {
		p.str("using ", u.Kind, " ", u.Name, "\n")
	}
	if b.Param != nil {
		for _, a := range b.Param.Attributes {
			p.attribute(a)
		}
		p.str("param")
		p.params(b.Param.Params)
		p.str("\n")
	}
	named := func(name string, x *Block) {
		if x != nil {
			p.str(name, " ")
			p.block(x)
			p.str("\n")
		}
	}
	if b.FilterKind {
		p.stmts(b.Process)
		return
	}
	named("begin", b.Begin)
	named("process", b.Process)
	if b.NamedEnd {
		named("end", b.EndBlock)
	} else if b.EndBlock != nil {
		p.stmts(b.EndBlock)
	}
}

func (p *printer) block(b *Block) {
	p.str("{\n")
	p.stmts(b)
	p.str("}")
}

func (p *printer) stmts(b *Block) {
	if b == nil {
		return
	}
	for _, t := range b.Traps {
		p.stmt(t)
		p.str("\n")
	}
	for _, s := range b.Stmts {
		p.stmt(s)
		p.str("\n")
	}
}

func (p *printer) params(list []*Param) {
	p.str("(")
	for i, x := range list {
		if i > 0 {
			p.str(", ")
		}
		for _, a := range x.Attributes {
			p.attribute(a)
		}
		if x.Type != nil {
			p.str("[", x.Type.String(), "]")
		}
		p.str("${", escapeName(x.Name), "}")
		if x.Default != nil {
			p.str(" = ")
			p.expr(x.Default)
		}
	}
	p.str(")")
}

func escapeName(s string) string {
	return strings.NewReplacer("`", "``", "}", "`}", "{", "`{").Replace(s)
}

func (p *printer) attribute(a *Attribute) {
	p.str("[", a.Name, "(")
	n := 0
	sep := func() {
		if n++; n > 1 {
			p.str(", ")
		}
	}
	for _, x := range a.Args {
		sep()
		p.expr(x)
	}
	for _, x := range a.Named {
		sep()
		p.str(x.Name)
		if x.Value != nil {
			p.str("=")
			p.expr(x.Value)
		}
	}
	p.str(")]")
}

func (p *printer) label(l string) {
	if l != "" {
		p.str(":", l, " ")
	}
}

func (p *printer) stmt(s Stmt) {
	switch s := s.(type) {
	case *Pipeline:
		for i, e := range s.Elements {
			if i > 0 {
				p.str(" | ")
			}
			p.element(e)
		}
	case *Chain:
		p.stmt(s.Left)
		p.str(" ", s.Op, " ")
		p.stmt(s.Right)
	case *Assign:
		p.expr(s.Left)
		p.str(" ", s.Op, " ")
		p.stmt(s.Right)
	case *IfStmt:
		p.ifStmt(s)
	case *LoopStmt:
		p.loop(s)
	case *ForStmt:
		p.label(s.Label)
		p.str("for (")
		for i, x := range []Stmt{s.Init, s.Cond, s.Step} {
			if i > 0 {
				p.str("; ")
			}
			if x != nil {
				p.stmt(x)
			}
		}
		p.str(") ")
		p.block(s.Body)
	case *ForeachStmt:
		p.label(s.Label)
		p.str("foreach (")
		p.expr(s.Var)
		p.str(" in ")
		p.stmt(s.In)
		p.str(") ")
		p.block(s.Body)
	case *SwitchStmt:
		p.switchStmt(s)
	case *FunctionStmt:
		p.function(s)
	case *FlowStmt:
		p.str(s.Kind.String())
		if s.Label != nil {
			p.str(" ")
			p.arg(s.Label)
		}
		if s.Value != nil {
			p.str(" ")
			p.stmt(s.Value)
		}
	case *TryStmt:
		p.try(s)
	case *TrapStmt:
		p.str("trap ")
		if s.Type != nil {
			p.str("[", s.Type.String(), "] ")
		}
		p.block(s.Body)
	}
}

func (p *printer) ifStmt(s *IfStmt) {
	for i, c := range s.Clauses {
		if i > 0 {
			p.str(" else")
		}
		p.str("if (")
		p.stmt(c.Cond)
		p.str(") ")
		p.block(c.Body)
	}
	if s.Else != nil {
		p.str(" else ")
		p.block(s.Else)
	}
}

func (p *printer) loop(s *LoopStmt) {
	p.label(s.Label)
	if s.Kind == While {
		p.str("while (")
		p.stmt(s.Cond)
		p.str(") ")
		p.block(s.Body)
		return
	}
	p.str("do ")
	p.block(s.Body)
	p.str(map[LoopKind]string{DoWhile: " while (", DoUntil: " until ("}[s.Kind])
	p.stmt(s.Cond)
	p.str(")")
}

func (p *printer) switchStmt(s *SwitchStmt) {
	p.label(s.Label)
	p.str("switch ")
	if s.Match != MatchExact {
		p.str("-", s.Match.String(), " ")
	}
	if s.CaseSensitive {
		p.str("-casesensitive ")
	}
	if s.File {
		p.str("-file ")
		p.arg(s.On.(*Pipeline).Elements[0].(*CommandExpr).X)
		p.str(" ")
	} else {
		p.str("(")
		p.stmt(s.On)
		p.str(") ")
	}
	p.str("{\n")
	for _, c := range s.Clauses {
		p.arg(c.Pattern)
		p.str(" ")
		p.block(c.Body)
		p.str("\n")
	}
	if s.Default != nil {
		p.str("default ")
		p.block(s.Default)
		p.str("\n")
	}
	p.str("}")
}

func (p *printer) function(s *FunctionStmt) {
	if s.Filter {
		p.str("filter ")
	} else {
		p.str("function ")
	}
	p.str(s.Name, " ")
	if s.Params != nil {
		p.params(s.Params)
		p.str(" ")
	}
	p.str("{\n")
	p.script(s.Body)
	p.str("}")
}

func (p *printer) try(s *TryStmt) {
	p.str("try ")
	p.block(s.Body)
	for _, c := range s.Catches {
		p.str(" catch ")
		for i, t := range c.Types {
			if i > 0 {
				p.str(", ")
			}
			p.str("[", t.String(), "]")
		}
		p.str(" ")
		p.block(c.Body)
	}
	if s.Finally != nil {
		p.str(" finally ")
		p.block(s.Finally)
	}
}

func (p *printer) element(e PipelineElement) {
	switch e := e.(type) {
	case *CommandExpr:
		p.expr(e.X)
		p.redirects(e.Redirect)
	case *Command:
		if e.Invoke != "" {
			p.str(e.Invoke, " ")
			p.arg(e.Name)
		} else {
			p.name(e.Name)
		}
		verbatim := false
		for _, a := range e.Args {
			p.str(" ")
			if s, ok := a.Value.(*String); ok && verbatim && a.Param == "" {
				p.str(s.Value)
				continue
			}
			if a.Param != "" {
				p.str("-", a.Param)
				if a.HasColon {
					p.str(":")
					p.arg(a.Value)
				}
				continue
			}
			if s, ok := a.Value.(*String); ok && s.Bare && s.Value == "--%" {
				verbatim = true
				p.str("--%")
				continue
			}
			p.arg(a.Value)
		}
		p.redirects(e.Redirect)
	}
}

func (p *printer) redirects(list []*Redirect) {
	for _, r := range list {
		p.str(" ")
		switch {
		case r.Stream == 0:
			p.str("*")
		case r.Stream != 1 || r.Merge != 0:
			p.str(string(rune('0' + r.Stream)))
		}
		p.str(">")
		if r.Append {
			p.str(">")
		}
		if r.Merge != 0 {
			p.str("&", string(rune('0'+r.Merge)))
			continue
		}
		p.str(" ")
		p.arg(r.File)
	}
}
