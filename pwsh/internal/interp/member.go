// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"errors"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// ScriptProperty is a property that a script block computes (Add-Member).
type ScriptProperty struct{ Get, Set *ScriptBlock }

// ScriptMethod is a method that a script block is (Add-Member).
type ScriptMethod struct{ Block *ScriptBlock }

// AliasProperty is another name of a property (Add-Member).
type AliasProperty struct{ Target string }

// member is x.name, x::name or a call.
func (r *Runner) member(m *syntax.Member) (any, error) {
	if m.Static {
		return r.static(m)
	}
	x, err := r.operand(m.X)
	if err != nil {
		return nil, err
	}
	name, err := r.memberName(m.Name)
	if err != nil {
		return nil, err
	}
	if m.NullSafe && x == nil {
		return nil, nil
	}
	if !m.Call {
		return r.Property(x, name)
	}
	args, err := r.callArgs(m.Args)
	if err != nil {
		return nil, err
	}
	return r.CallMethod(x, name, args)
}

func (r *Runner) callArgs(list []syntax.Expr) ([]any, error) {
	args := make([]any, len(list))
	for i, a := range list {
		v, err := r.operand(a)
		if err != nil {
			return nil, err
		}
		args[i] = v
	}
	return args, nil
}

func (r *Runner) memberName(x syntax.Expr) (string, error) {
	if s, ok := x.(*syntax.String); ok {
		return s.Value, nil
	}
	v, err := r.operand(x)
	return value.String(v), err
}

func (r *Runner) static(m *syntax.Member) (any, error) {
	x, err := r.operand(m.X)
	if err != nil {
		return nil, err
	}
	t, ok := x.(*value.Type)
	if !ok {
		if s, isText := x.(string); isText {
			if full, found := r.typeByName(s); found {
				t, ok = &value.Type{Name: full}, true
			}
		}
		if !ok && x != nil {
			t, ok = &value.Type{Name: value.TypeName(x)}, true
		}
		if !ok {
			return nil, r.fail("System.Management.Automation.RuntimeException", "InvokeMethodOnNull",
				"InvalidOperation", nil, "You cannot call a method on a null-valued expression.")
		}
	}
	name, err := r.memberName(m.Name)
	if err != nil {
		return nil, err
	}
	args, err := r.callArgs(m.Args)
	if err != nil {
		return nil, err
	}
	if c := r.Class(t.Name); c != nil && c.Enum != nil && !m.Call {
		for _, e := range c.Enum {
			if strings.EqualFold(e.Name, name) {
				return EnumValue{c, e.Value}, nil
			}
		}
	}
	if m.Call && strings.EqualFold(name, "new") {
		return r.NewObject(t.Name, args)
	}
	mem, found := r.find(t.Name, strings.ToLower(name), true)
	switch {
	case found && m.Call && mem.method != nil:
		return r.invoke(mem.method, nil, args)
	case found && !m.Call && mem.prop != nil:
		return mem.prop.Get(&Call{R: r, Name: name})
	case m.Call:
		return nil, r.fail("System.Management.Automation.RuntimeException", "MethodNotFound", "InvalidOperation", name,
			"Method invocation failed because [%s] does not contain a method named '%s' in mullion's PowerShell. See "+
				"%s.", t.Name, name, FidelityPage)
	}
	return nil, r.fail("System.Management.Automation.RuntimeException", "PropertyNotFound", "InvalidOperation", name,
		"The static property '%s' of [%s] is not known to mullion's PowerShell. See %s.", name, t.Name, FidelityPage)
}

// invoke calls a method and words its errors as PowerShell does.
func (r *Runner) invoke(m *Method, self any, args []any) (any, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	v, err := m.Fn(&Call{R: r, Self: self, Args: args, Name: m.Name})
	if err == nil || isFlow(err) {
		return v, err
	}
	if err := r.ended(err); err != nil {
		return nil, err
	}
	var t *Thrown
	if errors.As(err, &t) || errors.Is(err, errNotImplemented) {
		return nil, err
	}
	ex := r.exception(err)
	if ex.Type == "System.Management.Automation.MethodException" {
		return nil, ex
	}
	return nil, &Exception{Type: "System.Management.Automation.MethodInvocationException",
		Message: "Exception calling \"" + m.Name + "\" with \"" + value.String(int32(len(args))) +
			"\" argument(s): \"" + ex.Message + "\"",
		ID: value.ShortName(ex.Type), Category: "NotSpecified", Inner: ex, cause: err}
}

// Property reads a property; it returns $null for a missing one, as PowerShell does
// outside of strict mode. For a collection it returns the property of each element.
func (r *Runner) Property(x any, name string) (any, error) {
	v, ok, err := r.property(x, name)
	if err != nil || ok {
		return v, err
	}
	if items, isList := value.Items(x); isList {
		var out []any
		for _, item := range items {
			v, ok, err := r.property(item, name)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			if sub, isList := value.Items(v); isList {
				out = append(out, sub...)
			} else {
				out = append(out, v)
			}
		}
		return value.Collapse(out), nil
	}
	if r.strict > 0 {
		return nil, r.fail("System.Management.Automation.PropertyNotFoundException", "PropertyNotFoundStrict",
			"InvalidOperation", name,
			"The property '%s' cannot be found on this object. Verify that the property exists.", name)
	}
	return nil, nil
}

