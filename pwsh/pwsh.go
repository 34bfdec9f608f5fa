// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package pwsh runs PowerShell scripts in a Go program: a subset of Windows
// PowerShell 5.1 and PowerShell 7.4, without their runtime.
//
// A [Runner] is a session. It parses and runs scripts one after another, and
// keeps variables and functions between them. A script has access only through the
// session's [host.Handlers]: without a file system there are no files, and
// without a network there are no connections. Package oshost provides the
// handlers of the machine, package host/hosttest handlers for tests.
//
// Commands and .NET types written in Go are added with [Config.Cmdlets] and
// [Config.Types].
//
// A construct, cmdlet, parameter, type or member outside of the subset ends its
// statement with an error that names it. docs/fidelity/pwsh.md of the repository
// lists the subset and the differences from PowerShell.
package pwsh

import (
	"context"
	"fmt"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/cmdlet"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
)

// Edition is a dialect of PowerShell.
type Edition int

const (
	// Desktop is Windows PowerShell 5.1, powershell.exe.
	Desktop Edition = iota
	// Core is PowerShell 7.4, pwsh.exe.
	Core
)

func (e Edition) dialect() syntax.Edition {
	if e == Core {
		return syntax.Core
	}
	return syntax.Desktop
}

// Config describes a session. The zero value is a session of Windows PowerShell
// that computes, without access to anything outside of itself.
type Config struct {
	// Handlers perform every effect of a script, writing its output included.
	Handlers host.Handlers
	// Edition is the dialect.
	Edition Edition
	// Windows selects Windows' rules for paths: drives, backslashes, and names
	// without case.
	Windows bool
	// Dir is the session's first location, an absolute path. The default is the
	// root directory.
	Dir string
	// Cmdlets are commands in addition to the built-in ones. One with the name of
	// a built-in cmdlet replaces it.
	Cmdlets []Cmdlet
	// Types are .NET types in addition to the built-in ones. One with the name
	// of a built-in type replaces it.
	Types []Type
	// MaxDepth limits nested calls. The default is 250.
	MaxDepth int
	// MaxStatements limits the statements that one script runs; 0 means that
	// only the context limits it.
	MaxStatements int64
}

// Runner is a session. It is not safe for concurrent use.
type Runner struct {
	r       *interp.Runner
	edition Edition
}

// New starts a session. The caller closes it.
func New(cfg Config) (*Runner, error) {
	lib := cmdlet.Library()
	names := map[string]bool{}
	for i := range cfg.Cmdlets {
		c := &cfg.Cmdlets[i]
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("start PowerShell session: %w", err)
		}
		key := strings.ToLower(c.Name)
		if names[key] {
			return nil, fmt.Errorf("start PowerShell session: two cmdlets are named %s", c.Name)
		}
		names[key] = true
		lib.Cmdlets = append(lib.Cmdlets, c.internal())
	}
	for i := range cfg.Types {
		t := &cfg.Types[i]
		if t.Name == "" {
			return nil, fmt.Errorf("start PowerShell session: type %d of Config.Types has no name", i)
		}
		lib.Classes = append(lib.Classes, t.class())
	}
	dir := cfg.Dir
	if dir == "" {
		if dir = "/"; cfg.Windows {
			dir = `C:\`
		}
	}
	r, err := interp.New(interp.Config{
		Handlers: cfg.Handlers,
		Library:  lib,
		Edition:  cfg.Edition.dialect(),
		Windows:  cfg.Windows,
		Dir:      dir,
		MaxDepth: cfg.MaxDepth,
		MaxSteps: cfg.MaxStatements,
	})
	if err != nil {
		return nil, err
	}
	return &Runner{r: r, edition: cfg.Edition}, nil
}

// Close ends the session and closes files and connections that its scripts left open.
func (r *Runner) Close() { r.r.Close() }

// Result is how a script ended.
type Result struct {
	// Exit is the code of the exit statement that ended the script. Exited
	// reports whether there was one.
	Exit   int
	Exited bool
	// Failed reports whether an uncaught error ended the script.
	Failed bool
	// OK is the last value of $?: whether the last command succeeded.
	OK bool
}

func resultOf(r interp.Result) Result {
	return Result{
		Exit:   r.Exit,
		Exited: r.Exited,
		Failed: r.Failed,
		OK:     r.OK,
	}
}

// Run parses and runs a script and writes its results to Handlers.Stdout as
// PowerShell's console would. Errors of the script, in its syntax too, are
// written to Handlers.Stderr and show in the result. The error that Run returns
// comes from ctx, from a limit in the Config, or from writing.
func (r *Runner) Run(ctx context.Context, text string) (Result, error) {
	res, err := r.r.RunText(ctx, "", text)
	return resultOf(res), err
}

// RunFile runs a script file with arguments, as powershell.exe -File does. The
// file is read through Handlers.Files.
func (r *Runner) RunFile(ctx context.Context, path string, args ...string) (Result, error) {
	res, err := r.r.RunScriptFile(ctx, r.r.Path(path), args)
	return resultOf(res), err
}

// RunScript is Run for a script that is already parsed. Its edition must be the
// session's.
func (r *Runner) RunScript(ctx context.Context, s *Script) (Result, error) {
	if s.edition != r.edition {
		return Result{}, fmt.Errorf("run script %s: it was parsed as another edition than the session's", s.name)
	}
	res, err := r.r.Run(ctx, s.block)
	return resultOf(res), err
}

// Eval parses and runs a script and returns the objects that it writes, as Go
// values (see [Cmdlet] for the types). Its output to other streams goes to
// the console. Eval returns a *[SyntaxError] if the script does not parse, and a
// *[ScriptError] if an error ends it: one of throw or -ErrorAction Stop, or any
// error after $ErrorActionPreference = 'Stop'.
func (r *Runner) Eval(ctx context.Context, text string) ([]any, error) {
	s, err := Parse("", text, r.edition)
	if err != nil {
		return nil, err
	}
	items, rec, err := r.r.Eval(ctx, s.block)
	out := make([]any, len(items))
	for i, v := range items {
		out[i] = toGo(r.r, v)
	}
	if rec != nil {
		return out, scriptError(rec)
	}
	return out, err
}

// Get returns a variable of the session as a Go value. It reports false if
// there is no variable of that name.
func (r *Runner) Get(name string) (any, bool) {
	v, ok := r.r.GetVariable(name)
	return toGo(r.r, v), ok
}

// Set assigns a Go value to a variable of the session.
func (r *Runner) Set(name string, v any) error {
	if _, err := r.r.SetVariable(name, fromGo(v), ""); err != nil {
		return fmt.Errorf("set $%s: %w", name, err)
	}
	return nil
}
