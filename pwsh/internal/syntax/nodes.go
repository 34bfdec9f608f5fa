// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package syntax

import "strings"

// Pos is a byte offset into the source, from 0.
type Pos int32

// Span is the half-open range of source that a node covers.
type Span struct{ From, To Pos }

// Pos returns the offset of the node's first byte.
func (s Span) Pos() Pos { return s.From }

// End returns the offset after the node's last byte.
func (s Span) End() Pos { return s.To }

// Node is any part of the tree.
type Node interface {
	Pos() Pos
	End() Pos
}

// Stmt is a statement; Expr is an expression.
type (
	Stmt interface {
		Node
		stmt()
	}
	Expr interface {
		Node
		expr()
	}
)

// Source is the text that a tree was made of, kept for error messages.
type Source struct {
	Name string // file name, or empty for a command line
	Text string
}

// ScriptBlock is a whole script, a function's body or a `{ … }` literal.
// Statements outside of named blocks are in End. Process and Begin are nil
// where the script has no such block.
type ScriptBlock struct {
	Span
	Source     *Source
	Using      []*UsingStmt
	Param      *ParamBlock
	Begin      *Block
	Process    *Block
	EndBlock   *Block
	NamedEnd   bool // the end block was written `end { … }`
	FilterKind bool // body of a `filter`: statements are in Process
}

// Block is a list of statements with its traps.
type Block struct {
	Span
	Stmts []Stmt
	Traps []*TrapStmt
}

// UsingStmt is `using namespace X`.
type UsingStmt struct {
	Span
	Kind, Name string
}

// ParamBlock is `[attributes] param( … )`.
type ParamBlock struct {
	Span
	Attributes []*Attribute
	Params     []*Param
}

// Param is one declared parameter.
type Param struct {
	Span
	Attributes []*Attribute
	Type       *TypeName // nil when untyped
	Name       string
	Default    Expr // nil when absent
}

// Attribute is `[Name(positional, Key=value)]`.
type Attribute struct {
	Span
	Name  string
	Args  []Expr
	Named []AttributeArg
}

// AttributeArg is `Key=Value`, or only `Key` (Value nil: true).
type AttributeArg struct {
	Name  string
	Value Expr
}

// TypeName is the text between the brackets of a type literal.
type TypeName struct {
	Span
	Name string
	Args []*TypeName // of a generic type
	Rank int         // number of trailing []
}

// String spells the type as PowerShell does.
func (t *TypeName) String() string {
	var s strings.Builder
	s.WriteString(t.Name)
	for i, a := range t.Args {
		if i == 0 {
			s.WriteString("[")
		} else {
			s.WriteString(",")
		}
		s.WriteString(a.String())
	}
	if len(t.Args) > 0 {
		s.WriteString("]")
	}
	for range t.Rank {
		s.WriteString("[]")
	}
	return s.String()
}

// The statements.
type (
	// Pipeline is one or more elements joined by `|`.
	Pipeline struct {
		Span
		Elements []PipelineElement
	}
	// Chain is `left && right` or `left || right` (PowerShell 7).
	Chain struct {
		Span
		Left, Right Stmt
		Op          string
	}
	// Assign is `left op right`; Right is any statement that yields values.
	Assign struct {
		Span
		Left  Expr
		Op    string // = += -= *= /= %= ??=
		Right Stmt
	}
	// IfStmt is if/elseif/else.
	IfStmt struct {
		Span
		Clauses []IfClause
		Else    *Block
	}
	// IfClause is one condition and its block.
	IfClause struct {
		Cond Stmt
		Body *Block
	}
	// LoopStmt is while, do-while or do-until.
	LoopStmt struct {
		Span
		Label string
		Kind  LoopKind
		Cond  Stmt
		Body  *Block
	}
	// ForStmt is `for (init; cond; step)`; each part may be nil.
	ForStmt struct {
		Span
		Label            string
		Init, Cond, Step Stmt
		Body             *Block
	}
	// ForeachStmt is `foreach ($v in …)`.
	ForeachStmt struct {
		Span
		Label string
		Var   *Variable
		In    Stmt
		Body  *Block
	}
	// SwitchStmt is switch in each of its kinds.
	SwitchStmt struct {
		Span
		Label         string
		Match         SwitchMatch
		CaseSensitive bool
		File          bool
		On            Stmt
		Clauses       []SwitchClause
		Default       *Block
	}
	// SwitchClause is one pattern and its block.
	SwitchClause struct {
		Pattern Expr
		Body    *Block
	}
	// FunctionStmt declares a function or a filter.
	FunctionStmt struct {
		Span
		Name   string
		Filter bool
		Params []*Param // the parameters in parentheses after the name
		Body   *ScriptBlock
	}
	// FlowStmt is return, throw, exit, break or continue.
	FlowStmt struct {
		Span
		Kind  FlowKind
		Label Expr // of break and continue; nil when absent
		Value Stmt // of the others; nil when absent
	}
	// TryStmt is try/catch/finally.
	TryStmt struct {
		Span
		Body    *Block
		Catches []CatchClause
		Finally *Block
	}
	// CatchClause catches Types, or all errors if Types is empty.
	CatchClause struct {
		Types []*TypeName
		Body  *Block
	}
	// TrapStmt handles errors of its enclosing block.
	TrapStmt struct {
		Span
		Type *TypeName
		Body *Block
	}
)

// LoopKind is the kind of a loop.
type LoopKind uint8

// The loops.
const (
	While LoopKind = iota
	DoWhile
	DoUntil
)

