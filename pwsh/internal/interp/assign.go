// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// assign runs an assignment.
func (r *Runner) assign(s *syntax.Assign) error {
	v, err := r.value(s.Right)
	if err != nil {
		return err
	}
	if s.Op != "=" {
		old, err := r.eval(s.Left)
		if err != nil {
			return err
		}
		if v, err = r.combine(s.Op, old, v); err != nil {
			return err
		}
	}
	return r.assignTo(s.Left, v)
}

// combine returns the value that a compound assignment stores.
func (r *Runner) combine(op string, old, v any) (any, error) {
	if op != "??=" {
		return r.operate(strings.TrimSuffix(op, "="), old, v, false)
	}
	if old != nil {
		return old, nil
	}
	return v, nil
}

func (r *Runner) assignTo(left syntax.Expr, v any) error {
	switch x := left.(type) {
	case *syntax.Variable:
		return r.setVar(x, v)
	case *syntax.Cast:
		return r.assignTyped(x, v)
	case *syntax.Member:
		return r.setMember(x, v)
	case *syntax.Index:
		return r.setIndex(x, v)
	case *syntax.ArrayLit:
		items, ok := value.Items(v)
		if !ok {
			items = []any{v}
		}
		for i, e := range x.Elems {
			var part any
			switch {
			case i == len(x.Elems)-1 && len(items) > i+1:
				part = value.NewArray(items[i:]...)
			case i < len(items):
				part = items[i]
			}
			if err := r.assignTo(e, part); err != nil {
				return err
			}
		}
		return nil
	case *syntax.Paren:
		if p, ok := x.X.(*syntax.Pipeline); ok {
			return r.assignTo(p.Elements[0].(*syntax.CommandExpr).X, v)
		}
	}
	return NotImplemented("this assignment")
}

// assignTyped is `[type]$x = v`: the variable keeps the type.
func (r *Runner) assignTyped(c *syntax.Cast, v any) error {
	v, err := r.convert(v, c.Type)
	if err != nil {
		return err
	}
	if err := r.assignTo(c.X, v); err != nil {
		return err
	}
	if x, ok := c.X.(*syntax.Variable); ok {
		s := r.scope
		if x.Scope != "" {
			s, _ = r.scopeOf(x.Scope)
		}
		if s != nil && s.vars[x.Lower] != nil {
			s.vars[x.Lower].Type = c.Type
		}
	}
	return nil
}
