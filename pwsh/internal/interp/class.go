// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// Class describes a .NET type: the members of its instances and of the type itself.
type Class struct {
	Name    string // full name
	Base    string // full name of the base class; empty: System.Object
	Props   []Property
	Methods []Method
	// Statics and StaticMethods are reached by ::.
	Statics       []Property
	StaticMethods []Method
	New           func(c *Call) (any, error)
	// Cast converts a value to the type; nil: only instances are accepted.
	Cast func(r *Runner, v any) (any, error)
	// Enum are the members of an enumeration.
	Enum  []EnumMember
	Flags bool
}

// EnumMember is a name with its number.
type EnumMember struct {
	Name  string
	Value int64
}

// Property is a property; a nil Set makes it read-only.
type Property struct {
	Name string
	Get  func(c *Call) (any, error)
	Set  func(c *Call, v any) error
}

// Method is a method with all of its overloads.
type Method struct {
	Name string
	Fn   func(c *Call) (any, error)
}

// Call is one use of a member.
type Call struct {
	R    *Runner
	Self any
	Args []any
	Name string
}

// N returns the number of arguments.
func (c *Call) N() int { return len(c.Args) }

// Arg returns an argument, or nil.
func (c *Call) Arg(i int) any {
	if i < len(c.Args) {
		return c.Args[i]
	}
	return nil
}

// Str returns an argument as text.
func (c *Call) Str(i int) string { return c.R.Text(c.Arg(i)) }

// Int returns an argument as a number.
func (c *Call) Int(i int) (int, error) { return value.ToInt(c.Arg(i)) }

// Need reports a call with the wrong number of arguments.
func (c *Call) Need(counts ...int) error {
	if slices.Contains(counts, len(c.Args)) {
		return nil
	}
	return Failf("System.Management.Automation.MethodException", "MethodCountCouldNotFindBest", "NotSpecified", nil,
		"Cannot find an overload for \"%s\" and the argument count: \"%d\".", c.Name, len(c.Args))
}

// Instance is an object of a Class whose state is a Go value.
type Instance struct {
	Class *Class
	Data  any
	Str   func() string // ToString; nil: the class's name
}

// TypeName returns the class's name.
func (i *Instance) TypeName() string { return i.Class.Name }

// Text is ToString.
func (i *Instance) Text() string {
	if i.Str != nil {
		return i.Str()
	}
	return i.Class.Name
}

// EnumValue is a value of an enumeration.
type EnumValue struct {
	Class *Class
	N     int64
}

// TypeName returns the enumeration's name.
func (e EnumValue) TypeName() string { return e.Class.Name }

// IntValue returns the member's number.
func (e EnumValue) IntValue() int64 { return e.N }

// HashKey makes equal members equal.
func (e EnumValue) HashKey() any { return [2]any{e.Class.Name, e.N} }

// Text returns the member's name, or the names of the flags.
func (e EnumValue) Text() string {
	for _, m := range e.Class.Enum {
		if m.Value == e.N {
			return m.Name
		}
	}
	if e.Class.Flags {
		var names []string
		left := e.N
		for _, v := range slices.Backward(e.Class.Enum) {
			if m := v; m.Value != 0 && left&m.Value == m.Value {
				names = append([]string{m.Name}, names...)
				left &^= m.Value
			}
		}
		if left == 0 && len(names) > 0 {
			return strings.Join(names, ", ")
		}
	}
	return value.String(e.N)
}

// EnumOf finds a member by its name or number.
func EnumOf(c *Class, v any) (EnumValue, error) {
	if e, ok := v.(EnumValue); ok && e.Class == c {
		return e, nil
	}
	if s, ok := v.(string); ok {
		var sum int64
		good := s != ""
		for part := range strings.SplitSeq(s, ",") {
			found := false
			for _, m := range c.Enum {
				if strings.EqualFold(m.Name, strings.TrimSpace(part)) {
					sum |= m.Value
					found = true
				}
			}
			good = good && found
		}
		if good {
			return EnumValue{c, sum}, nil
		}
	}
	if n, err := value.Int(v, "System.Int64"); err == nil {
		if _, isText := v.(string); !isText || strings.Trim(value.String(v), "0123456789") == "" {
			return EnumValue{c, n.(int64)}, nil
		}
	}
	names := make([]string, len(c.Enum))
	for i, m := range c.Enum {
		names[i] = m.Name
	}
	return EnumValue{}, &value.ConvertError{From: v, To: c.Name, Why: "Unable to match the identifier name " +
		value.String(v) + " to a valid enumerator name. Specify one of the following enumerator names and try again: " +
		strings.Join(names, ", ")}
}

type memberKey struct {
	class  string
	name   string
	static bool
}

// member is the meaning of a name in a class.
type member struct {
	prop   *Property
	method *Method
}

// Class finds a class by its full name.
func (r *Runner) Class(name string) *Class {
	return r.classes[strings.ToLower(name)]
}

