// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// objectCmdlets returns the cmdlets of the noun Object.
func objectCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		forEachObject(), whereObject(), selectObject(), sortObject(), groupObject(), measureObject(), compareObject(),
		newObject(),
		{Name: "Get-Unique", Aliases: []string{"gu"}, Params: "InputObject:any< AsString? OnType?~",
			Process: func(c *interp.Invocation) error {
				v := c.Any("InputObject")
				if last, ok := c.State.(*value.List); ok && value.Equal(last.Items[0], v, true) {
					return nil
				}
				c.State = &value.List{Items: []any{v}}
				return c.Write(v)
			}},
	}
}

// Length: one walk over one kind of thing; its parts share its state.
func forEachObject() *interp.Cmdlet {
	run := func(c *interp.Invocation, b *interp.ScriptBlock, item any) error {
		return c.R.RunBlock(b, item, nil, c.Out)
	}
	return &interp.Cmdlet{
		Name:    "ForEach-Object",
		Aliases: []string{"%", "foreach"},
		Params: "Process:any@0 Begin:block End:block RemainingScripts:any@1* MemberName ArgumentList:any[] " +
			"InputObject:any< Parallel:block ThrottleLimit:int=",
		Begin: func(c *interp.Invocation) error {
			if c.Has("Parallel") {
				return interp.NotImplemented("ForEach-Object -Parallel")
			}
			blocks := []any{c.Any("Process")}
			if more, ok := value.Items(c.Any("RemainingScripts")); ok {
				blocks = append(blocks, more...)
			}
			s := &forEachState{}
			for _, b := range blocks {
				if items, ok := value.Items(b); ok {
					for _, x := range items {
						if sb, ok := x.(*interp.ScriptBlock); ok {
							s.process = append(s.process, sb)
						}
					}
					continue
				}
				if sb, ok := b.(*interp.ScriptBlock); ok {
					s.process = append(s.process, sb)
				}
			}
			s.begin, s.end = c.Block("Begin"), c.Block("End")
			// Two blocks are begin and process, three and more also end.
			if s.begin == nil && len(s.process) > 1 {
				s.begin, s.process = s.process[0], s.process[1:]
				if s.end == nil && len(s.process) > 1 {
					s.end, s.process = s.process[len(s.process)-1], s.process[:len(s.process)-1]
				}
			}
			c.State = s
			if len(s.process) == 0 && !c.Has("Process") && !c.Has("MemberName") {
				return badArgument("Process", "Cannot process command because of one or more missing mandatory "+
					"parameters: Process.")
			}
			if s.begin != nil {
				return run(c, s.begin, nil)
			}
			return nil
		},
		Process: func(c *interp.Invocation) error {
			s := c.State.(*forEachState)
			if !c.HasItem && !c.Has("InputObject") {
				if c.Piped() {
					return nil
				}
			}
			item := c.Any("InputObject")
			for _, b := range s.process {
				if err := run(c, b, item); err != nil {
					return err
				}
			}
			if len(s.process) == 0 {
				name := c.Str("MemberName", "")
				if name == "" {
					name = c.R.Text(c.Any("Process"))
				}
				args := c.Items("ArgumentList")
				if more, ok := value.Items(c.Any("RemainingScripts")); ok {
					args = append(args, more...)
				}
				if v, ok := c.R.HasProperty(item, name); ok && len(args) == 0 {
					return c.WriteAll(v)
				}
				v, err := c.R.CallMethod(item, name, args)
				if err != nil {
					return c.Error(err)
				}
				return c.WriteAll(v)
			}
			return nil
		},
		End: func(c *interp.Invocation) error {
			if s := c.State.(*forEachState); s.end != nil {
				return run(c, s.end, nil)
			}
			return nil
		},
	}
}

type forEachState struct {
	begin, end *interp.ScriptBlock
	process    []*interp.ScriptBlock
}

