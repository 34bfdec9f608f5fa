// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"sort"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// memberCmdlets are Add-Member and Get-Member.
func memberCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Add-Member", Params: "MemberType|Type@0 Name:any@1 Value:any@2 SecondValue:any@3 InputObject:any!< " +
			"NotePropertyName NotePropertyValue:any NotePropertyMembers:any TypeName PassThru? Force?",
			Process: addMember},
		{Name: "Get-Member", Aliases: []string{"gm"},
			Params: "Name[]@0 InputObject:any< MemberType|Type[] Static? View~ Force?",
			Begin: func(c *interp.Invocation) error {
				c.State = map[string]bool{}
				return nil
			}, Process: getMember},
	}
}

func addMember(c *interp.Invocation) error {
	o, ok := c.Any("InputObject").(*value.Object)
	if !ok {
		o = &value.Object{Base: c.Any("InputObject")}
	}
	add := func(name string, v any) error {
		if _, dup := o.Get(name); dup && !c.Switch("Force") {
			return c.Error(interp.Failf("System.InvalidOperationException", "MemberAlreadyExists", "InvalidOperation",
				o, "Cannot add a member with the name \"%s\" because a member with that name already exists. To "+
					"overwrite the member anyway, add the Force parameter to your command.", name))
		}
		o.Set(name, v)
		return nil
	}
	var err error
	name := value.String(c.Any("Name"))
	switch kind := lower(c.Str("MemberType", "")); {
	case c.Has("TypeName"):
		o.Types = append([]string{c.Str("TypeName", "")}, o.Types...)
		o.Show = []string(nil)
	case c.Has("NotePropertyName"):
		err = add(c.Str("NotePropertyName", ""), c.Any("NotePropertyValue"))
	case c.Has("NotePropertyMembers"):
		h, ok := c.Any("NotePropertyMembers").(*value.Hash)
		if !ok {
			return badArgument("NotePropertyMembers", "A hashtable is needed.")
		}
		for _, k := range h.Keys() {
			v, _ := h.Get(k)
			if err = add(value.String(k), v); err != nil {
				break
			}
		}
	case kind == "noteproperty":
		err = add(name, c.Any("Value"))
	case kind == "scriptproperty":
		get, ok := c.Any("Value").(*interp.ScriptBlock)
		if !ok {
			return badArgument("Value", "A script block is needed.")
		}
		set, _ := c.Any("SecondValue").(*interp.ScriptBlock)
		err = add(name, &interp.ScriptProperty{Get: get, Set: set})
	case kind == "scriptmethod":
		b, ok := c.Any("Value").(*interp.ScriptBlock)
		if !ok {
			return badArgument("Value", "A script block is needed.")
		}
		err = add(name, &interp.ScriptMethod{Block: b})
	case kind == "aliasproperty":
		err = add(name, &interp.AliasProperty{Target: c.R.Text(c.Any("Value"))})
	default: // `Add-Member Name Value`
		if c.Has("MemberType") && c.Has("Name") && !c.Has("Value") {
			err = add(c.Str("MemberType", ""), c.Any("Name"))
			break
		}
		return interp.NotImplemented("Add-Member -MemberType " + kind)
	}
	if err != nil {
		return err
	}
	if c.Switch("PassThru") {
		return c.Write(o)
	}
	return nil
}

func getMember(c *interp.Invocation) error {
	v := c.Any("InputObject")
	if v == nil {
		if !c.HasItem {
			return c.Error(interp.Failf("System.InvalidOperationException", "NoObjectInGetMember", "CloseError", nil,
				"You must specify an object for the Get-Member cmdlet."))
		}
		return nil
	}
	typ := value.TypeName(v)
	if t, ok := v.(*value.Type); ok && c.Switch("Static") {
		typ = t.Name
	}
	seen := c.State.(map[string]bool)
	if seen[typ] {
		return nil
	}
	seen[typ] = true
	type row struct{ name, kind, def string }
	var rows []row
	props, methods := c.R.MembersOf(typ, c.Switch("Static"))
	for _, m := range methods {
		rows = append(rows, row{m.Name, "Method", m.Name + "()"})
	}
	for _, p := range props {
		access := "{get;}"
		if p.Set != nil {
			access = "{get;set;}"
		}
		rows = append(rows, row{p.Name, "Property", p.Name + " " + access})
	}
	if o, ok := v.(*value.Object); ok {
		for _, p := range o.Props {
			kind := "NoteProperty"
			switch p.Value.(type) {
			case *interp.ScriptMethod:
				kind = "ScriptMethod"
			case *interp.ScriptProperty:
				kind = "ScriptProperty"
			case *interp.AliasProperty:
				kind = "AliasProperty"
			}
			rows = append(rows, row{p.Name, kind, strings.ToLower(value.ShortName(value.TypeName(p.Value))) + " " +
				p.Name + "=" + c.R.Text(p.Value)})
		}
	}
	sort.SliceStable(rows, func(i, j int) bool {
		if rows[i].kind != rows[j].kind {
			return rows[i].kind < rows[j].kind
		}
		return lower(rows[i].name) < lower(rows[j].name)
	})
	for _, r := range rows {
		if !matches(c.Strs("Name"), r.name) {
			continue
		}
		if kinds := c.Strs("MemberType"); len(kinds) > 0 && !matches(kinds, r.kind) &&
			(!containsFold(kinds, "Properties") || !strings.HasSuffix(r.kind, "Property")) {
			continue
		}
		o := value.NewObject("Microsoft.PowerShell.Commands.MemberDefinition", "TypeName", typ, "Name", r.name,
			"MemberType", r.kind, "Definition", r.def)
		o.Str = r.def
		if err := c.Write(show(o, "Name", "MemberType", "Definition")); err != nil {
			return err
		}
	}
	return nil
}