// baseOf returns the base of a type: the class's own, or System.Array, or the base
// that .NET's names imply.
func (r *Runner) baseOf(name string) string {
	if c := r.Class(name); c != nil {
		if c.Base != "" {
			return c.Base
		}
		if strings.EqualFold(c.Name, "System.Object") {
			return ""
		}
		return "System.Object"
	}
	switch {
	case name == "" || strings.EqualFold(name, "System.Object"):
		return ""
	case strings.HasSuffix(name, "[]"):
		return "System.Array"
	case strings.HasSuffix(name, "Exception") && name != "System.Exception":
		if b, ok := exceptionBases[name]; ok {
			return b
		}
		return "System.SystemException"
	case strings.Contains(name, "`1[") || strings.Contains(name, "[") && !strings.HasSuffix(name, "[]"):
		return "System.Collections.ArrayList"
	}
	return "System.Object"
}

// automation is the namespace of PowerShell's own exceptions.
const automation = "System.Management.Automation."

// exceptionBases are the parents of exceptions that scripts catch.
var exceptionBases = map[string]string{
	"System.SystemException":                                "System.Exception",
	"System.ApplicationException":                           "System.Exception",
	automation + "RuntimeException":                         "System.SystemException",
	automation + "CommandNotFoundException":                 automation + "RuntimeException",
	automation + "ItemNotFoundException":                    automation + "SessionStateException",
	automation + "SessionStateException":                    automation + "RuntimeException",
	automation + "DriveNotFoundException":                   automation + "SessionStateException",
	automation + "ActionPreferenceStopException":            automation + "RuntimeException",
	automation + "MethodInvocationException":                automation + "MethodException",
	automation + "MethodException":                          automation + "ExtendedTypeSystemException",
	automation + "ExtendedTypeSystemException":              automation + "RuntimeException",
	automation + "PSInvalidCastException":                   "System.InvalidCastException",
	automation + "ParameterBindingException":                automation + "RuntimeException",
	automation + "ParseException":                           automation + "RuntimeException",
	automation + "RemoteException":                          automation + "RuntimeException",
	"System.IO.FileNotFoundException":                       "System.IO.IOException",
	"System.IO.DirectoryNotFoundException":                  "System.IO.IOException",
	"System.Net.WebException":                               "System.InvalidOperationException",
	"System.DivideByZeroException":                          "System.ArithmeticException",
	"System.ArgumentNullException":                          "System.ArgumentException",
	"System.ArgumentOutOfRangeException":                    "System.ArgumentException",
	"System.Net.Sockets.SocketException":                    "System.ComponentModel.Win32Exception",
	"System.Net.HttpListenerException":                      "System.ComponentModel.Win32Exception",
	"Microsoft.PowerShell.Commands.HttpResponseException":   "System.Net.Http.HttpRequestException",
	"System.Net.Http.HttpRequestException":                  "System.Exception",
	"Microsoft.PowerShell.Commands.ServiceCommandException": "System.SystemException",
	"Microsoft.PowerShell.Commands.ProcessCommandException": "System.SystemException",
	"Microsoft.PowerShell.Commands.WriteErrorException":     "System.SystemException",
	automation + "PipelineStoppedException":                 automation + "RuntimeException",
	automation + "PSNotSupportedException":                  "System.NotSupportedException",
	automation + "ValidationMetadataException":              automation + "MetadataException",
	automation + "ParameterBindingValidationException":      automation + "ParameterBindingException",
}

// ancestors lists a type and its bases.
func (r *Runner) ancestors(name string) []string {
	var list []string
	for n := name; n != "" && len(list) < 16; n = r.baseOf(n) {
		list = append(list, n)
	}
	return list
}

// find looks a member up in a class and its bases.
func (r *Runner) find(class, name string, static bool) (member, bool) {
	key := memberKey{class, name, static}
	if m, ok := r.members[key]; ok {
		return m, m != member{}
	}
	var m member
	for _, n := range r.ancestors(class) {
		c := r.Class(n)
		if c == nil {
			continue
		}
		if m = c.find(name, static); m != (member{}) {
			break
		}
	}
	r.members[key] = m
	return m, m != member{}
}

func (c *Class) find(name string, static bool) (m member) {
	props, methods := c.Props, c.Methods
	if static {
		props, methods = c.Statics, c.StaticMethods
	}
	for i := range props {
		if strings.EqualFold(props[i].Name, name) {
			m.prop = &props[i]
		}
	}
	for i := range methods {
		if strings.EqualFold(methods[i].Name, name) {
			m.method = &methods[i]
		}
	}
	return m
}

// Members lists the members of a value, its own class first.
func (r *Runner) Members(v any) (props []Property, methods []Method) {
	return r.MembersOf(value.TypeName(value.Unwrap(v)), false)
}

// MembersOf lists the members of a type.
func (r *Runner) MembersOf(typ string, static bool) (props []Property, methods []Method) {
	seen := map[string]bool{}
	for _, n := range r.ancestors(typ) {
		c := r.Class(n)
		if c == nil {
			continue
		}
		ps, ms := c.Props, c.Methods
		if static {
			ps, ms = c.Statics, c.StaticMethods
		}
		for _, p := range ps {
			if !seen[p.Name] {
				seen[p.Name] = true
				props = append(props, p)
			}
		}
		for _, m := range ms {
			if !seen[m.Name] {
				seen[m.Name] = true
				methods = append(methods, m)
			}
		}
	}
	return props, methods
}

// BaseType returns the name of a type's base; empty for System.Object.
func (r *Runner) BaseType(name string) string { return r.baseOf(name) }
