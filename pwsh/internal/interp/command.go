// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"path"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// argument is an argument of a command with its value.
type argument struct {
	param string // parameter's name, without the dash
	colon bool   // `-name:value`: value belongs to the parameter
	value any
	text  string // as written, for native programs
	bare  bool   // a plain word
}

// commandStage resolves a command and returns its stage.
func (r *Runner) commandStage(c *syntax.Command, p *pipeline, out Sink, first bool) (stage, func() error, error) {
	var closer func() error
	streams := r.streams
	if len(c.Redirect) > 0 {
		red, err := r.redirect(c.Redirect, out)
		closer = red.close
		if err != nil {
			return nil, closer, err
		}
		out, streams = red.out, red.streams
	}
	target, err := r.eval(c.Name)
	if err != nil {
		return nil, closer, err
	}
	args, err := r.arguments(c.Args)
	if err != nil {
		return nil, closer, err
	}
	saved := r.streams
	r.streams = streams
	st, err := r.stage(target, c.Invoke, args, c, p, out)
	r.streams = saved
	if err != nil {
		return nil, closer, err
	}
	if n, ok := st.(*nativeStage); ok {
		n.first = first
	}
	if i, ok := st.(*cmdletStage); ok {
		i.c.piped = !first
	}
	if f, ok := st.(*functionStage); ok {
		f.piped = !first
	}
	if len(c.Redirect) > 0 {
		st = &redirected{r, st, streams}
	}
	return st, closer, nil
}

// arguments evaluates a command's arguments, splats included.
func (r *Runner) arguments(list []syntax.Arg) ([]argument, error) {
	args := make([]argument, 0, len(list))
	for _, a := range list {
		if a.Param != "" {
			arg := argument{param: a.Param, colon: a.HasColon, text: "-" + a.Param, bare: true}
			if a.HasColon {
				v, err := r.operand(a.Value)
				if err != nil {
					return nil, err
				}
				arg.value = v
				arg.text += ":" + r.Text(v)
			}
			args = append(args, arg)
			continue
		}
		if v, ok := a.Value.(*syntax.Variable); ok && v.Splat {
			more, err := r.splat(v)
			if err != nil {
				return nil, err
			}
			args = append(args, more...)
			continue
		}
		v, err := r.operand(a.Value)
		if err != nil {
			return nil, err
		}
		arg := argument{value: v}
		switch x := a.Value.(type) {
		case *syntax.Number:
			arg.text, arg.bare = x.Text, true
		case *syntax.String:
			arg.bare = x.Bare
		case *syntax.Expand:
			arg.bare = x.Bare
		}
		args = append(args, arg)
	}
	return args, nil
}

// splat is @name. Source: about_Splatting.
func (r *Runner) splat(v *syntax.Variable) ([]argument, error) {
	x, err := r.getVar(&syntax.Variable{Scope: v.Scope, Name: v.Name, Lower: v.Lower})
	if err != nil {
		return nil, err
	}
	switch h := value.Unwrap(x).(type) {
	case *value.Hash:
		var args []argument
		for _, k := range h.Keys() {
			val, _ := h.Get(k)
			name := value.String(k)
			args = append(args, argument{param: name, colon: true, value: val, text: "-" + name + ":" + r.Text(val)})
		}
		return args, nil
	case nil:
		return nil, nil
	}
	items, ok := value.Items(x)
	if !ok {
		items = []any{x}
	}
	var args []argument
	for _, it := range items {
		if s, ok := it.(string); ok && v.Lower == "args" {
			args = append(args, r.wordArgument(s)) // @args passes parameters on
			continue
		}
		args = append(args, argument{value: it})
	}
	return args, nil
}

// stage returns the stage of a resolved command.
func (r *Runner) stage(target any, invoke string, args []argument, c *syntax.Command, p *pipeline,
	out Sink) (stage, error) {
	switch t := value.Unwrap(target).(type) {
	case *ScriptBlock:
		return r.blockStage(&Function{Block: t}, invoke == ".", args, out, c)
	case *Command:
		return r.resolved(t, invoke, args, c, p, out)
	case *value.Object:
		if b, ok := t.Get("ScriptBlock"); ok && b != nil {
			if sb, ok := b.(*ScriptBlock); ok {
				return r.blockStage(&Function{Name: r.Text(t), Block: sb}, invoke == ".", args, out, c)
			}
		}
	case nil:
		return nil, r.fail("System.Management.Automation.RuntimeException", "BadExpression", "InvalidOperation", nil,
			"The expression after '%s' in a pipeline element produced an object that was not valid. It must result "+
				"in a command name, a script block, or a CommandInfo object.", invoke)
	}
	name := r.Text(target)
	cmd, err := r.Lookup(name)
	if err != nil {
		return nil, err
	}
	return r.resolved(cmd, invoke, args, c, p, out)
}

func (r *Runner) resolved(cmd *Command, invoke string, args []argument, c *syntax.Command, p *pipeline,
	out Sink) (stage, error) {
	switch {
	case cmd.Function != nil:
		return r.blockStage(cmd.Function, invoke == ".", args, out, c)
	case cmd.Cmdlet != nil:
		return r.cmdletStage(cmd.Cmdlet, args, c, p, out)
	case cmd.Script != "":
		return r.scriptStage(cmd.Script, invoke == ".", args, out, c)
	}
	return &nativeStage{r: r, path: cmd.Path, name: cmd.Name, args: args, out: out, p: p}, nil
}

// Command is the command that a name resolves to; one of the fields is set.
type Command struct {
	Name     string
	Alias    string // the alias that led here
	Function *Function
	Cmdlet   *Cmdlet
	Script   string // a .ps1 file
	Path     string // a program
}

