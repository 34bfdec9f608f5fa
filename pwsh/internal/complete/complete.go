// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package complete is Tab at the prompt: it completes names of files, commands,
// parameters and variables.
//
// Source, read 2026-11: the classes CompletionAnalysis and CompletionCompleters,
// and ReadLineWithTabCompletion, in github.com/PowerShell/PowerShell. For the
// subset here, Windows PowerShell 5.1 behaves the same.
package complete

import (
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// Cycle goes through the completions of a line, one with each Tab.
type Cycle struct {
	runner *interp.Runner
	last   string // the line that it returned
	prefix string // of the line, before the word that is completed
	list   []string
	at     int
}

// NewCycle returns a Cycle with the names of a session.
func NewCycle(r *interp.Runner) *Cycle { return &Cycle{runner: r} }

// Next returns the line with its next completion; back: with the one before. A
// line that cannot be completed is returned as it is.
func (c *Cycle) Next(line string, back bool) string {
	if c.list == nil || line != c.last {
		start, list := completions(c.runner, line)
		c.prefix, c.list, c.at = line[:start], list, -1
	}
	if len(c.list) == 0 {
		c.list = nil
		return line
	}
	switch {
	case !back:
		c.at = (c.at + 1) % len(c.list)
	case c.at > 0:
		c.at--
	default:
		c.at = len(c.list) - 1
	}
	c.last = c.prefix + c.list[c.at]
	return c.last
}

// completions returns the candidates for the end of a line, from start on.
func completions(r *interp.Runner, line string) (start int, list []string) {
	w := lastWord(line)
	if w.quote == 0 && w.place != redirected {
		switch {
		case strings.HasPrefix(w.text, "$"):
			if !strings.ContainsAny(w.text, `\/`) {
				return w.start, variables(r, w.text[1:])
			}
			w.text = expand(r, w.text)
		case w.place == argument && w.command != "" && strings.HasPrefix(w.text, "-"):
			if list = parameters(r, w.command, w.text[1:]); list != nil {
				return w.start, list
			}
		}
	}
	switch w.place {
	case command:
		if w.text == "" {
			return w.start, nil
		}
		list = append(files(r, w, false), commands(r, w)...)
	case argument:
		if w.command == "" && w.text == "" {
			return w.start, nil
		}
		list = files(r, w, forDirectories(r, w.command))
	case redirected:
		list = files(r, w, false)
	}
	return w.start, list
}

// forDirectories reports whether a command's argument is a directory.
func forDirectories(r *interp.Runner, name string) bool {
	if name == "" {
		return false
	}
	cmd, err := r.Lookup(name)
	return err == nil && (cmd.Name == "Set-Location" || cmd.Name == "Push-Location")
}

// matching returns the names that a written beginning has, in order and each once,
// whatever their case.
func matching(names []string, written string) []string {
	var list []string
	for _, n := range names {
		if value.Like(n, written+"*", false) {
			list = append(list, n)
		}
	}
	slices.SortStableFunc(list, func(a, b string) int {
		return strings.Compare(strings.ToLower(a), strings.ToLower(b))
	})
	return slices.CompactFunc(list, strings.EqualFold)
}

// commands completes the name of a command.
func commands(r *interp.Runner, w word) []string {
	if strings.ContainsAny(w.text, `/\:`) {
		return nil
	}
	var names []string
	for _, c := range r.Library().Cmdlets {
		names = append(append(names, c.Name), c.Aliases...)
	}
	for _, f := range r.Functions() {
		names = append(names, f.Name)
	}
	for alias := range r.Aliases() {
		names = append(names, alias) // session aliases; names above win
	}
	names = append(names, r.Programs()...)
	list := matching(names, w.text)
	for i, name := range list {
		if w.quote != 0 || needsQuotes(name) {
			list[i] = quoted(name, w)
		}
	}
	return list
}

// parameters completes the name of a parameter, and returns nil for a program.
func parameters(r *interp.Runner, name, written string) []string {
	cmd, err := r.Lookup(name)
	if err != nil || cmd.Path != "" || cmd.Script != "" {
		return nil
	}
	list := []string{}
	for _, p := range r.ParameterNames(cmd) {
		if value.Like(p, written+"*", false) {
			list = append(list, "-"+p)
		}
	}
	return list
}

// automatic are the names of variables that have no record.
var automatic = []string{"Error", "ExecutionContext", "false", "HOME", "Host", "IsCoreCLR", "IsLinux", "IsMacOS",
	"IsWindows", "LASTEXITCODE", "MyInvocation", "null", "PID", "PSBoundParameters", "PSCommandPath", "PSCulture",
	"PSEdition", "PSHOME", "PSScriptRoot", "PSUICulture", "PSVersionTable", "PWD", "ShellId", "true"}

// variables completes the name of a variable.
func variables(r *interp.Runner, written string) []string {
	var names []string
	prefix := "$"
	if scope, name, ok := strings.Cut(written, ":"); ok {
		if !strings.EqualFold(scope, "env") || r.Handlers().Env == nil {
			return nil
		}
		prefix, written = "$"+scope+":", name
		for _, v := range r.Handlers().Env.List() {
			name, _, _ := strings.Cut(v, "=")
			names = append(names, name)
		}
	} else {
		for _, v := range r.Variables() {
			names = append(names, v.Name)
		}
		for _, name := range automatic {
			if _, ok := r.GetVariable(name); ok {
				names = append(names, name)
			}
		}
	}
	list := matching(names, written)
	for i, name := range list {
		list[i] = prefix + name
		if strings.ContainsFunc(name, func(c rune) bool { return !isNameRune(c) }) {
			list[i] = "${" + prefix[1:] + name + "}"
		}
	}
	return list
}

func isNameRune(c rune) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c > 0x7f
}

// expand puts the value of a variable into the beginning of a path: $env:TEMP\x.
func expand(r *interp.Runner, path string) string {
	end := strings.IndexAny(path, `\/`)
	name, rest := path[1:end], path[end:]
	if scope, variable, ok := strings.Cut(name, ":"); ok {
		if strings.EqualFold(scope, "env") && r.Handlers().Env != nil {
			if v, ok := r.Handlers().Env.Get(variable); ok {
				return v + rest
			}
		}
		return path
	}
	if v, ok := r.GetVariable(name); ok {
		return r.Text(v) + rest
	}
	return path
}
