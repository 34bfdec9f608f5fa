// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"errors"
	"maps"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// ScriptBlock is a script block as a value.
type ScriptBlock struct {
	Body    *syntax.ScriptBlock
	closure map[string]*Variable
}

// TypeName returns the .NET name.
func (*ScriptBlock) TypeName() string { return "System.Management.Automation.ScriptBlock" }

// Text returns the source between the braces.
func (b *ScriptBlock) Text() string {
	if b == nil || b.Body.Source == nil {
		return ""
	}
	s := b.Body.Source.Slice(b.Body.From, b.Body.To)
	return s
}

// Function is a named script block.
type Function struct {
	Name   string
	Filter bool
	Params []*syntax.Param // the parameters after the name
	Block  *ScriptBlock
}

// declared returns the parameters of a function, from either place of declaration.
func (f *Function) declared() []*syntax.Param {
	if f.Params != nil {
		return f.Params
	}
	if f.Block.Body.Param != nil {
		return f.Block.Body.Param.Params
	}
	return nil
}

// advanced reports whether a function has the rules of a cmdlet.
// Source: about_Functions_Advanced.
func (f *Function) advanced() bool {
	if p := f.Block.Body.Param; p != nil {
		for _, a := range p.Attributes {
			if strings.EqualFold(a.Name, "CmdletBinding") {
				return true
			}
		}
	}
	for _, p := range f.declared() {
		for _, a := range p.Attributes {
			if strings.EqualFold(a.Name, "Parameter") {
				return true
			}
		}
	}
	return false
}

// NewClosure copies the variables that a block sees now, including session
// variables.
func (r *Runner) NewClosure(b *ScriptBlock) *ScriptBlock {
	c := &ScriptBlock{Body: b.Body, closure: map[string]*Variable{}}
	for s := r.scope; s != nil; s = s.parent {
		for k, v := range s.vars {
			if _, ok := c.closure[k]; !ok && (s.parent != nil || !v.Constant && preferences[v.Name] == nil) {
				copied := *v
				c.closure[k] = &copied
			}
		}
	}
	return c
}

// ParseBlock parses text into a script block.
func (r *Runner) ParseBlock(text string) (*ScriptBlock, error) {
	body, err := syntax.Parse(&syntax.Source{Text: text}, r.cfg.Edition)
	if err != nil {
		if pe, ok := errors.AsType[*syntax.Error](err); ok {
			return nil, &Thrown{Record: parseRecord(pe)}
		}
		return nil, err
	}
	return &ScriptBlock{Body: body}, nil
}

// CallBlock runs a block in the current scope with $_ set, and returns its output
// as one value. Arguments, if any, bind to its parameters.
func (r *Runner) CallBlock(b *ScriptBlock, item any, args []any) (any, error) {
	items, err := r.collect(func(out Sink) error { return r.RunBlock(b, item, args, out) })
	return value.Collapse(items), err
}

// RunBlock is CallBlock into a sink.
func (r *Runner) RunBlock(b *ScriptBlock, item any, args []any, out Sink) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	if b.Body.Param != nil || len(args) > 0 || b.closure != nil {
		list := make([]argument, len(args))
		for i, a := range args {
			list[i] = argument{value: a}
		}
		st, err := r.blockStage(&Function{Block: b}, false, list, out, nil)
		if err != nil {
			return err
		}
		restore := r.pushInput(item)
		defer restore()
		return r.drive([]stage{st}, nil, nil)
	}
	saved := r.source
	r.source = b.Body.Source
	restore := r.pushInput(item)
	err := r.bodyBlocks(b.Body, out)
	restore()
	r.source = saved
	return unreturn(err)
}

// callBlockThis is CallBlock for script properties and methods: $this is set.
func (r *Runner) callBlockThis(b *ScriptBlock, this any, args []any) (any, error) {
	var v any
	err := r.inScope(func() error {
		r.scope.set("this", "this", this)
		var err error
		v, err = r.CallBlock(b, this, args)
		return err
	})
	return v, err
}

func unreturn(err error) error {
	if f, ok := err.(*flow); ok && f.kind == syntax.Return {
		return nil
	}
	return err
}

