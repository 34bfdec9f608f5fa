// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"errors"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// objectClasses are System.Object, with the members of every value, and types as values.
//
// Length: one table; splitting hides which names belong together.
func objectClasses() []*interp.Class {
	return []*interp.Class{
		{Name: "System.Object", New: func(*interp.Call) (any, error) { return value.NewObject("System.Object"), nil },
			Props: []interp.Property{},
			Methods: []interp.Method{
				{Name: "ToString", Fn: toString},
				{Name: "GetType", Fn: func(c *interp.Call) (any, error) {
					return &value.Type{Name: value.TypeName(c.Self)}, nil
				}},
				{Name: "Equals", Fn: func(c *interp.Call) (any, error) {
					return value.Equal(c.Self, c.Arg(0), true), nil
				}},
				{Name: "GetHashCode", Fn: func(c *interp.Call) (any, error) {
					return hashCode(value.String(c.Self)), nil
				}},
				{Name: "CompareTo", Fn: func(c *interp.Call) (any, error) {
					n, ok := value.Compare(c.Self, c.Arg(0), true)
					if !ok {
						return nil, argError("Object must be of type %s.", value.TypeName(c.Self))
					}
					return i32(n), nil
				}},
				{Name: "Dispose", Fn: func(*interp.Call) (any, error) { return interp.Void, nil }},
			},
			StaticMethods: []interp.Method{
				static("ReferenceEquals", func(c *interp.Call) (any, error) { return c.Arg(0) == c.Arg(1), nil }),
			},
		},
		{Name: "System.Management.Automation.PSObject", New: func(c *interp.Call) (any, error) {
			if h, ok := c.Arg(0).(*value.Hash); ok {
				o := &value.Object{}
				for _, k := range h.Keys() {
					v, _ := h.Get(k)
					o.Set(value.String(k), v)
				}
				return o, nil
			}
			if c.N() > 0 {
				return c.Arg(0), nil
			}
			return &value.Object{}, nil
		}},
		{Name: value.CustomType, Base: "System.Management.Automation.PSObject"},
		{Name: "System.Void"},
		{Name: "System.RuntimeType", Base: "System.Type"},
		{Name: "System.Type", Props: []interp.Property{
			get("Name", func(t *value.Type) any {
				name, _, generic := strings.Cut(value.ShortName(t.Name), "[")
				if generic && strings.HasSuffix(t.Name, "[]") {
					return value.ShortName(t.Name)
				}
				return name
			}),
			get("FullName", func(t *value.Type) any { return t.Name }),
			get("Namespace", func(t *value.Type) any {
				i := strings.LastIndexByte(t.Name, '.')
				return t.Name[:max(i, 0)]
			}),
			getErr("BaseType", func(c *interp.Call, t *value.Type) (any, error) {
				if b := c.R.BaseType(t.Name); b != "" {
					return &value.Type{Name: b}, nil
				}
				return nil, nil
			}),
			get("IsArray", func(t *value.Type) any { return strings.HasSuffix(t.Name, "[]") }),
			getErr("IsEnum", func(c *interp.Call, t *value.Type) (any, error) {
				k := c.R.Class(t.Name)
				return k != nil && k.Enum != nil, nil
			}),
		}},
		{Name: "System.Enum", StaticMethods: []interp.Method{
			static("GetNames", func(c *interp.Call) (any, error) {
				k, err := enumArg(c)
				if err != nil {
					return nil, err
				}
				var names []string
				for _, m := range k.Enum {
					names = append(names, m.Name)
				}
				return value.NewStrings(names), nil
			}),
			static("GetValues", func(c *interp.Call) (any, error) {
				k, err := enumArg(c)
				if err != nil {
					return nil, err
				}
				var vals []any
				for _, m := range k.Enum {
					vals = append(vals, interp.EnumValue{Class: k, N: m.Value})
				}
				return value.NewArray(vals...), nil
			}),
			static("Parse", func(c *interp.Call) (any, error) {
				k, err := enumArg(c)
				if err != nil {
					return nil, err
				}
				return interp.EnumOf(k, c.Str(1))
			}),
		}, Methods: []interp.Method{
			{Name: "HasFlag", Fn: func(c *interp.Call) (any, error) {
				e := self[interp.EnumValue](c)
				f, err := interp.EnumOf(e.Class, c.Arg(0))
				return e.N&f.N == f.N, err
			}},
		}, Props: []interp.Property{get("value__", func(e interp.EnumValue) any { return int32(e.N) })}},
		{Name: "System.Management.Automation.SwitchParameter", Props: []interp.Property{
			get("IsPresent", func(s interp.Switch) any { return bool(s) }),
		}, Methods: []interp.Method{method("ToBool", func(_ *interp.Call, s interp.Switch) (any, error) {
			return bool(s), nil
		})}},
		{Name: "System.Management.Automation.ScriptBlock", Props: []interp.Property{
			get("Ast", func(b *interp.ScriptBlock) any { return b.Text() }),
		}, Methods: []interp.Method{
			method("Invoke", func(c *interp.Call, b *interp.ScriptBlock) (any, error) {
				return c.R.CallBlock(b, nil, c.Args)
			}),
			method("InvokeReturnAsIs", func(c *interp.Call, b *interp.ScriptBlock) (any, error) {
				return c.R.CallBlock(b, nil, c.Args)
			}),
			method("GetNewClosure", func(c *interp.Call, b *interp.ScriptBlock) (any, error) {
				return c.R.NewClosure(b), nil
			}),
		}, StaticMethods: []interp.Method{
			static("Create", func(c *interp.Call) (any, error) { return c.R.ParseBlock(c.Str(0)) }),
		}},
		{Name: "System.Management.Automation.PSScriptCmdlet", Props: []interp.Property{
			get("ParameterSetName", func(*interp.PSCmdlet) any { return "__AllParameterSets" }),
			get("MyInvocation", func(p *interp.PSCmdlet) any {
				return value.NewObject("System.Management.Automation.InvocationInfo", "InvocationName", p.Name())
			}),
		}, Methods: []interp.Method{
			method("ShouldProcess", func(c *interp.Call, _ *interp.PSCmdlet) (any, error) {
				if v, ok := c.R.GetVariable("WhatIfPreference"); ok && value.Bool(v) {
					what := c.Str(1)
					if what == "" {
						what = "operation"
					}
					return false, c.R.Host("What if: Performing the operation \"" + what + "\" on target \"" +
						c.Str(0) + "\".\n")
				}
				return true, nil
			}),
			method("ShouldContinue", func(*interp.Call, *interp.PSCmdlet) (any, error) { return true, nil }),
			method("WriteVerbose", func(c *interp.Call, _ *interp.PSCmdlet) (any, error) {
				return interp.Void, c.R.WriteStream("verbose", c.Str(0))
			}),
			method("WriteWarning", func(c *interp.Call, _ *interp.PSCmdlet) (any, error) {
				return interp.Void, c.R.WriteStream("warning", c.Str(0))
			}),
			method("ThrowTerminatingError", func(c *interp.Call, _ *interp.PSCmdlet) (any, error) {
				if rec, ok := c.Arg(0).(*interp.ErrorRecord); ok {
					return nil, &interp.Thrown{Record: rec}
				}
				return nil, argError("An error record is needed.")
			}),
			method("WriteError", func(c *interp.Call, _ *interp.PSCmdlet) (any, error) {
				if rec, ok := c.Arg(0).(*interp.ErrorRecord); ok {
					return interp.Void, c.R.WriteErrorRecord(rec)
				}
				return nil, argError("An error record is needed.")
			}),
		}},
		commandInfo("System.Management.Automation.CmdletInfo"),
		commandInfo("System.Management.Automation.FunctionInfo"),
		commandInfo("System.Management.Automation.ApplicationInfo"),
		commandInfo("System.Management.Automation.ExternalScriptInfo"),
		{Name: "System.GC", StaticMethods: []interp.Method{
			static("Collect", func(*interp.Call) (any, error) { return interp.Void, nil }),
		}},
	}
}

