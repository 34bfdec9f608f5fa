// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"errors"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// block runs a list of statements.
func (r *Runner) block(b *syntax.Block, out Sink) error {
	if b == nil {
		return nil
	}
	for _, s := range b.Stmts {
		err := r.stmt(s, out)
		if err == nil {
			continue
		}
		if err = r.trapped(b, err, s, out); err != nil {
			return err
		}
	}
	return nil
}

// trapped handles the error of a statement: control flow and errors inside of a
// try go on unwinding; a trap may handle it; a statement-terminating error is
// shown, and the script goes on with the next statement.
func (r *Runner) trapped(b *syntax.Block, err error, at syntax.Node, out Sink) error {
	if isFlow(err) {
		return err
	}
	err = r.thrown(err, at)
	var t *Thrown
	if !errors.As(err, &t) {
		return err
	}
	for _, trap := range b.Traps {
		if trap.Type == nil || r.catches(t.Record, trap.Type) {
			return r.runTrap(trap, t, out)
		}
	}
	if t.Script || r.tries > 0 {
		return t
	}
	switch strings.ToLower(value.String(r.pref("ErrorActionPreference"))) {
	case "stop":
		t.Script = true
		return t
	case "silentlycontinue":
		r.remember(t.Record)
	case "ignore":
	default:
		r.remember(t.Record)
		if err := r.showError(t.Record); err != nil {
			return err
		}
	}
	r.ok = false
	return nil
}

func (r *Runner) runTrap(trap *syntax.TrapStmt, t *Thrown, out Sink) error {
	r.remember(t.Record)
	err := r.inScope(func() error {
		r.scope.set("_", "_", t.Record)
		return r.block(trap.Body, out)
	})
	if f, ok := errors.AsType[*flow](err); ok {
		switch f.kind {
		case syntax.Continue:
			return nil
		case syntax.Break:
			t.Script = true
			return t
		}
	}
	if err != nil {
		return err
	}
	if t.Script && r.tries > 0 {
		return t
	}
	return r.showError(t.Record)
}

func (r *Runner) inScope(f func() error) error {
	r.scope = newScope(r.scope)
	defer func() { r.scope = r.scope.parent }()
	return f()
}

// stmt runs one statement.
func (r *Runner) stmt(s syntax.Stmt, out Sink) error {
	if err := r.step(); err != nil {
		return err
	}
	switch s := s.(type) {
	case *syntax.Pipeline:
		return r.pipelineStmt(s, out)
	case *syntax.Assign:
		return r.assign(s)
	case *syntax.IfStmt:
		return r.ifStmt(s, out)
	case *syntax.LoopStmt:
		return r.loop(s, out)
	case *syntax.ForStmt:
		return r.forLoop(s, out)
	case *syntax.ForeachStmt:
		return r.foreach(s, out)
	case *syntax.SwitchStmt:
		return r.switchStmt(s, out)
	case *syntax.FunctionStmt:
		r.Define(r.scope, s.Name, &Function{
			Name:   s.Name,
			Filter: s.Filter,
			Params: s.Params,
			Block:  &ScriptBlock{Body: s.Body},
		})
		return nil
	case *syntax.FlowStmt:
		return r.flowStmt(s, out)
	case *syntax.TryStmt:
		return r.try(s, out)
	case *syntax.Chain:
		return r.chain(s, out)
	case *syntax.TrapStmt:
		return nil // its block has it
	}
	return NotImplemented("this statement")
}

func (r *Runner) chain(s *syntax.Chain, out Sink) error {
	err := r.stmt(s.Left, out)
	if err != nil {
		if err = r.trapped(&syntax.Block{}, err, s.Left, out); err != nil {
			return err
		}
	}
	if r.ok == (s.Op == "&&") {
		return r.stmt(s.Right, out)
	}
	return nil
}

// value runs a statement for its results: a lone expression keeps its value as
// it is, everything else is collected.
func (r *Runner) value(s syntax.Stmt) (any, error) {
	if p, ok := s.(*syntax.Pipeline); ok && len(p.Elements) == 1 {
		if ce, ok := p.Elements[0].(*syntax.CommandExpr); ok && len(ce.Redirect) == 0 {
			v, err := r.eval(ce.X)
			if err == nil {
				r.ok = true
			}
			if v == Void {
				v = nil
			}
			return v, err
		}
	}
	if a, ok := s.(*syntax.Assign); ok { // `$x = $y = 5`: an assignment has a value
		if err := r.assign(a); err != nil {
			return nil, err
		}
		return r.eval(a.Left)
	}
	items, err := r.collect(func(out Sink) error { return r.stmt(s, out) })
	return value.Collapse(items), err
}