// bodyBlocks runs the blocks of a script block one after another.
func (r *Runner) bodyBlocks(b *syntax.ScriptBlock, out Sink) error {
	for _, blk := range []*syntax.Block{b.Begin, b.Process, b.EndBlock} {
		if err := r.block(blk, out); err != nil {
			return err
		}
	}
	return nil
}

// scriptBody runs a whole script in the current scope.
func (r *Runner) scriptBody(b *syntax.ScriptBlock, out Sink, _ []any) error {
	saved := r.source
	r.source = b.Source
	defer func() { r.source = saved }()
	r.addUsing(b)
	return unreturn(r.bodyBlocks(b, out))
}

func (r *Runner) addUsing(b *syntax.ScriptBlock) {
	for _, u := range b.Using {
		r.using = append(r.using, u.Name+".")
	}
}

// functionStage is a function, a script or a block in a pipeline.
type functionStage struct {
	r     *Runner
	f     *Function
	dot   bool
	args  []argument
	out   Sink
	at    syntax.Node
	piped bool

	scope  *scope
	frame  *callFrame
	params []Param
	input  []any
	done   bool
	ranAny bool
}

func (r *Runner) blockStage(f *Function, dot bool, args []argument, out Sink, at *syntax.Command) (stage, error) {
	s := &functionStage{r: r, f: f, dot: dot, args: args, out: out}
	if at != nil {
		s.at = at
	}
	return s, nil
}

// within runs f in the function's scope.
func (s *functionStage) within(f func() error) error {
	r := s.r
	if err := r.enter(); err != nil {
		return err
	}
	saved := r.ambient()
	r.scope = s.scope
	r.source = s.f.Block.Body.Source
	r.calls = append(r.calls, s.frame)
	err := f()
	r.calls = r.calls[:len(r.calls)-1]
	r.restore(saved)
	r.leave()
	if fl, ok := err.(*flow); ok && fl.kind == syntax.Return {
		s.done = true
		return nil
	}
	return err
}

func (s *functionStage) begin() error {
	r := s.r
	s.scope = r.scope
	if !s.dot {
		s.scope = newScope(r.scope)
		s.scope.script = s.f.Block.Body.Source != nil && s.f.Block.Body.Source.Name != "" &&
			s.f.Name == s.f.Block.Body.Source.Name
		if s.f.Block.closure != nil {
			s.scope.vars = make(map[string]*Variable, len(s.f.Block.closure))
			maps.Copy(s.scope.vars, s.f.Block.closure)
		}
	}
	s.frame = &callFrame{name: s.f.Name, source: s.f.Block.Body.Source, block: s.f.Block}
	if s.at != nil && r.source != nil {
		s.frame.line = r.source.Line(s.at.Pos())
		s.frame.callSource, s.frame.at = r.source, syntax.Span{From: s.at.Pos(), To: s.at.End()}
	}
	r.addUsing(s.f.Block.Body)
	if err := s.bind(); err != nil {
		return err
	}
	b := s.f.Block.Body
	if b.Begin == nil {
		return nil
	}
	return s.within(func() error { return r.block(b.Begin, s.out) })
}

func (s *functionStage) process(v any) error {
	b := s.f.Block.Body
	if b.Process == nil {
		s.input = append(s.input, v)
		return nil
	}
	s.ranAny = true
	return s.within(func() error {
		s.scope.set("_", "_", v)
		if err := s.bindItem(v); err != nil {
			return err
		}
		return s.r.block(b.Process, s.out)
	})
}

func (s *functionStage) end() error {
	b := s.f.Block.Body
	if b.Process != nil && !s.piped && !s.done {
		if err := s.within(func() error { return s.r.block(b.Process, s.out) }); err != nil {
			return err
		}
	}
	s.done = false
	if b.EndBlock == nil {
		return nil
	}
	return s.within(func() error {
		if s.piped {
			s.scope.set("input", "input", value.NewArray(s.input...))
			if b.Process == nil && len(s.input) > 0 {
				if err := s.bindItem(s.input[len(s.input)-1]); err != nil {
					return err
				}
			}
		}
		return s.r.block(b.EndBlock, s.out)
	})
}

