// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"sort"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// Param is a parameter of a cmdlet or a function.
type Param struct {
	Name      string
	Aliases   []string
	Kind      string // switch, string, int, any, block, hash…, with [] in front for a list
	Position  int    // -1: only by name
	Mandatory bool
	Pipeline  bool // takes the pipeline's objects
	ByProp    bool // takes their property of that name
	Remaining bool
	Refused   bool          // not supported: an error names it
	fn        *syntax.Param // a function's
}

func (p *Param) isSwitch() bool { return p.Kind == "switch" }

// Switch is System.Management.Automation.SwitchParameter.
type Switch bool

// TypeName returns the .NET name.
func (Switch) TypeName() string { return "System.Management.Automation.SwitchParameter" }

// IsPresent reports whether the switch was given.
func (s Switch) IsPresent() bool { return bool(s) }

// Text is True or False.
func (s Switch) Text() string { return value.String(bool(s)) }

// HashKey makes equal switches equal.
func (s Switch) HashKey() any { return bool(s) }

// common are the parameters of every cmdlet. Source: about_CommonParameters.
var common = []Param{
	{Name: "ErrorAction", Aliases: []string{"ea"}, Kind: "string", Position: -1},
	{Name: "WarningAction", Aliases: []string{"wa"}, Kind: "string", Position: -1},
	{Name: "InformationAction", Aliases: []string{"infa"}, Kind: "string", Position: -1},
	{Name: "Verbose", Aliases: []string{"vb"}, Kind: "switch", Position: -1},
	{Name: "Debug", Aliases: []string{"db"}, Kind: "switch", Position: -1},
	{Name: "ErrorVariable", Aliases: []string{"ev"}, Kind: "string", Position: -1},
	{Name: "WarningVariable", Aliases: []string{"wv"}, Kind: "string", Position: -1},
	{Name: "InformationVariable", Aliases: []string{"iv"}, Kind: "string", Position: -1},
	{Name: "OutVariable", Aliases: []string{"ov"}, Kind: "string", Position: -1},
	{Name: "OutBuffer", Aliases: []string{"ob"}, Kind: "int", Position: -1},
	{Name: "PipelineVariable", Aliases: []string{"pv"}, Kind: "string", Position: -1},
	{Name: "WhatIf", Aliases: []string{"wi"}, Kind: "switch", Position: -1},
	{Name: "Confirm", Aliases: []string{"cf"}, Kind: "switch", Position: -1},
}

// findParam resolves a written parameter: its name, an alias, or a prefix that
// only one has.
func findParam(params []Param, written string) (p *Param, ambiguous bool) {
	for _, list := range [][]Param{params, common} {
		for i := range list {
			if strings.EqualFold(list[i].Name, written) {
				return &list[i], false
			}
			for _, a := range list[i].Aliases {
				if strings.EqualFold(a, written) {
					return &list[i], false
				}
			}
		}
	}
	for _, list := range [][]Param{params, common} {
		for i := range list {
			if len(written) < len(list[i].Name) && strings.EqualFold(list[i].Name[:len(written)], written) {
				if p != nil {
					return p, true
				}
				p = &list[i]
			}
		}
		if p != nil { // a command's own come before the common ones
			return p, false
		}
	}
	return p, false
}

// binding is the result of matching arguments with parameters.
type binding struct {
	values map[string]any // by the parameter's lower-case name
	rest   []any
}

// bind matches arguments with parameters. loose accepts extra arguments as
// unbound (a simple function's $args). Source: about_Parameters and
// about_Functions_Advanced_Parameters.
func (r *Runner) bind(params []Param, args []argument, loose, withCommon bool) (*binding, error) {
	b := &binding{values: make(map[string]any, len(args))}
	var positional []argument
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a.param == "" {
			if a.bare && a.value == "--" && !loose {
				positional = append(positional, args[i+1:]...)
				break
			}
			positional = append(positional, a)
			continue
		}
		p, ambiguous := findParam(params, a.param)
		if p != nil && !withCommon && isCommon(p) {
			p = nil
		}
		switch {
		case ambiguous:
			return nil, r.bindError("AmbiguousParameter", a.param,
				"Parameter cannot be processed because the parameter name '%s' is ambiguous.", a.param)
		case p == nil && loose:
			positional = append(positional, argument{value: a.text})
			if a.colon {
				positional[len(positional)-1].value = "-" + a.param + ":"
				positional = append(positional, argument{value: a.value})
			}
			continue
		case p == nil:
			return nil, r.bindError("NamedParameterNotFound", a.param,
				"A parameter cannot be found that matches parameter name '%s'.", a.param)
		}
		key := strings.ToLower(p.Name)
		if _, dup := b.values[key]; dup {
			return nil, r.bindError("ParameterAlreadyBound", a.param,
				"Cannot bind parameter because parameter '%s' is specified more than once. To provide multiple "+
					"values to parameters that can accept multiple values, use the array syntax. For example, "+
					"\"-parameter value1,value2,value3\".", p.Name)
		}
		var v any
		switch {
		case a.colon:
			v = a.value
			if p.isSwitch() {
				v = Switch(value.Bool(v))
			}
		case p.isSwitch():
			v = Switch(true)
		case i+1 < len(args) && args[i+1].param == "":
			i++
			v = args[i].value
		default:
			return nil, r.bindError("MissingArgument", a.param,
				"Missing an argument for parameter '%s'. Specify a parameter of type '%s' and try again.", p.Name,
				paramType(p))
		}
		b.values[key] = v
	}
	if err := r.bindPositions(b, params, positional, loose); err != nil {
		return nil, err
	}
	if err := r.convertBound(b, params); err != nil || !withCommon {
		return b, err
	}
	return b, r.convertBound(b, common)
}