func commandInfo(name string) *interp.Class {
	return &interp.Class{Name: name, Props: []interp.Property{
		get("CommandType", func(c *interp.Command) any {
			return strings.TrimSuffix(value.ShortName(c.TypeName()), "Info")
		}),
		get("Name", func(c *interp.Command) any {
			if c.Path != "" {
				return interp.LeafPath(c.Path)
			}
			return c.Name
		}),
		get("Version", func(*interp.Command) any { return "" }),
		get("Source", func(c *interp.Command) any { return c.Path + c.Script }),
		get("Path", func(c *interp.Command) any { return c.Path + c.Script }),
		get("Definition", func(c *interp.Command) any {
			if c.Function != nil {
				return c.Function.Block.Text()
			}
			return c.Path + c.Script
		}),
		get("ScriptBlock", func(c *interp.Command) any {
			if c.Function != nil {
				return c.Function.Block
			}
			return nil
		}),
	}}
}

func enumArg(c *interp.Call) (*interp.Class, error) {
	name := ""
	if t, ok := c.Arg(0).(*value.Type); ok {
		name = t.Name
	}
	k := c.R.Class(name)
	if k == nil || k.Enum == nil {
		return nil, argError("Type provided must be an Enum.")
	}
	return k, nil
}

func toString(c *interp.Call) (any, error) {
	switch c.N() {
	case 0:
		switch v := value.Unwrap(c.Self).(type) {
		case *value.Array, *value.List, *value.Hash:
			return value.TypeName(v), nil
		case value.DateTime:
			return value.FormatDate(v.Time, "G"), nil
		case *value.Type:
			return v.Name, nil
		case *interp.ErrorRecord:
			return v.Text(), nil
		}
		return c.R.Text(c.Self), nil
	default:
		format, ok := c.Arg(0).(string)
		if !ok {
			format = ""
		}
		s, err := value.FormatValue(c.Self, format)
		if err != nil {
			err = errors.New(strings.TrimSuffix(strings.TrimPrefix(err.Error(), "Error formatting a string: "), "."))
		}
		return s, err
	}
}

func hashCode(s string) int32 {
	h := int32(5381)
	for _, r := range s {
		h = h*33 ^ int32(r)
	}
	return h
}