// collect gathers the output of f.
func (r *Runner) collect(f func(out Sink) error) ([]any, error) {
	var items []any
	err := f(Sink{Emit: func(v any) error {
		if len(items) >= value.MaxItems {
			return value.ErrTooLarge
		}
		items = append(items, v)
		return nil
	}})
	return items, err
}

func (r *Runner) cond(s syntax.Stmt) (bool, error) {
	v, err := r.value(s)
	return value.Bool(v), err
}

func (r *Runner) ifStmt(s *syntax.IfStmt, out Sink) error {
	for _, c := range s.Clauses {
		yes, err := r.cond(c.Cond)
		if err != nil {
			return err
		}
		if yes {
			return r.block(c.Body, out)
		}
	}
	return r.block(s.Else, out)
}

// loopBody runs a loop's body once; if stop is true, the loop ends.
func (r *Runner) loopBody(b *syntax.Block, label string, out Sink) (stop bool, err error) {
	if err := r.step(); err != nil {
		return true, err
	}
	err = r.block(b, out)
	if err == nil {
		return false, nil
	}
	if f, ok := err.(*flow); ok && f.kind != syntax.Return && (f.label == "" || strings.EqualFold(f.label, label)) {
		return f.kind == syntax.Break, nil
	}
	return true, err
}

func (r *Runner) loop(s *syntax.LoopStmt, out Sink) error {
	for first := true; ; first = false {
		if s.Kind == syntax.While || !first {
			yes, err := r.cond(s.Cond)
			if err != nil {
				return err
			}
			if yes == (s.Kind == syntax.DoUntil) {
				return nil
			}
		}
		if stop, err := r.loopBody(s.Body, s.Label, out); stop || err != nil {
			return err
		}
	}
}

func (r *Runner) forLoop(s *syntax.ForStmt, out Sink) error {
	drop := Sink{Emit: func(any) error { return nil }}
	if s.Init != nil {
		if err := r.stmt(s.Init, drop); err != nil {
			return err
		}
	}
	for {
		if s.Cond != nil {
			yes, err := r.cond(s.Cond)
			if err != nil || !yes {
				return err
			}
		}
		if stop, err := r.loopBody(s.Body, s.Label, out); stop || err != nil {
			return err
		}
		if s.Step != nil {
			if err := r.stmt(s.Step, drop); err != nil {
				return err
			}
		}
	}
}