// HasProperty reads a property and reports whether it exists.
func (r *Runner) HasProperty(x any, name string) (any, bool) {
	v, ok, err := r.property(x, name)
	return v, ok && err == nil
}

func (r *Runner) property(x any, name string) (any, bool, error) {
	if o, ok := x.(*value.Object); ok {
		if v, ok := o.Get(name); ok {
			v, err := r.objectProp(o, v)
			return v, true, err
		}
		if o.Base != nil {
			return r.property(o.Base, name)
		}
	}
	if h, ok := x.(*value.Hash); ok {
		if v, ok := h.Get(name); ok {
			return v, true, nil
		}
	}
	typ := "System.Object"
	if x != nil {
		typ = value.TypeName(x)
	}
	if m, ok := r.find(typ, strings.ToLower(name), false); ok && m.prop != nil && x != nil {
		v, err := m.prop.Get(&Call{R: r, Self: x, Name: m.prop.Name})
		if err != nil {
			return nil, true, err
		}
		return v, true, nil
	}
	if ex, ok := x.(*Exception); ok {
		for _, p := range ex.Props {
			if strings.EqualFold(p.Name, name) {
				return p.Value, true, nil
			}
		}
	}
	if x == nil {
		if strings.EqualFold(name, "count") || strings.EqualFold(name, "length") {
			return int32(0), true, nil
		}
		return nil, r.strict == 0, nil
	}
	_, isList := value.Items(x)
	if !isList && (strings.EqualFold(name, "count") || strings.EqualFold(name, "length")) {
		return int32(1), true, nil
	}
	return nil, false, nil
}

func (r *Runner) objectProp(o *value.Object, v any) (any, error) {
	switch p := v.(type) {
	case *ScriptProperty:
		return r.callBlockThis(p.Get, o, nil)
	case *AliasProperty:
		return r.Property(o, p.Target)
	}
	return v, nil
}

func (r *Runner) scriptText(o *value.Object) (string, bool) {
	v, ok := o.Get("ToString")
	if !ok {
		return "", false
	}
	m, ok := v.(*ScriptMethod)
	if !ok {
		return "", false
	}
	s, err := r.callBlockThis(m.Block, o, nil)
	return value.String(s), err == nil
}

// CallMethod calls a method of a value.
func (r *Runner) CallMethod(x any, name string, args []any) (any, error) {
	if o, ok := x.(*value.Object); ok {
		if v, ok := o.Get(name); ok {
			if m, ok := v.(*ScriptMethod); ok {
				return r.callBlockThis(m.Block, o, args)
			}
			if b, ok := v.(*ScriptBlock); ok && strings.EqualFold(name, "invoke") {
				return r.CallBlock(b, nil, args)
			}
		}
		if o.Base != nil {
			return r.CallMethod(o.Base, name, args)
		}
	}
	if x == nil {
		return nil, r.fail("System.Management.Automation.RuntimeException", "InvokeMethodOnNull", "InvalidOperation",
			nil, "You cannot call a method on a null-valued expression.")
	}
	lower := strings.ToLower(name)
	if m, ok := r.find(value.TypeName(x), lower, false); ok && m.method != nil {
		return r.invoke(m.method, x, args)
	}
	if v, done, err := r.magic(x, lower, args); done {
		return v, err
	}
	if items, ok := value.Items(x); ok && len(items) > 0 {
		var out []any
		for _, item := range items {
			v, err := r.CallMethod(item, name, args)
			if err != nil {
				return nil, err
			}
			if v != Void {
				out = append(out, v)
			}
		}
		return value.Collapse(out), nil
	}
	typ := value.TypeName(x)
	if strings.HasPrefix(lower, "get_") || strings.HasPrefix(lower, "set_") { // accessor methods of properties
		if lower[0] == 'g' && len(args) == 0 {
			if v, ok, err := r.property(x, name[4:]); ok {
				return v, err
			}
		} else if len(args) == 1 {
			return Void, r.SetProperty(x, name[4:], args[0])
		}
	}
	return nil, r.fail("System.Management.Automation.RuntimeException", "MethodNotFound", "InvalidOperation", name,
		"Method invocation failed because [%s] does not contain a method named '%s' in mullion's PowerShell. See %s.",
		typ, name, FidelityPage)
}

