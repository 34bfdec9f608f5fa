// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// Variable is a variable of a scope.
type Variable struct {
	Name     string
	Value    any
	Type     *syntax.TypeName // a constraint: every value is converted
	ReadOnly bool
	Constant bool
	Private  bool
}

// scope is one level of names. Scopes are dynamic: a function sees its
// caller's variables. Source: about_Scopes.
type scope struct {
	parent *scope
	vars   map[string]*Variable
	funcs  map[string]*Function
	script bool // of a script file or the command line
}

func newScope(parent *scope) *scope { return &scope{parent: parent} }

// lookup finds a variable by its lower-case name.
func (s *scope) lookup(lower string) *Variable {
	for l := s; l != nil; l = l.parent {
		if v, ok := l.vars[lower]; ok && (!v.Private || l == s) {
			return v
		}
	}
	return nil
}

func (s *scope) set(name, lower string, val any) {
	if v, ok := s.vars[lower]; ok {
		v.Value = val
		return
	}
	if s.vars == nil {
		s.vars = map[string]*Variable{}
	}
	s.vars[lower] = &Variable{Name: name, Value: val}
}

func (s *scope) function(lower string) *Function {
	for l := s; l != nil; l = l.parent {
		if f, ok := l.funcs[lower]; ok {
			return f
		}
	}
	return nil
}

func (s *scope) global() *scope {
	for s.parent != nil {
		s = s.parent
	}
	return s
}

func (s *scope) scriptScope() *scope {
	for l := s; l != nil; l = l.parent {
		if l.script || l.parent == nil {
			return l
		}
	}
	return s
}

// scopeOf returns the scope that a written prefix names; ok is false for a drive.
func (r *Runner) scopeOf(prefix string) (*scope, bool) {
	switch prefix {
	case "global":
		return r.scope.global(), true
	case "script":
		return r.scope.scriptScope(), true
	case "local", "private", "variable":
		return r.scope, true
	case "using":
		return r.scope, true
	}
	return nil, false
}

// getVar reads a variable.
func (r *Runner) getVar(v *syntax.Variable) (any, error) {
	if v.Scope == "" {
		if x := r.scope.lookup(v.Lower); x != nil {
			return x.Value, nil
		}
		if x, ok := r.automatic(v.Lower); ok {
			return x, nil
		}
		if r.strict > 0 {
			return nil, r.fail("System.Management.Automation.RuntimeException", "VariableIsUndefined",
				"InvalidOperation", v.Name, "The variable '$%s' cannot be retrieved because it has not been set.",
				v.Name)
		}
		return nil, nil
	}
	if s, ok := r.scopeOf(v.Scope); ok {
		if v.Scope == "local" || v.Scope == "private" {
			if x, ok := s.vars[v.Lower]; ok {
				return x.Value, nil
			}
			return nil, nil
		}
		if x := s.lookup(v.Lower); x != nil {
			return x.Value, nil
		}
		x, _ := r.automatic(v.Lower)
		return x, nil
	}
	switch v.Scope {
	case "env":
		if s, ok := r.getenv(v.Name); ok {
			return s, nil
		}
		return nil, nil
	case "function":
		if f := r.scope.function(v.Lower); f != nil {
			return f.Block, nil
		}
		return nil, nil
	case "alias":
		if a, ok := r.aliases[v.Lower]; ok {
			return a, nil
		}
		return nil, nil
	}
	return nil, r.fail("System.Management.Automation.DriveNotFoundException", "DriveNotFound", "ObjectNotFound",
		v.Scope, "Cannot find drive. A drive with the name '%s' does not exist.", v.Scope)
}

func (r *Runner) getenv(name string) (string, bool) {
	if r.h.Env == nil {
		return "", false
	}
	return r.h.Env.Get(name)
}

// setVar assigns to a variable: in the scope that is written, else in the
// current one, which hides a caller's variable of that name.
func (r *Runner) setVar(v *syntax.Variable, val any) error {
	s := r.scope
	if v.Lower == "null" && v.Scope == "" {
		return nil // `$null = …` drops a value
	}
	if v.Scope != "" {
		var ok bool
		if s, ok = r.scopeOf(v.Scope); !ok {
			return r.setDrive(v, val)
		}
	}
	if x, ok := s.vars[v.Lower]; ok {
		return r.store(x, val)
	}
	if readOnly[v.Lower] {
		return r.notWritable(v.Name)
	}
	switch v.Lower {
	case "lastexitcode":
		if n, err := value.ToInt(val); err == nil {
			r.lastExit, r.exitSet = n, true
		}
		return nil
	}
	s.set(v.Name, v.Lower, val)
	if v.Scope == "private" {
		s.vars[v.Lower].Private = true
	}
	return nil
}