// whereOps are the operators that Where-Object has as parameters.
var whereOps = []string{"EQ", "NE", "GT", "GE", "LT", "LE", "Like", "NotLike", "Match", "NotMatch", "Contains",
	"NotContains", "In", "NotIn", "Is", "IsNot", "CEQ", "CNE", "CLike", "CMatch", "CGT", "CLT", "CGE", "CLE",
	"CNotLike", "CNotMatch"}

func whereObject() *interp.Cmdlet {
	var spec strings.Builder
	spec.WriteString("FilterScript:any@0 Value:any@1 Property InputObject:any< Not?")
	for _, op := range whereOps {
		spec.WriteString(" " + op + "?")
	}
	return &interp.Cmdlet{
		Name:    "Where-Object",
		Aliases: []string{"?", "where"},
		Params:  spec.String(),
		Process: func(c *interp.Invocation) error {
			if !c.HasItem && !c.Has("InputObject") {
				return nil
			}
			item := c.Any("InputObject")
			var yes any
			var err error
			if b, ok := c.Any("FilterScript").(*interp.ScriptBlock); ok {
				yes, err = c.Call(b, item)
			} else {
				yes, err = whereSimple(c, item)
			}
			if err != nil {
				return err
			}
			if value.Bool(yes) {
				return c.Write(item)
			}
			return nil
		},
	}
}

// whereSimple is `where Name -eq value`.
func whereSimple(c *interp.Invocation, item any) (any, error) {
	name := c.Str("Property", "")
	val := c.Any("Value")
	if name == "" {
		name = c.R.Text(c.Any("FilterScript"))
	} else if v, ok := c.Get("FilterScript"); ok && !c.Has("Value") {
		val = v
	}
	p, err := c.R.Property(item, name)
	if err != nil {
		return nil, err
	}
	for _, op := range whereOps {
		if !c.Switch(op) {
			continue
		}
		name := lower(op)
		sensitive := false
		if name[0] == 'c' && name != "contains" {
			name, sensitive = name[1:], true
		}
		return c.R.Operate("-"+name, p, val, sensitive)
	}
	return value.Bool(p) != c.Switch("Not"), nil
}

func newObject() *interp.Cmdlet {
	return &interp.Cmdlet{Name: "New-Object",
		Params: "TypeName@0 ArgumentList|Args:any[]@1 Property:hash ComObject Strict?=",
		Process: func(c *interp.Invocation) error {
			if c.Has("ComObject") {
				return interp.NotImplemented("New-Object -ComObject " + c.Str("ComObject", ""))
			}
			block, err := c.R.ParseBlock("[" + c.Str("TypeName", "") + "]")
			if err != nil {
				return interp.Failf("System.Management.Automation.PSArgumentException", "TypeNotFound", "InvalidType",
					nil, "Cannot find type [%s]: verify that the assembly containing this type is loaded.",
					c.Str("TypeName", ""))
			}
			t, err := c.R.CallBlock(block, nil, nil)
			typ, ok := t.(*value.Type)
			if err != nil || !ok {
				return interp.Failf("System.Management.Automation.PSArgumentException", "TypeNotFound", "InvalidType",
					nil, "Cannot find type [%s]: verify that the assembly containing this type is loaded. Types that "+
						"mullion's PowerShell knows are listed in %s.", c.Str("TypeName", ""), interp.FidelityPage)
			}
			if h := c.Hash("Property"); h != nil && (typ.Name == "System.Management.Automation.PSObject" ||
				typ.Name == value.CustomType) {
				o := &value.Object{}
				for _, k := range h.Keys() {
					v, _ := h.Get(k)
					o.Set(value.String(k), v)
				}
				return c.Write(o)
			}
			v, err := c.R.NewObject(typ.Name, c.Items("ArgumentList"))
			if err != nil {
				return err
			}
			if h := c.Hash("Property"); h != nil {
				for _, k := range h.Keys() {
					x, _ := h.Get(k)
					if err := c.R.SetProperty(v, value.String(k), x); err != nil {
						return err
					}
				}
			}
			return c.Write(v)
		}}
}