func isCommon(p *Param) bool {
	for i := range common {
		if &common[i] == p {
			return true
		}
	}
	return false
}

func paramType(p *Param) string {
	if p.fn != nil && p.fn.Type != nil {
		return p.fn.Type.String()
	}
	switch p.Kind {
	case "int":
		return "System.Int32"
	case "[]string":
		return "System.String[]"
	case "string":
		return "System.String"
	}
	return "System.Object"
}

func (r *Runner) bindError(id, _, format string, args ...any) error {
	return r.fail("System.Management.Automation.ParameterBindingException", id, "InvalidArgument", nil, format, args...)
}

func (r *Runner) bindPositions(b *binding, params []Param, positional []argument, loose bool) error {
	var free []*Param
	var rest *Param
	for i := range params {
		p := &params[i]
		if _, bound := b.values[strings.ToLower(p.Name)]; bound {
			continue
		}
		if p.Remaining {
			rest = p
		} else if p.Position >= 0 {
			free = append(free, p)
		}
	}
	sort.SliceStable(free, func(i, j int) bool { return free[i].Position < free[j].Position })
	for _, a := range positional {
		if len(free) > 0 {
			b.values[strings.ToLower(free[0].Name)] = a.value
			free = free[1:]
			continue
		}
		if rest == nil && !loose {
			return r.bindError("PositionalParameterNotFound", "",
				"A positional parameter cannot be found that accepts argument '%s'.", r.Text(a.value))
		}
		b.rest = append(b.rest, a.value)
	}
	if rest != nil && len(b.rest) > 0 {
		if len(b.rest) == 1 {
			if items, ok := value.Items(b.rest[0]); ok {
				b.rest = items
			}
		}
		b.values[strings.ToLower(rest.Name)] = value.NewArray(b.rest...)
		b.rest = nil
	}
	return nil
}

func (r *Runner) convertBound(b *binding, params []Param) error {
	for i := range params {
		p := &params[i]
		key := strings.ToLower(p.Name)
		v, ok := b.values[key]
		if !ok {
			continue
		}
		c, err := r.convertParam(p, v)
		if err != nil {
			return r.fail("System.Management.Automation.ParameterBindingException", "CannotConvertArgumentNoMessage",
				"InvalidArgument", nil, "Cannot bind parameter '%s'. %s", p.Name, r.exception(err).Message)
		}
		b.values[key] = c
	}
	return nil
}

// convertParam converts a bound value to the parameter's kind.
func (r *Runner) convertParam(p *Param, v any) (any, error) {
	if p.fn != nil {
		if p.fn.Type == nil {
			return v, nil
		}
		return r.convert(v, p.fn.Type)
	}
	switch p.Kind {
	case "string":
		if v == nil {
			return "", nil
		}
		if items, ok := value.Items(v); ok && len(items) != 1 {
			return nil, &value.ConvertError{From: v, To: "System.String"}
		}
		return r.Text(v), nil
	case "int":
		return value.ToInt(v)
	case "float":
		return value.Float(v)
	case "bool":
		return value.Bool(v), nil
	case "block":
		if b, ok := v.(*ScriptBlock); ok {
			return b, nil
		}
		return nil, &value.ConvertError{From: v, To: "System.Management.Automation.ScriptBlock"}
	case "hash":
		if h, ok := value.Unwrap(v).(*value.Hash); ok || v == nil {
			return h, nil
		}
		return nil, &value.ConvertError{From: v, To: "System.Collections.IDictionary"}
	case "[]string":
		items, ok := value.Items(v)
		if !ok {
			if v == nil {
				return []string(nil), nil
			}
			items = []any{v}
		}
		list := make([]string, len(items))
		for i, x := range items {
			list[i] = r.Text(x)
		}
		return list, nil
	case "[]any":
		if items, ok := value.Items(v); ok {
			return items, nil
		}
		return []any{v}, nil
	}
	return v, nil
}