// bind sets the parameters in the function's scope.
func (s *functionStage) bind() error {
	r := s.r
	decl := s.f.declared()
	adv := s.f.advanced()
	s.params = functionParams(decl)
	b, err := r.bind(s.params, s.args, !adv, adv)
	if err != nil {
		rec := r.record(err, s.at, s.f.Name)
		if !strings.Contains(rec.FQID, ",") {
			rec.FQID += "," + s.f.Name
		}
		return &Thrown{Record: rec}
	}
	bound := &value.Hash{}
	saved := r.ambient()
	r.scope = s.scope
	defer r.restore(saved)
	for i, p := range decl {
		key := strings.ToLower(p.Name)
		v, ok := b.values[key]
		switch {
		case ok:
			bound.Set(p.Name, v)
			if err := r.validate(p, v); err != nil {
				return err
			}
		case s.params[i].Mandatory && (!s.params[i].Pipeline || !s.piped) && (!s.params[i].ByProp || !s.piped):
			return &Thrown{Record: r.record(r.fail("System.Management.Automation.ParameterBindingException",
				"MissingMandatoryParameter", "InvalidArgument", nil,
				"Cannot process command because of one or more missing mandatory parameters: %s.", p.Name),
				s.at, s.f.Name)}
		case p.Default != nil:
			if v, err = r.operand(p.Default); err != nil {
				return err
			}
			if p.Type != nil {
				if v, err = r.convert(v, p.Type); err != nil {
					return err
				}
			}
		default:
			v = zeroOf(p.Type)
		}
		s.scope.set(p.Name, key, v)
		if p.Type != nil {
			s.scope.vars[key].Type = p.Type
		}
	}
	s.frame.bound, s.frame.args = bound, b.rest
	if !s.dot || len(s.args) > 0 {
		s.scope.set("args", "args", value.NewArray(b.rest...))
	}
	s.scope.set("PSBoundParameters", "psboundparameters", bound)
	if adv {
		s.bindCommon(b)
	}
	return nil
}

// bindCommon sets an advanced function's preferences from its common parameters.
func (s *functionStage) bindCommon(b *binding) {
	set := func(name string, v any) { s.scope.set(name, strings.ToLower(name), v) }
	if v, ok := b.values["erroraction"]; ok {
		set("ErrorActionPreference", value.String(v))
	}
	if v, ok := b.values["warningaction"]; ok {
		set("WarningPreference", value.String(v))
	}
	for _, n := range []string{"Verbose", "Debug"} {
		if v, ok := b.values[strings.ToLower(n)]; ok {
			if value.Bool(v) {
				set(n+"Preference", "Continue")
			} else {
				set(n+"Preference", "SilentlyContinue")
			}
		}
	}
	if v, ok := b.values["whatif"]; ok {
		set("WhatIfPreference", value.Bool(v))
	}
	s.scope.set("PSCmdlet", "pscmdlet", &PSCmdlet{name: s.f.Name})
}

// PSCmdlet is $PSCmdlet of an advanced function.
type PSCmdlet struct{ name string }

// TypeName returns the .NET name.
func (*PSCmdlet) TypeName() string { return "System.Management.Automation.PSScriptCmdlet" }

// Name returns the function's name.
func (p *PSCmdlet) Name() string { return p.name }

func zeroOf(t *syntax.TypeName) any {
	if t == nil || t.Rank > 0 {
		return nil
	}
	full, _ := value.Accelerated(t.Name)
	switch full {
	case "System.Management.Automation.SwitchParameter":
		return Switch(false)
	case "System.Boolean":
		return false
	case "System.String":
		return ""
	case "System.Double":
		return 0.0
	}
	if z, err := value.Int(int32(0), full); err == nil && intType(full) {
		return z
	}
	return nil
}