func (r *Runner) foreach(s *syntax.ForeachStmt, out Sink) error {
	v, err := r.value(s.In)
	if err != nil {
		return err
	}
	items, ok := value.Items(v)
	if !ok {
		if v == nil {
			return nil
		}
		items = []any{v}
	}
	for _, x := range items {
		if err := r.setVar(s.Var, x); err != nil {
			return err
		}
		if stop, err := r.loopBody(s.Body, s.Label, out); stop || err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) flowStmt(s *syntax.FlowStmt, out Sink) error {
	switch s.Kind {
	case syntax.Return:
		if s.Value != nil {
			if err := r.stmt(s.Value, out); err != nil {
				return err
			}
		}
	case syntax.Exit:
		code := 0
		if s.Value != nil {
			v, err := r.value(s.Value)
			if err != nil {
				return err
			}
			if n, err := value.ToInt(v); err == nil {
				code = n
			}
		}
		return &exitError{code}
	case syntax.Throw:
		return r.throwStmt(s)
	default:
		label := ""
		if s.Label != nil {
			v, err := r.eval(s.Label)
			if err != nil {
				return err
			}
			label = value.String(v)
		}
		return &flow{s.Kind, label}
	}
	return &flow{kind: s.Kind}
}

func (r *Runner) throwStmt(s *syntax.FlowStmt) error {
	var v any
	if s.Value != nil {
		var err error
		if v, err = r.value(s.Value); err != nil {
			return err
		}
	}
	switch x := value.Unwrap(v).(type) {
	case *ErrorRecord:
		return &Thrown{Record: x, Script: true}
	case *Exception:
		rec := r.record(x, s, "")
		if x.ID == "" {
			rec.FQID = x.Message
		}
		rec.Category = "OperationStopped"
		return &Thrown{Record: rec, Script: true}
	case nil:
		if s.Value == nil {
			if cur, ok := r.GetVariable("_"); ok {
				if rec, ok := cur.(*ErrorRecord); ok { // throw alone in a catch
					return &Thrown{Record: rec, Script: true}
				}
			}
			v = "ScriptHalted"
		}
	}
	text := value.String(v)
	ex := &Exception{
		Type:     "System.Management.Automation.RuntimeException",
		Message:  text,
		ID:       text,
		Category: "OperationStopped",
		Target:   v,
	}
	return &Thrown{Record: r.record(ex, s, ""), Script: true}
}

func (r *Runner) try(s *syntax.TryStmt, out Sink) (err error) {
	if s.Finally != nil {
		defer func() {
			if _, dead := err.(*abort); dead {
				return
			}
			if ferr := r.block(s.Finally, out); ferr != nil {
				err = ferr
			}
		}()
	}
	if len(s.Catches) > 0 {
		r.tries++
	}
	saved := r.scope
	err = r.block(s.Body, out)
	if len(s.Catches) > 0 {
		r.tries--
	}
	if err == nil || isFlow(err) || len(s.Catches) == 0 {
		return err
	}
	r.scope = saved
	err = r.thrown(err, s)
	var t *Thrown
	if !errors.As(err, &t) {
		return err
	}
	for _, c := range s.Catches {
		if !r.catchesAny(t.Record, c.Types) {
			continue
		}
		r.remember(t.Record)
		old, had := r.scope.vars["_"]
		r.scope.set("_", "_", t.Record)
		if had {
			saved := *old
			old = &saved
			r.scope.vars["_"] = &Variable{Name: "_", Value: t.Record}
		}
		err := r.block(c.Body, out)
		if had {
			r.scope.vars["_"] = old
		} else {
			delete(r.scope.vars, "_")
		}
		return err
	}
	return t
}

func (r *Runner) catchesAny(rec *ErrorRecord, types []*syntax.TypeName) bool {
	for _, t := range types {
		if r.catches(rec, t) {
			return true
		}
	}
	return len(types) == 0
}

// catches reports whether an exception is of a type.
func (r *Runner) catches(rec *ErrorRecord, t *syntax.TypeName) bool {
	want := strings.ToLower(t.Name)
	if full, ok := value.Accelerated(want); ok {
		want = strings.ToLower(full)
	}
	for ex := rec.Exception; ex != nil; ex = ex.Inner {
		for _, name := range r.ancestors(ex.Type) {
			name = strings.ToLower(name)
			if name == want || name == "system."+want {
				return true
			}
		}
	}
	return false
}

func (r *Runner) switchStmt(s *syntax.SwitchStmt, out Sink) error {
	v, err := r.value(s.On)
	if err != nil {
		return err
	}
	items, ok := value.Items(v)
	if !ok {
		items = []any{v}
	}
	if s.File {
		text, err := r.ReadText(value.String(v))
		if err != nil {
			return err
		}
		items = nil
		for _, l := range SplitLines(text) {
			items = append(items, l)
		}
	}
	for _, x := range items {
		if err := r.step(); err != nil {
			return err
		}
		err := r.switchItem(s, x, out)
		if f, ok := err.(*flow); ok && f.kind != syntax.Return &&
			(f.label == "" || strings.EqualFold(f.label, s.Label)) {
			if f.kind == syntax.Break {
				return nil
			}
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) switchItem(s *syntax.SwitchStmt, x any, out Sink) error {
	restore := r.pushInput(x)
	defer restore()
	matched := false
	for _, c := range s.Clauses {
		yes, err := r.switchMatch(s, c.Pattern, x)
		if err != nil {
			return err
		}
		if !yes {
			continue
		}
		matched = true
		if err := r.block(c.Body, out); err != nil {
			return err
		}
	}
	if !matched {
		return r.block(s.Default, out)
	}
	return nil
}

// pushInput sets $_ until the returned function is called.
func (r *Runner) pushInput(x any) func() {
	s := r.scope
	old, had := s.vars["_"]
	if s.vars == nil {
		s.vars = map[string]*Variable{}
	}
	s.vars["_"] = &Variable{Name: "_", Value: x}
	return func() {
		if had {
			s.vars["_"] = old
		} else {
			delete(s.vars, "_")
		}
	}
}

func (r *Runner) switchMatch(s *syntax.SwitchStmt, pattern syntax.Expr, x any) (bool, error) {
	if b, ok := pattern.(*syntax.BlockExpr); ok {
		items, err := r.collect(func(out Sink) error { return r.bodyBlocks(b.Body, out) })
		return value.Bool(value.Collapse(items)), err
	}
	p, err := r.eval(pattern)
	if err != nil {
		return false, err
	}
	switch s.Match {
	case syntax.MatchWildcard:
		return value.Like(value.String(x), value.String(p), s.CaseSensitive), nil
	case syntax.MatchRegex:
		return r.match(value.String(x), value.String(p), s.CaseSensitive)
	}
	if t, ok := p.(string); ok {
		return value.Equal(t, value.String(x), s.CaseSensitive), nil
	}
	return value.Equal(p, x, s.CaseSensitive), nil
}