// magic returns the methods that every collection has: ForEach and Where.
// Source: about_Arrays.
func (r *Runner) magic(x any, lower string, args []any) (any, bool, error) {
	if lower != "foreach" && lower != "where" || len(args) == 0 {
		return nil, false, nil
	}
	items, ok := value.Items(x)
	if !ok {
		items = []any{x}
	}
	b, isBlock := args[0].(*ScriptBlock)
	out := []any{}
	if lower == "where" {
		if !isBlock {
			return nil, false, nil
		}
		mode := ""
		limit := 0
		if len(args) > 1 {
			mode = strings.ToLower(value.String(args[1]))
		}
		if len(args) > 2 {
			limit, _ = value.ToInt(args[2])
		}
		switch mode {
		case "", "default", "first", "last":
		default:
			return nil, true, NotImplemented("the mode '" + mode + "' of the Where method")
		}
		for _, v := range items {
			yes, err := r.CallBlock(b, v, nil)
			if err != nil {
				return nil, true, err
			}
			if value.Bool(yes) {
				out = append(out, v)
			}
			if mode == "first" && len(out) >= max(limit, 1) {
				break
			}
		}
		if n := max(limit, 1); mode == "last" && len(out) > n {
			out = out[len(out)-n:]
		}
		return value.NewArray(out...), true, nil
	}
	for _, v := range items {
		var res any
		var err error
		switch {
		case isBlock:
			res, err = r.CallBlock(b, v, args[1:])
		default:
			name := value.String(args[0])
			if t, ok := args[0].(*value.Type); ok {
				res, err = r.ConvertTo(v, t.Name)
			} else if p, ok := r.HasProperty(v, name); ok {
				res = p
			} else {
				res, err = r.CallMethod(v, name, args[1:])
			}
		}
		if err != nil {
			return nil, true, err
		}
		if sub, ok := value.Items(res); ok {
			out = append(out, sub...)
		} else if res != nil && res != Void {
			out = append(out, res)
		}
	}
	return value.NewArray(out...), true, nil
}

// setMember is x.name = v and [T]::name = v.
func (r *Runner) setMember(m *syntax.Member, v any) error {
	name, err := r.memberName(m.Name)
	if err != nil {
		return err
	}
	x, err := r.operand(m.X)
	if err != nil {
		return err
	}
	if m.Static {
		t, ok := x.(*value.Type)
		if !ok {
			return NotImplemented("an assignment to a static member of a value")
		}
		if mem, ok := r.find(t.Name, strings.ToLower(name), true); ok && mem.prop != nil && mem.prop.Set != nil {
			return mem.prop.Set(&Call{R: r, Name: name}, v)
		}
		return r.fail("System.Management.Automation.RuntimeException", "PropertyAssignmentException",
			"InvalidOperation", name, "The static property '%s' of [%s] cannot be set in mullion's PowerShell. See %s.",
			name, t.Name, FidelityPage)
	}
	return r.SetProperty(x, name, v)
}

// SetProperty assigns to a property.
func (r *Runner) SetProperty(x any, name string, v any) error {
	switch o := x.(type) {
	case nil:
		return r.fail("System.Management.Automation.RuntimeException", "PropertyNotFound", "InvalidOperation", nil,
			"The property '%s' cannot be found on this object. Verify that the property exists and can be set.", name)
	case *value.Hash:
		o.Set(name, v)
		return nil
	case *value.Object:
		if cur, ok := o.Get(name); ok {
			switch p := cur.(type) {
			case *ScriptProperty:
				if p.Set == nil {
					return r.fail("System.Management.Automation.SetValueException", "ScriptSetValueException",
						"InvalidOperation", name, "'%s' is a ReadOnly property.", name)
				}
				_, err := r.callBlockThis(p.Set, o, []any{v})
				return err
			case *AliasProperty:
				return r.SetProperty(o, p.Target, v)
			}
			o.Set(name, v)
			return nil
		}
		if o.Base != nil {
			return r.SetProperty(o.Base, name, v)
		}
	}
	if m, ok := r.find(value.TypeName(x), strings.ToLower(name), false); ok && m.prop != nil {
		if m.prop.Set == nil {
			return r.fail("System.Management.Automation.RuntimeException", "PropertyAssignmentException",
				"InvalidOperation", name, "'%s' is a ReadOnly property.", name)
		}
		if err := m.prop.Set(&Call{R: r, Self: x, Name: name}, v); err != nil {
			ex := r.exception(err)
			return &Exception{
				Type:     "System.Management.Automation.SetValueInvocationException",
				Message:  "Exception setting \"" + name + "\": \"" + ex.Message + "\"",
				ID:       "ExceptionWhenSetting",
				Category: "NotSpecified",
				Inner:    ex,
				cause:    err,
			}
		}
		return nil
	}
	if items, ok := value.Items(x); ok && len(items) > 0 {
		for _, item := range items {
			if err := r.SetProperty(item, name, v); err != nil {
				return err
			}
		}
		return nil
	}
	return r.fail("System.Management.Automation.RuntimeException", "PropertyNotFound", "InvalidOperation", nil,
		"The property '%s' cannot be found on this object. Verify that the property exists and can be set.", name)
}
