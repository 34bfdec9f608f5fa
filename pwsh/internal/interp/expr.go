// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// void is the value of a method without a result; a pipeline drops it.
type void struct{}

// TypeName returns the .NET name.
func (void) TypeName() string { return "System.Void" }

// Text returns "".
func (void) Text() string { return "" }

// Void is the only value of its type.
var Void any = void{}

// eval computes an expression.
func (r *Runner) eval(x syntax.Expr) (any, error) {
	switch x := x.(type) {
	case *syntax.Number:
		return x.Value, nil
	case *syntax.String:
		return x.Value, nil
	case *syntax.Variable:
		return r.getVar(x)
	case *syntax.Expand:
		return r.expand(x)
	case *syntax.Binary:
		return r.binary(x)
	case *syntax.Unary:
		return r.unary(x)
	case *syntax.Member:
		return r.member(x)
	case *syntax.Index:
		return r.index(x)
	case *syntax.Paren:
		return r.paren(x)
	case *syntax.ArrayLit:
		return r.arrayLit(x)
	case *syntax.ArrayExpr:
		return r.arrayExpr(x)
	case *syntax.SubExpr:
		return r.subExpr(x.Body)
	case *syntax.Hash:
		return r.hash(x, false)
	case *syntax.BlockExpr:
		return &ScriptBlock{Body: x.Body}, nil
	case *syntax.Cast:
		return r.cast(x)
	case *syntax.TypeExpr:
		return r.resolveType(x.Type)
	case *syntax.Ternary:
		c, err := r.eval(x.Cond)
		if err != nil {
			return nil, err
		}
		if value.Bool(c) {
			return r.eval(x.X)
		}
		return r.eval(x.Y)
	}
	return nil, NotImplemented("this expression")
}

// paren is ( … ): an assignment inside returns its value.
func (r *Runner) paren(x *syntax.Paren) (any, error) {
	if a, ok := x.X.(*syntax.Assign); ok {
		if err := r.assign(a); err != nil {
			return nil, err
		}
		return r.eval(a.Left)
	}
	return r.value(x.X)
}

// isIncDec reports whether an expression is ++ or --, whose value a statement
// does not print.
func isIncDec(x syntax.Expr) bool {
	u, ok := x.(*syntax.Unary)
	return ok && (u.Op == "++" || u.Op == "--")
}

func (r *Runner) expand(x *syntax.Expand) (any, error) {
	var b strings.Builder
	for _, p := range x.Parts {
		if s, ok := p.(*syntax.String); ok {
			b.WriteString(s.Value)
			continue
		}
		v, err := r.eval(p)
		if err != nil {
			return nil, err
		}
		b.WriteString(r.Text(v))
		if b.Len() > value.MaxItems {
			return nil, value.ErrTooLarge
		}
	}
	return b.String(), nil
}

// Text returns a value as a string expansion writes it: collections are joined
// with $OFS.
func (r *Runner) Text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case *value.Object:
		if v.Base == nil {
			if s, ok := r.scriptText(v); ok {
				return s
			}
		}
	}
	if items, ok := value.Items(v); ok {
		sep := " "
		if o := r.scope.lookup("ofs"); o != nil {
			sep = value.String(o.Value)
		}
		var b strings.Builder
		for i, x := range items {
			if i > 0 {
				b.WriteString(sep)
			}
			if _, nested := value.Items(x); nested {
				b.WriteString(value.TypeName(x))
			} else {
				b.WriteString(r.Text(x))
			}
		}
		return b.String()
	}
	return value.String(v)
}

func (r *Runner) arrayLit(x *syntax.ArrayLit) (any, error) {
	items := make([]any, len(x.Elems))
	for i, e := range x.Elems {
		v, err := r.eval(e)
		if err != nil {
			return nil, err
		}
		if v == Void {
			v = nil
		}
		items[i] = v
	}
	return value.NewArray(items...), nil
}

func (r *Runner) arrayExpr(x *syntax.ArrayExpr) (any, error) {
	items, err := r.collect(func(out Sink) error { return r.block(x.Body, out) })
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		items = []any{}
	}
	return value.NewArray(items...), nil
}

func (r *Runner) subExpr(b *syntax.Block) (any, error) {
	items, err := r.collect(func(out Sink) error { return r.block(b, out) })
	return value.Collapse(items), err
}