// SwitchMatch is how a switch compares.
type SwitchMatch uint8

// The ways of comparing.
const (
	MatchExact SwitchMatch = iota
	MatchWildcard
	MatchRegex
)

// String returns the option's name.
func (m SwitchMatch) String() string {
	return [...]string{"exact", "wildcard", "regex"}[m]
}

// FlowKind is the kind of a flow statement.
type FlowKind uint8

// The flow statements.
const (
	Return FlowKind = iota
	Throw
	Exit
	Break
	Continue
)

// String returns the statement's keyword.
func (k FlowKind) String() string {
	return [...]string{"return", "throw", "exit", "break", "continue"}[k]
}

// PipelineElement is a *Command or a *CommandExpr.
type PipelineElement interface {
	Node
	element()
}

// Command is a command with its arguments.
type Command struct {
	Span
	Invoke   string // "", "&" or "."
	Name     Expr
	Args     []Arg
	Redirect []*Redirect
}

// CommandExpr is an expression in a pipeline.
type CommandExpr struct {
	Span
	X        Expr
	Redirect []*Redirect
}

// Arg is an argument, or a parameter with or without one (`-Name`,
// `-Name:value`).
type Arg struct {
	Span
	Param    string // without the dash; empty for a plain argument
	HasColon bool
	Value    Expr // nil for a parameter without `:value`
}

// Redirect is `n>file`, `n>>file` or `n>&m`.
type Redirect struct {
	Span
	Stream int // 1-6, 0 for *
	Append bool
	Merge  int // target of `>&m`; 0 when File is set
	File   Expr
}

// The expressions.
type (
	// Number is a numeric literal as written; Value is int32, int64 or float64.
	Number struct {
		Span
		Text  string
		Value any
	}
	// String is a literal without expansion: 'single', a bare word of a
	// command, or a here-string.
	String struct {
		Span
		Value string
		Bare  bool
	}
	// Expand is "double-quoted" text, or a bare word with expansions.
	Expand struct {
		Span
		Parts []Expr // *String, *Variable, *SubExpr, *Index, *Member…
		Bare  bool
	}
	// Variable is $name, ${name}, $scope:name or @name (a splat).
	Variable struct {
		Span
		Scope string // lower case, empty when not written
		Name  string
		Lower string // Name in lower case
		Splat bool
	}
	// ArrayLit is `a, b`; ArrayExpr is @( … ); SubExpr is $( … ); Paren is ( … ).
	ArrayLit struct {
		Span
		Elems []Expr
	}
	// ArrayExpr is @( … ).
	ArrayExpr struct {
		Span
		Body *Block
	}
	// SubExpr is $( … ).
	SubExpr struct {
		Span
		Body *Block
	}
	// Paren is ( … ).
	Paren struct {
		Span
		X Stmt
	}
	// Hash is @{ … }.
	Hash struct {
		Span
		Pairs []HashPair
	}
	// HashPair is one entry of a Hash.
	HashPair struct {
		Key   Expr
		Value Stmt
	}
	// BlockExpr is a script block literal.
	BlockExpr struct {
		Span
		Body *ScriptBlock
	}
	// Unary is a prefix operator, or ++/-- after its operand (Postfix).
	Unary struct {
		Span
		Op      string // lower case: - + ! -not -bnot -split -join , ++ --
		X       Expr
		Postfix bool
	}
	// Binary is an infix operator. Op is lower case without an i prefix
	// (-ieq is -eq); the c prefix is in CaseSensitive.
	Binary struct {
		Span
		Op            string
		CaseSensitive bool
		X, Y          Expr
		OpPos         Pos
	}
	// Ternary is `cond ? x : y` (PowerShell 7).
	Ternary struct {
		Span
		Cond, X, Y Expr
	}
	// Cast is `[type] x`.
	Cast struct {
		Span
		Type *TypeName
		X    Expr
	}
	// TypeExpr is a type literal.
	TypeExpr struct {
		Span
		Type *TypeName
	}
	// Member is x.name, x::name, and with Call a method call.
	Member struct {
		Span
		X        Expr
		Name     Expr // *String when written as a name
		Static   bool
		Call     bool
		Args     []Expr
		NullSafe bool // ?. of PowerShell 7
	}
	// Index is x[i].
	Index struct {
		Span
		X, I     Expr
		NullSafe bool
	}
)

func (*Pipeline) stmt()     {}
func (*Chain) stmt()        {}
func (*Assign) stmt()       {}
func (*IfStmt) stmt()       {}
func (*LoopStmt) stmt()     {}
func (*ForStmt) stmt()      {}
func (*ForeachStmt) stmt()  {}
func (*SwitchStmt) stmt()   {}
func (*FunctionStmt) stmt() {}
func (*FlowStmt) stmt()     {}
func (*TryStmt) stmt()      {}
func (*TrapStmt) stmt()     {}

func (*Command) element()     {}
func (*CommandExpr) element() {}

func (*Number) expr()    {}
func (*String) expr()    {}
func (*Expand) expr()    {}
func (*Variable) expr()  {}
func (*ArrayLit) expr()  {}
func (*ArrayExpr) expr() {}
func (*SubExpr) expr()   {}
func (*Paren) expr()     {}
func (*Hash) expr()      {}
func (*BlockExpr) expr() {}
func (*Unary) expr()     {}
func (*Binary) expr()    {}
func (*Ternary) expr()   {}
func (*Cast) expr()      {}
func (*TypeExpr) expr()  {}
func (*Member) expr()    {}
func (*Index) expr()     {}
