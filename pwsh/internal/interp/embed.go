// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"context"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
)

// CallStatic calls a static method for a command.
func (r *Runner) CallStatic(class, method string, args []any) (any, error) {
	m, ok := r.find(class, strings.ToLower(method), true)
	if !ok || m.method == nil {
		return nil, NotImplemented("[" + class + "]::" + method)
	}
	return m.method.Fn(&Call{R: r, Args: args, Name: method})
}

// Show writes an object to the console.
func (r *Runner) Show(v any) error { return r.display.Add(v) }

// Operate applies a binary operator for a command.
func (r *Runner) Operate(op string, x, y any, sensitive bool) (any, error) {
	return r.operate(op, x, y, sensitive)
}

// RemoveFunction removes a function.
func (r *Runner) RemoveFunction(name string) {
	for s := r.scope; s != nil; s = s.parent {
		delete(s.funcs, strings.ToLower(name))
	}
}

// RunInline runs a block's statements in the current scope, as
// Invoke-Expression and dot-sourcing do.
func (r *Runner) RunInline(b *ScriptBlock, out Sink) error {
	st, err := r.blockStage(&Function{Block: b}, true, nil, out, nil)
	if err != nil {
		return err
	}
	return r.drive([]stage{st}, nil, nil)
}

// CallFunction runs a function with positional arguments in a scope of its
// own.
func (r *Runner) CallFunction(f *Function, args []any, out Sink) error {
	list := make([]argument, len(args))
	for i, a := range args {
		list[i] = argument{value: a}
	}
	st, err := r.blockStage(f, false, list, out, nil)
	if err != nil {
		return err
	}
	return r.drive([]stage{st}, nil, nil)
}

// AsCaller sets the position of an error to the running function's call, as
// Write-Error does; at the top it names the script's text.
func (r *Runner) AsCaller(rec *ErrorRecord) {
	if f := r.frame(); f != nil && f.callSource != nil && f.name != "" {
		rec.Prefix, rec.Caller = f.name, true
		rec.Source, rec.At = f.callSource, f.at
		return
	}
	if r.source != nil {
		rec.Prefix = strings.TrimSpace(r.source.Text)
		if r.source.Name != "" {
			rec.Prefix, rec.Caller = r.source.Name, true
		}
	}
}

// SetStrict is Set-StrictMode.
func (r *Runner) SetStrict(on bool) {
	r.strict = 0
	if on {
		r.strict = 1
	}
}

// ResetExit forgets $LASTEXITCODE.
func (r *Runner) ResetExit() { r.lastExit, r.exitSet = 0, false }

// RunScriptFile runs a script file with the words of a command line, as -File
// does: its exit statement ends the session.
func (r *Runner) RunScriptFile(ctx context.Context, path string, args []string) (Result, error) {
	return r.run(ctx, func(out Sink) error {
		list := make([]argument, len(args))
		for i, a := range args {
			list[i] = r.wordArgument(a)
		}
		st, err := r.scriptStage(path, false, list, out, nil)
		if err != nil {
			return err
		}
		return r.drive([]stage{st.(*scriptStage).functionStage}, nil, nil)
	})
}

// Eval runs a parsed script in the session's own scope and returns the objects
// that it writes. rec is the error that ended the script, if one did; it is not
// shown. err is the context's error or the error of a limit.
func (r *Runner) Eval(ctx context.Context, block *syntax.ScriptBlock) (items []any, rec *ErrorRecord, err error) {
	out := Sink{Emit: func(v any) error {
		items = append(items, v)
		return nil
	}}
	_, err = r.run(ctx, func(Sink) error {
		err := r.scriptBody(block, out, nil)
		if err == nil || isFlow(err) {
			return err
		}
		if err := r.ended(err); err != nil {
			return err
		}
		rec = r.record(err, nil, "")
		r.remember(rec)
		return nil
	})
	return items, rec, err
}