// readOnly are the automatic variables that a script cannot change.
var readOnly = map[string]bool{
	"true": true, "false": true, "null": true, "pid": true, "host": true, "psversiontable": true,
	"home": true, "error": true, "?": true, "executioncontext": true, "shellid": true, "pshome": true,
}

func (r *Runner) notWritable(name string) error {
	return r.fail("System.Management.Automation.SessionStateUnauthorizedAccessException", "VariableNotWritable",
		"WriteError", name, "Cannot overwrite variable %s because it is read-only or constant.", name)
}

func (r *Runner) store(x *Variable, val any) error {
	if x.ReadOnly || x.Constant {
		return r.notWritable(x.Name)
	}
	if x.Type != nil {
		c, err := r.convert(val, x.Type)
		if err != nil {
			return err
		}
		val = c
	}
	x.Value = val
	return nil
}

func (r *Runner) setDrive(v *syntax.Variable, val any) error {
	switch v.Scope {
	case "env":
		if r.h.Env == nil {
			return NotImplemented("the environment drive")
		}
		if text := value.String(val); text != "" {
			return r.h.Env.Set(v.Name, text)
		}
		return r.h.Env.Unset(v.Name)
	case "function":
		if b, ok := val.(*ScriptBlock); ok {
			r.Define(r.scope, v.Name, &Function{Name: v.Name, Block: b})
			return nil
		}
	case "alias":
		r.aliases[v.Lower] = value.String(val)
		return nil
	}
	return r.fail("System.Management.Automation.DriveNotFoundException", "DriveNotFound", "ObjectNotFound", v.Scope,
		"Cannot find drive. A drive with the name '%s' does not exist.", v.Scope)
}

// Define adds a function to a scope.
func (r *Runner) Define(s *scope, name string, f *Function) {
	if s == nil {
		s = r.scope
	}
	lower := strings.ToLower(name)
	if i := strings.IndexByte(lower, ':'); i > 0 {
		if t, ok := r.scopeOf(lower[:i]); ok {
			s, lower = t, lower[i+1:]
		}
	}
	if s.funcs == nil {
		s.funcs = map[string]*Function{}
	}
	s.funcs[lower] = f
}

// GetVariable reads a variable by name for a command.
func (r *Runner) GetVariable(name string) (any, bool) {
	lower := strings.ToLower(name)
	if x := r.scope.lookup(lower); x != nil {
		return x.Value, true
	}
	return r.automatic(lower)
}

// FindVariable returns a variable's record.
func (r *Runner) FindVariable(name string) *Variable { return r.scope.lookup(strings.ToLower(name)) }

// Variables lists every variable that is visible.
func (r *Runner) Variables() []*Variable {
	seen := map[string]bool{}
	var list []*Variable
	for s := r.scope; s != nil; s = s.parent {
		for k, v := range s.vars {
			if !seen[k] {
				seen[k] = true
				list = append(list, v)
			}
		}
	}
	return list
}

// SetVariable assigns to a variable of the named scope (empty: the current
// one; a number counts levels up).
func (r *Runner) SetVariable(name string, val any, where string) (*Variable, error) {
	s := r.scope
	switch w := strings.ToLower(where); w {
	case "", "local", "0":
	case "global":
		s = s.global()
	case "script":
		s = s.scriptScope()
	default:
		n, err := value.ToInt(w)
		if err != nil || n < 0 {
			return nil, fmtScope(where)
		}
		for ; n > 0 && s.parent != nil; n-- {
			s = s.parent
		}
	}
	lower := strings.ToLower(name)
	if x, ok := s.vars[lower]; ok {
		return x, r.store(x, val)
	}
	if readOnly[lower] {
		return nil, r.notWritable(name)
	}
	s.set(name, lower, val)
	return s.vars[lower], nil
}

func fmtScope(where string) error {
	return Failf("System.ArgumentException", "Argument", "InvalidArgument", where,
		"The scope number '%s' exceeds the number of active scopes.", where)
}

// RemoveVariable removes a variable.
func (r *Runner) RemoveVariable(name string) bool {
	lower := strings.ToLower(name)
	for s := r.scope; s != nil; s = s.parent {
		if _, ok := s.vars[lower]; ok {
			delete(s.vars, lower)
			return true
		}
	}
	return false
}

func (r *Runner) fail(typ, id, category string, target any, format string, args ...any) error {
	return Failf(typ, id, category, target, format, args...)
}