// bindItem binds an object of the pipeline to the parameters that take one.
func (s *functionStage) bindItem(v any) error {
	decl := s.f.declared()
	for i := range s.params {
		p := &s.params[i]
		if !p.Pipeline && !p.ByProp {
			continue
		}
		if _, bound := s.frame.bound.Get(p.Name); bound {
			continue
		}
		val, ok := v, p.Pipeline
		if p.ByProp {
			if pv, has := s.r.HasProperty(v, p.Name); has {
				val, ok = pv, true
			}
		}
		if !ok {
			continue
		}
		if decl[i].Type != nil {
			c, err := s.r.convert(val, decl[i].Type)
			if err != nil {
				return err
			}
			val = c
		}
		if err := s.r.validate(decl[i], val); err != nil {
			return err
		}
		s.scope.set(p.Name, strings.ToLower(p.Name), val)
	}
	return nil
}

// functionParams describes declared parameters to the binder: positions follow
// the order of declaration, unless a parameter declares a position.
func functionParams(decl []*syntax.Param) []Param {
	list := make([]Param, len(decl))
	explicit := false
	for i, d := range decl {
		p := Param{Name: d.Name, Kind: "any", Position: -1, fn: d}
		if d.Type != nil && d.Type.Rank == 0 {
			if full, _ := value.Accelerated(d.Type.Name); full == "System.Management.Automation.SwitchParameter" ||
				strings.EqualFold(d.Type.Name, "System.Management.Automation.SwitchParameter") {
				p.Kind = "switch"
			}
		}
		for _, a := range d.Attributes {
			switch strings.ToLower(a.Name) {
			case "parameter":
				readParameterAttribute(a, &p, &explicit)
			case "alias":
				for _, x := range a.Args {
					if s, ok := x.(*syntax.String); ok {
						p.Aliases = append(p.Aliases, s.Value)
					}
				}
			}
		}
		list[i] = p
	}
	n := 0
	for i := range list {
		if !explicit && list[i].Kind != "switch" && !list[i].Remaining {
			list[i].Position = n
			n++
		}
	}
	return list
}

func readParameterAttribute(a *syntax.Attribute, p *Param, explicit *bool) {
	for _, n := range a.Named {
		on := true
		switch v := n.Value.(type) {
		case *syntax.Variable:
			on = v.Lower != "false"
		case *syntax.Number:
			on = value.Bool(v.Value)
			if strings.EqualFold(n.Name, "Position") {
				p.Position, _ = value.ToInt(v.Value)
				p.Position = min(max(p.Position, 0), 1000)
				*explicit = true
			}
		}
		switch strings.ToLower(n.Name) {
		case "mandatory":
			p.Mandatory = on
		case "valuefrompipeline":
			p.Pipeline = on
		case "valuefrompipelinebypropertyname":
			p.ByProp = on
		case "valuefromremainingarguments":
			p.Remaining = on
		}
	}
}

// scriptStage returns a .ps1 file as a command.
func (r *Runner) scriptStage(path string, dot bool, args []argument, out Sink, at *syntax.Command) (stage, error) {
	text, err := r.ReadText(path)
	if err != nil {
		return nil, err
	}
	body, err := syntax.Parse(&syntax.Source{Name: path, Text: text}, r.cfg.Edition)
	if err != nil {
		if pe, ok := errors.AsType[*syntax.Error](err); ok {
			return nil, &Thrown{Record: parseRecord(pe), Script: true}
		}
		return nil, err
	}
	inner, err := r.blockStage(&Function{Name: path, Block: &ScriptBlock{Body: body}}, dot, args, out, at)
	if err != nil {
		return nil, err
	}
	return &scriptStage{functionStage: inner.(*functionStage)}, nil
}

// scriptStage ends at an exit statement of its script, which sets
// $LASTEXITCODE.
type scriptStage struct{ *functionStage }

func (s *scriptStage) exit(err error) error {
	if e, ok := errors.AsType[*exitError](err); ok {
		s.r.lastExit, s.r.exitSet = e.code, true
		s.r.ok = e.code == 0
		return nil
	}
	return err
}

func (s *scriptStage) begin() error        { return s.exit(s.functionStage.begin()) }
func (s *scriptStage) process(v any) error { return s.exit(s.functionStage.process(v)) }
func (s *scriptStage) end() error          { return s.exit(s.functionStage.end()) }