// TypeName returns the .NET name.
func (c *Command) TypeName() string {
	switch {
	case c.Function != nil:
		return "System.Management.Automation.FunctionInfo"
	case c.Cmdlet != nil:
		return "System.Management.Automation.CmdletInfo"
	case c.Script != "":
		return "System.Management.Automation.ExternalScriptInfo"
	}
	return "System.Management.Automation.ApplicationInfo"
}

// Text returns the name.
func (c *Command) Text() string { return c.Name }

// Lookup resolves a name: alias, function, cmdlet, then a script or a program.
// Source: about_Command_Precedence.
func (r *Runner) Lookup(name string) (*Command, error) {
	if len(name) == 0 {
		return nil, r.fail("System.Management.Automation.CommandNotFoundException", "CommandNotFoundException",
			"ObjectNotFound", name, "The command name is empty.")
	}
	cmd := &Command{Name: name}
	for range 8 { // an alias may name an alias
		target, ok := r.aliases[strings.ToLower(cmd.Name)]
		if !ok {
			break
		}
		cmd.Alias, cmd.Name = name, target
	}
	lower := strings.ToLower(cmd.Name)
	if i := strings.LastIndexByte(lower, '\\'); i > 0 && !strings.ContainsAny(lower[:i], `\/:.`) ||
		i > 0 && strings.HasPrefix(lower, "microsoft.powershell.") {
		if c, ok := r.cmdlets[lower[i+1:]]; ok { // Module\Cmdlet
			cmd.Cmdlet, cmd.Name = c, c.Name
			return cmd, nil
		}
	}
	if i := strings.IndexByte(lower, ':'); i > 1 {
		if s, ok := r.scopeOf(lower[:i]); ok {
			if f := s.function(lower[i+1:]); f != nil {
				cmd.Function = f
				return cmd, nil
			}
		}
	}
	if f := r.scope.function(lower); f != nil {
		cmd.Function = f
		return cmd, nil
	}
	if c, ok := r.cmdlets[lower]; ok {
		cmd.Cmdlet, cmd.Name = c, c.Name
		return cmd, nil
	}
	if p, ok := r.FindProgram(cmd.Name); ok {
		if strings.HasSuffix(strings.ToLower(p), ".ps1") {
			cmd.Script = p
		} else {
			cmd.Path = p
		}
		return cmd, nil
	}
	if !strings.ContainsAny(lower, `-\/.:`) { // Get- may be left out
		if c, ok := r.cmdlets["get-"+lower]; ok {
			cmd.Cmdlet, cmd.Name = c, c.Name
			return cmd, nil
		}
	}
	hint := ""
	if looksLikeCmdlet(name) {
		hint = " If it is a cmdlet of Windows PowerShell, mullion's PowerShell does not have it: see " +
			FidelityPage + "."
	}
	return nil, r.fail("System.Management.Automation.CommandNotFoundException", "CommandNotFoundException",
		"ObjectNotFound", name, "The term '%s' is not recognized as the name of a cmdlet, function, script file, or "+
			"operable program. Check the spelling of the name, or if a path was included, verify that the path is "+
			"correct and try again.%s", name, hint)
}

func looksLikeCmdlet(name string) bool {
	verb, noun, ok := strings.Cut(name, "-")
	return ok && verb != "" && noun != "" && !strings.ContainsAny(name, `.\/:`)
}

// FindProgram finds a script or a program by name or path.
func (r *Runner) FindProgram(name string) (string, bool) {
	if r.h.LookPath == nil {
		return "", false
	}
	if strings.ContainsAny(name, `/\`) {
		name = r.Path(name)
	}
	if strings.HasSuffix(strings.ToLower(name), ".ps1") {
		if p := r.Path(name); r.Exists(p) && strings.ContainsAny(name, `/\`) {
			return p, true
		}
		for _, dir := range r.searchPath() {
			if p := r.JoinPath(dir, name); r.Exists(p) {
				return p, true
			}
		}
		return "", false
	}
	if p, ok := r.h.LookPath(name, r.Location); ok {
		return p, true
	}
	if strings.ContainsAny(name, `/\`) && r.Exists(name+".ps1") {
		return name + ".ps1", true
	}
	return "", false
}

// Programs lists the names of the programs and scripts in the directories of PATH.
func (r *Runner) Programs() []string {
	var names []string
	for _, dir := range r.searchPath() {
		if r.h.Files == nil || dir == "" {
			continue
		}
		entries, err := r.h.Files.ReadDir(r.Path(dir))
		if err != nil {
			continue // PATH may name missing directories
		}
		for _, e := range entries {
			ext := strings.ToLower(path.Ext(e.Name()))
			if !e.IsDir() && (!r.cfg.Windows || strings.Contains(" .exe .com .bat .cmd .ps1 ", " "+ext+" ")) {
				names = append(names, e.Name())
			}
		}
	}
	return names
}

// ParameterNames lists the parameters of a function or a cmdlet: its own, then the
// common ones.
func (r *Runner) ParameterNames(cmd *Command) []string {
	var names []string
	if cmd.Function != nil {
		for _, p := range cmd.Function.declared() {
			names = append(names, p.Name)
		}
	}
	if cmd.Cmdlet == nil {
		return names
	}
	for _, list := range [][]Param{r.ParamsOf(cmd.Cmdlet), common} {
		for _, p := range list {
			names = append(names, p.Name)
		}
	}
	return names
}

// Aliases lists the aliases by name.
func (r *Runner) Aliases() map[string]string { return r.aliases }

// Functions lists the functions that are visible.
func (r *Runner) Functions() map[string]*Function {
	list := map[string]*Function{}
	for s := r.scope; s != nil; s = s.parent {
		for k, f := range s.funcs {
			if list[k] == nil {
				list[k] = f
			}
		}
	}
	return list
}
