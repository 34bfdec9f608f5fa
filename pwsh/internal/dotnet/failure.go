// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

func lower(s string) string { return strings.ToLower(s) }

// parseExact reads a date by a .NET format.
func parseExact(s, format string) (any, error) {
	if d, ok := value.ParseExact(s, format); ok {
		return d, nil
	}
	return nil, interp.Failf("System.FormatException", "FormatException", "NotSpecified", nil,
		"String was not recognized as a valid DateTime.")
}

// errorClasses are exceptions and error records.
//
// Length: one table; splitting hides which names belong together.
func errorClasses() []*interp.Class {
	return []*interp.Class{
		{Name: "System.Exception", New: func(c *interp.Call) (any, error) {
			ex := &interp.Exception{Type: "System.Exception",
				Message: "Exception of type 'System.Exception' was thrown."}
			if c.N() > 0 {
				ex.Message = c.Str(0)
			}
			if c.N() > 1 {
				ex.Inner, _ = c.Arg(1).(*interp.Exception)
			}
			return ex, nil
		}, Props: []interp.Property{
			get("Message", func(e *interp.Exception) any { return e.Message }),
			get("InnerException", func(e *interp.Exception) any {
				if e.Inner == nil {
					return nil
				}
				return e.Inner
			}),
			get("HResult", func(*interp.Exception) any { return int32(-2146233088) }), // COR_E_EXCEPTION
			get("StackTrace", func(*interp.Exception) any { return nil }),
			get("Source", func(*interp.Exception) any { return nil }),
			get("Data", func(*interp.Exception) any { return &value.Hash{} }),
			get("ErrorRecord", func(e *interp.Exception) any {
				return &interp.ErrorRecord{Exception: e, FQID: e.ID, Category: e.Category}
			}),
		}, Methods: []interp.Method{
			method("GetBaseException", func(_ *interp.Call, e *interp.Exception) (any, error) {
				for e.Inner != nil {
					e = e.Inner
				}
				return e, nil
			}),
			method("ToString", func(_ *interp.Call, e *interp.Exception) (any, error) { return e.Text(), nil }),
		}},
		{Name: "System.Management.Automation.ErrorRecord", New: func(c *interp.Call) (any, error) {
			ex, ok := c.Arg(0).(*interp.Exception)
			if !ok {
				return nil, argError("An exception is needed.")
			}
			return &interp.ErrorRecord{Exception: ex, FQID: c.Str(1), Category: c.Str(2), Target: c.Arg(3)}, nil
		}, Props: []interp.Property{
			get("Exception", func(e *interp.ErrorRecord) any { return e.Exception }),
			get("TargetObject", func(e *interp.ErrorRecord) any { return e.Target }),
			get("CategoryInfo", func(e *interp.ErrorRecord) any {
				o := value.NewObject("System.Management.Automation.ErrorCategoryInfo", "Category", e.Category,
					"Activity", e.Activity, "Reason", value.ShortName(e.Exception.Type), "TargetName",
					value.String(e.Target), "TargetType", value.ShortName(value.TypeName(e.Target)))
				o.Str = e.CategoryInfo()
				return o
			}),
			get("FullyQualifiedErrorId", func(e *interp.ErrorRecord) any { return e.FQID }),
			rw("ErrorDetails", func(e *interp.ErrorRecord) any {
				if e.Details == "" {
					return nil
				}
				o := value.NewObject("System.Management.Automation.ErrorDetails", "Message", e.Details)
				o.Str = e.Details
				return o
			}, func(_ *interp.Call, e *interp.ErrorRecord, v any) error { e.Details = value.String(v); return nil }),
			get("InvocationInfo", func(e *interp.ErrorRecord) any {
				line, col, name, text := 0, 0, "", ""
				if e.Source != nil {
					line, col = e.Source.LineCol(e.At.From)
					name, text = e.Source.Name, e.Source.Line(e.At.From)
				}
				return value.NewObject("System.Management.Automation.InvocationInfo", "MyCommand", e.Activity,
					"InvocationName", e.Activity, "ScriptLineNumber", i32(line), "OffsetInLine", i32(col), "ScriptName",
					name, "Line", text, "PositionMessage", e.PositionMessage())
			}),
			get("ScriptStackTrace", func(e *interp.ErrorRecord) any {
				if e.Source == nil {
					return ""
				}
				line, _ := e.Source.LineCol(e.At.From)
				name := e.Source.Name
				if name == "" {
					name = "<No file>"
				}
				return "at <ScriptBlock>, " + name + ": line " + value.String(i32(line))
			}),
		}, Methods: []interp.Method{
			method("ToString", func(_ *interp.Call, e *interp.ErrorRecord) (any, error) { return e.Text(), nil }),
		}},
		{Name: "System.Management.Automation.InformationRecord",
			Props: []interp.Property{get("MessageData", func(s *interp.StreamRecord) any {
				return s.Message
			})}},
		{Name: "System.Management.Automation.WarningRecord",
			Props: []interp.Property{get("Message", func(s *interp.StreamRecord) any {
				return s.Message
			})}},
		{Name: "System.Management.Automation.VerboseRecord",
			Props: []interp.Property{get("Message", func(s *interp.StreamRecord) any {
				return s.Message
			})}},
		{Name: "System.Management.Automation.DebugRecord",
			Props: []interp.Property{get("Message", func(s *interp.StreamRecord) any {
				return s.Message
			})}},
		numbered("System.Management.Automation.ActionPreference", false, member("SilentlyContinue", 0),
			member("Stop", 1), member("Continue", 2), member("Inquire", 3), member("Ignore", 4)),
		enum("System.Management.Automation.ErrorCategory", "NotSpecified", "OpenError", "CloseError", "DeviceError",
			"DeadlockDetected", "InvalidArgument", "InvalidData", "InvalidOperation", "InvalidResult", "InvalidType",
			"MetadataError", "NotImplemented", "NotInstalled", "ObjectNotFound", "OperationStopped", "OperationTimeout",
			"SyntaxError", "ParserError", "PermissionDenied", "ResourceBusy", "ResourceExists", "ResourceUnavailable",
			"ReadError", "WriteError", "FromStdErr", "SecurityError", "ProtocolError", "ConnectionError",
			"AuthenticationError", "LimitsExceeded", "QuotaExceeded", "NotEnabled"),
	}
}