func (r *Runner) hash(x *syntax.Hash, ordered bool) (any, error) {
	h := &value.Hash{Ordered: ordered}
	for _, p := range x.Pairs {
		k, err := r.eval(p.Key)
		if err != nil {
			return nil, err
		}
		if k == nil {
			return nil, r.fail("System.Management.Automation.RuntimeException", "NullArrayIndex", "InvalidArgument",
				nil, "A null key is not allowed in a hash literal.")
		}
		if _, dup := h.Get(k); dup {
			return nil, r.fail("System.Management.Automation.ParseException", "DuplicateKeyInHashLiteral",
				"ParserError", k, "Duplicate keys '%s' are not allowed in hash literals.", value.String(k))
		}
		v, err := r.value(p.Value)
		if err != nil {
			return nil, err
		}
		h.Set(k, v)
	}
	return h, nil
}

func (r *Runner) unary(x *syntax.Unary) (any, error) {
	if x.Op == "++" || x.Op == "--" {
		return r.increment(x)
	}
	v, err := r.eval(x.X)
	if err != nil {
		return nil, err
	}
	switch x.Op {
	case "-not":
		return !value.Bool(v), nil
	case "-":
		return value.Negate(v)
	case "+":
		return value.Number(v)
	case "-bnot":
		return bitNot(v)
	case ",":
		return value.NewArray(v), nil
	case "-join":
		return r.join(v, ""), nil
	case "-split":
		return r.splitWords(v), nil
	}
	return nil, NotImplemented("the operator " + x.Op)
}

func (r *Runner) increment(x *syntax.Unary) (any, error) {
	if v, ok := x.X.(*syntax.Variable); ok && v.Scope == "" { // the common case, without a second look-up
		if slot, ok := r.scope.vars[v.Lower]; ok && slot.Type == nil && !slot.ReadOnly && !slot.Constant {
			if n, ok := slot.Value.(int32); ok && n < 1<<30 && n > -1<<30 {
				d := int32(1)
				if x.Op == "--" {
					d = -1
				}
				slot.Value = n + d
				if x.Postfix {
					return n, nil
				}
				return n + d, nil
			}
		}
	}
	old, err := r.eval(x.X)
	if err != nil {
		return nil, err
	}
	if old == nil {
		old = int32(0)
	}
	if !value.IsNumber(old) {
		return nil, r.fail("System.Management.Automation.RuntimeException", "OperatorRequiresNumber",
			"InvalidOperation", nil, "The '%s' operator works only on numbers. The operand is a '%s'.", x.Op,
			value.TypeName(old))
	}
	var now any
	if x.Op == "++" {
		now, err = value.Add(old, int32(1))
	} else {
		now, err = value.Sub(old, int32(1))
	}
	if err != nil {
		return nil, err
	}
	if err := r.assignTo(x.X, now); err != nil {
		return nil, err
	}
	if x.Postfix {
		return old, nil
	}
	return now, nil
}

// operand computes a part of an expression.
func (r *Runner) operand(x syntax.Expr) (any, error) {
	v, err := r.eval(x)
	if v == Void {
		return nil, err
	}
	return v, err
}

func (r *Runner) binary(x *syntax.Binary) (any, error) {
	left, err := r.operand(x.X)
	if err != nil {
		return nil, err
	}
	switch x.Op { // operators that may skip their right side
	case "-and":
		if !value.Bool(left) {
			return false, nil
		}
		right, err := r.operand(x.Y)
		return value.Bool(right), err
	case "-or":
		if value.Bool(left) {
			return true, nil
		}
		right, err := r.operand(x.Y)
		return value.Bool(right), err
	case "??":
		if left != nil {
			return left, nil
		}
		return r.operand(x.Y)
	}
	right, err := r.operand(x.Y)
	if err != nil {
		return nil, err
	}
	if a, ok := left.(int32); ok {
		if b, ok := right.(int32); ok {
			if v, ok := intBinary(x.Op, a, b); ok {
				return v, nil
			}
		}
	}
	return r.operate(x.Op, left, right, x.CaseSensitive)
}

// intBinary does the operators on two Int32 that loops are made of.
func intBinary(op string, a, b int32) (any, bool) {
	switch op {
	case "-lt":
		return a < b, true
	case "-le":
		return a <= b, true
	case "-gt":
		return a > b, true
	case "-ge":
		return a >= b, true
	case "-eq":
		return a == b, true
	case "-ne":
		return a != b, true
	case "+":
		if s := int64(a) + int64(b); s == int64(int32(s)) {
			return int32(s), true
		}
	case "-":
		if s := int64(a) - int64(b); s == int64(int32(s)) {
			return int32(s), true
		}
	}
	return nil, false
}