// regexClasses are Regex, Match and Group.
//
// Length: one table; splitting hides which names belong together.
func regexClasses() []*interp.Class {
	options := func(v any) string {
		s := lower(value.String(v))
		var opts strings.Builder
		for _, o := range []struct{ name, letter string }{{"ignorecase", "i"}, {"multiline", "m"}, {"singleline", "s"},
			{"explicitcapture", "n"}, {"ignorepatternwhitespace", "x"}} {
			if strings.Contains(s, o.name) {
				opts.WriteString(o.letter)
			}
		}
		return opts.String()
	}
	compile := func(c *interp.Call, i int) (*interp.Regex, error) {
		opts := ""
		if c.N() > i+1 {
			opts = options(c.Arg(c.N() - 1))
		}
		return interp.NewRegex(c.Str(i), opts)
	}
	found := func(m *interp.Match, err error) (any, error) {
		if m == nil {
			m = &interp.Match{}
		}
		return m, err
	}
	isMatch := func(x *interp.Regex, s string) (any, error) {
		m, err := x.Find(s)
		return m != nil, err
	}
	list := func(x *interp.Regex, s string) (any, error) {
		ms, err := x.All(s)
		out := make([]any, len(ms))
		for i, m := range ms {
			out[i] = m
		}
		return value.NewArray(out...), err
	}
	split := func(x *interp.Regex, s string) (any, error) {
		parts, err := x.Split(s, 0)
		return value.NewStrings(parts), err
	}
	// of is a static method: it compiles its second argument and uses it on the first.
	of := func(name string, f func(x *interp.Regex, s string) (any, error)) interp.Method {
		return static(name, func(c *interp.Call) (any, error) {
			x, err := compile(c, 1)
			if err != nil {
				return nil, err
			}
			return f(x, c.Str(0))
		})
	}
	on := func(name string, f func(x *interp.Regex, s string) (any, error)) interp.Method {
		return method(name, func(c *interp.Call, x *interp.Regex) (any, error) { return f(x, c.Str(0)) })
	}
	match := func(x *interp.Regex, s string) (any, error) { return found(x.Find(s)) }
	sub := func(c *interp.Call, x *interp.Regex, s string, by any, n int) (any, error) {
		if b, ok := by.(*interp.ScriptBlock); ok {
			return x.ReplaceFunc(s, n, func(m *interp.Match) (string, error) {
				v, err := c.R.CallBlock(b, m, []any{m})
				return c.R.Text(v), err
			})
		}
		return x.Replace(s, value.String(by), n)
	}
	groupProps := []interp.Property{
		get("Value", func(g *interp.Group) any { return g.Value }), get("Success", func(g *interp.Group) any {
			return g.Success
		}),
		get("Index", func(g *interp.Group) any { return i32(g.Index) }), get("Length", func(g *interp.Group) any {
			return i32(g.Length)
		}),
		get("Name", func(g *interp.Group) any { return g.Name }),
	}
	first := func(f func(g *interp.Group) any, none any) func(m *interp.Match) any {
		return func(m *interp.Match) any {
			if len(m.Groups) == 0 {
				return none
			}
			return f(m.Groups[0])
		}
	}
	return []*interp.Class{
		{Name: "System.Text.RegularExpressions.Regex", New: func(c *interp.Call) (any, error) { return compile(c, 0) },
			Methods: []interp.Method{
				on("IsMatch", isMatch), on("Match", match), on("Matches", list),
				method("Replace", func(c *interp.Call, x *interp.Regex) (any, error) {
					n := -1
					if c.N() > 2 {
						var err error
						if n, err = c.Int(2); err != nil {
							return nil, err
						}
					}
					return sub(c, x, c.Str(0), c.Arg(1), n)
				}),
				on("Split", split),
			}, StaticMethods: []interp.Method{
				of("IsMatch", isMatch), of("Match", match), of("Matches", list),
				static("Replace", func(c *interp.Call) (any, error) {
					opts := ""
					if c.N() > 3 {
						opts = options(c.Arg(3))
					}
					x, err := interp.NewRegex(c.Str(1), opts)
					if err != nil {
						return nil, err
					}
					return sub(c, x, c.Str(0), c.Arg(2), -1)
				}),
				of("Split", split),
				static("Escape", func(c *interp.Call) (any, error) { return interp.QuoteRegex(c.Str(0)), nil }),
			}},
		{Name: "System.Text.RegularExpressions.Match", Props: []interp.Property{
			get("Groups", func(m *interp.Match) any { return groups{m} }),
			get("Success", func(m *interp.Match) any { return len(m.Groups) > 0 }),
			get("Value", first(func(g *interp.Group) any { return g.Value }, "")),
			get("Index", first(func(g *interp.Group) any { return i32(g.Index) }, int32(0))),
			get("Length", first(func(g *interp.Group) any { return i32(g.Length) }, int32(0))),
			get("Name", func(*interp.Match) any { return "0" }),
			get("Captures", func(m *interp.Match) any { return value.NewArray(m) }),
		}, Methods: []interp.Method{
			method("NextMatch", func(_ *interp.Call, m *interp.Match) (any, error) { return found(m.Next()) }),
			method("Result", func(c *interp.Call, m *interp.Match) (any, error) { return m.Result(c.Str(0)), nil }),
		}},
		{Name: "System.Text.RegularExpressions.Group", Props: groupProps},
		{Name: "System.Text.RegularExpressions.GroupCollection",
			Props: []interp.Property{get("Count", func(g groups) any {
				return i32(len(g.m.Groups))
			})}},
		numbered("System.Text.RegularExpressions.RegexOptions", true, member("None", 0), member("IgnoreCase", 1),
			member("Multiline", 2), member("ExplicitCapture", 4), member("Compiled", 8), member("Singleline", 16),
			member("IgnorePatternWhitespace", 32)),
	}
}

// groups is the GroupCollection of a match, by number or name.
type groups struct{ m *interp.Match }

// TypeName returns the .NET name.
func (groups) TypeName() string { return "System.Text.RegularExpressions.GroupCollection" }

// Enumerate lists the groups.
func (g groups) Enumerate() []any {
	out := make([]any, len(g.m.Groups))
	for i, x := range g.m.Groups {
		out[i] = x
	}
	return out
}

// Index returns a group by number or name.
func (g groups) Index(i any) (any, error) {
	if x := g.m.Group(value.String(i)); x != nil {
		return x, nil
	}
	return &interp.Group{Name: value.String(i)}, nil
}
