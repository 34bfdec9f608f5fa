// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"sort"
	"strings"
	"unicode"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// textClasses are String, Char and StringBuilder. Offsets count characters.
func textClasses() []*interp.Class {
	return []*interp.Class{
		{Name: "System.String", New: func(c *interp.Call) (any, error) {
			if c.N() == 2 {
				return value.Mul(c.Str(0), c.Arg(1))
			}
			if a, ok := c.Arg(0).(*value.Array); ok {
				return value.Join(a.Items, ""), nil
			}
			return c.Str(0), nil
		}, Props: []interp.Property{
			get("Length", func(s string) any { return i32(len([]rune(s))) }),
		}, Methods: append(stringMethods(), interp.Method{Name: "GetEnumerator", Fn: func(c *interp.Call) (any, error) {
			return charArray(self[string](c)), nil
		}}), Statics: []interp.Property{constant("Empty", "")},
			StaticMethods: []interp.Method{
				static("Format", func(c *interp.Call) (any, error) {
					args := c.Args[min(1, c.N()):]
					if len(args) == 1 {
						if items, ok := value.Items(args[0]); ok {
							args = items
						}
					}
					return value.Format(c.Str(0), args)
				}),
				static("Join", func(c *interp.Call) (any, error) {
					args := c.Args[min(1, c.N()):]
					if len(args) == 1 {
						if items, ok := value.Items(args[0]); ok {
							args = items
						}
					}
					return value.Join(args, c.Str(0)), nil
				}),
				static("Concat", func(c *interp.Call) (any, error) {
					args := c.Args
					if len(args) == 1 {
						if items, ok := value.Items(args[0]); ok {
							args = items
						}
					}
					return value.Join(args, ""), nil
				}),
				static("IsNullOrEmpty", func(c *interp.Call) (any, error) { return c.Str(0) == "", nil }),
				static("IsNullOrWhiteSpace", func(c *interp.Call) (any, error) {
					return strings.TrimSpace(c.Str(0)) == "", nil
				}),
				static("Compare", func(c *interp.Call) (any, error) {
					return i32(value.CompareText(c.Str(0), c.Str(1), !value.Bool(c.Arg(2)))), nil
				}),
				static("Equals", func(c *interp.Call) (any, error) {
					if c.N() > 2 && strings.Contains(strings.ToLower(c.Str(2)), "ignorecase") {
						return strings.EqualFold(c.Str(0), c.Str(1)), nil
					}
					return c.Str(0) == c.Str(1), nil
				}),
			}},
		{Name: "System.Char", StaticMethods: []interp.Method{
			charTest("IsDigit", unicode.IsDigit), charTest("IsLetter", unicode.IsLetter),
			charTest("IsUpper", unicode.IsUpper), charTest("IsLower", unicode.IsLower),
			charTest("IsWhiteSpace", unicode.IsSpace), charTest("IsPunctuation", unicode.IsPunct),
			charTest("IsNumber", unicode.IsNumber), charTest("IsControl", unicode.IsControl),
			charTest("IsLetterOrDigit", func(r rune) bool {
				return unicode.IsLetter(r) || unicode.IsDigit(r)
			}),
			static("ToUpper", func(c *interp.Call) (any, error) {
				r, err := value.ToChar(c.Arg(0))
				return value.Char(unicode.ToUpper(rune(r))), err
			}),
			static("ToLower", func(c *interp.Call) (any, error) {
				r, err := value.ToChar(c.Arg(0))
				return value.Char(unicode.ToLower(rune(r))), err
			}),
			static("ConvertFromUtf32", func(c *interp.Call) (any, error) {
				n, err := c.Int(0)
				return string(rune(n)), err
			}),
		}},
		builderClass(),
		enum("System.StringComparison", "CurrentCulture", "CurrentCultureIgnoreCase", "InvariantCulture",
			"InvariantCultureIgnoreCase", "Ordinal", "OrdinalIgnoreCase"),
		numbered("System.StringSplitOptions", true, member("None", 0), member("RemoveEmptyEntries", 1),
			member("TrimEntries", 2)),
	}
}

func charTest(name string, f func(rune) bool) interp.Method {
	return static(name, func(c *interp.Call) (any, error) {
		if s, ok := c.Arg(0).(string); ok && c.N() == 2 {
			i, err := c.Int(1)
			if r := []rune(s); err == nil && i >= 0 && i < len(r) {
				return f(r[i]), nil
			}
		}
		r, err := value.ToChar(c.Arg(0))
		return f(rune(r)), err
	})
}

func outOfRange(name string) error {
	return interp.Failf("System.ArgumentOutOfRangeException", "ArgumentOutOfRangeException", "InvalidArgument", nil,
		"Index and length must refer to a location within the string.\nParameter name: %s", name)
}

// sensitiveArg reads a StringComparison or an ignoreCase flag after an
// argument: true when case counts.
func sensitiveArg(c *interp.Call, i int) bool {
	switch v := c.Arg(i).(type) {
	case bool:
		return !v
	case nil:
		return true
	default:
		return !strings.Contains(strings.ToLower(value.String(v)), "ignorecase")
	}
}

func indexOf(s, sub string, sensitive, last bool) int {
	if !sensitive {
		s, sub = strings.ToLower(s), strings.ToLower(sub)
	}
	i := strings.Index(s, sub)
	if last {
		i = strings.LastIndex(s, sub)
	}
	if i < 0 {
		return -1
	}
	return len([]rune(s[:i]))
}

func trimSet(c *interp.Call) string {
	var set strings.Builder
	for _, a := range c.Args {
		if items, ok := value.Items(a); ok {
			set.WriteString(value.Join(items, ""))
		} else {
			set.WriteString(value.String(a))
		}
	}
	return set.String()
}

func trimmer(name string, f func(s, set string) string, space func(string) string) interp.Method {
	return method(name, func(c *interp.Call, s string) (any, error) {
		if c.N() == 0 {
			return space(s), nil
		}
		return f(s, trimSet(c)), nil
	})
}

func pad(name string, sign int) interp.Method {
	return method(name, func(c *interp.Call, s string) (any, error) {
		n, err := c.Int(0)
		if err != nil || n < 0 || n > value.MaxItems {
			return nil, outOfRange("totalWidth")
		}
		fill := " "
		if c.N() > 1 {
			fill = c.Str(1)
		}
		missing := n - len([]rune(s))
		if missing <= 0 {
			return s, nil
		}
		if sign > 0 {
			return strings.Repeat(fill, missing) + s, nil
		}
		return s + strings.Repeat(fill, missing), nil
	})
}

// Length: one table; splitting hides which names belong together.
func stringMethods() []interp.Method {
	isSpace := unicode.IsSpace
	ms := []interp.Method{
		method("ToUpper", func(_ *interp.Call, s string) (any, error) { return strings.ToUpper(s), nil }),
		method("ToLower", func(_ *interp.Call, s string) (any, error) { return strings.ToLower(s), nil }),
		method("ToUpperInvariant", func(_ *interp.Call, s string) (any, error) { return strings.ToUpper(s), nil }),
		method("ToLowerInvariant", func(_ *interp.Call, s string) (any, error) { return strings.ToLower(s), nil }),
		trimmer("Trim", strings.Trim, strings.TrimSpace),
		trimmer("TrimStart", strings.TrimLeft, func(s string) string { return strings.TrimLeftFunc(s, isSpace) }),
		trimmer("TrimEnd", strings.TrimRight, func(s string) string { return strings.TrimRightFunc(s, isSpace) }),
		pad("PadLeft", 1), pad("PadRight", -1),
		method("Contains", func(c *interp.Call, s string) (any, error) {
			return indexOf(s, c.Str(0), sensitiveArg(c, 1), false) >= 0, nil
		}),
		method("StartsWith", func(c *interp.Call, s string) (any, error) {
			p := c.Str(0)
			if !sensitiveArg(c, 1) {
				return len(s) >= len(p) && strings.EqualFold(s[:len(p)], p), nil
			}
			return strings.HasPrefix(s, p), nil
		}),
		method("EndsWith", func(c *interp.Call, s string) (any, error) {
			p := c.Str(0)
			if !sensitiveArg(c, 1) {
				return len(s) >= len(p) && strings.EqualFold(s[len(s)-len(p):], p), nil
			}
			return strings.HasSuffix(s, p), nil
		}),
		method("IndexOf", func(c *interp.Call, s string) (any, error) {
			if n, ok := c.Arg(1).(int32); ok {
				r := []rune(s)
				if n < 0 || int(n) > len(r) {
					return nil, outOfRange("startIndex")
				}
				i := indexOf(string(r[n:]), c.Str(0), sensitiveArg(c, 2), false)
				if i >= 0 {
					i += int(n)
				}
				return i32(i), nil
			}
			return i32(indexOf(s, c.Str(0), sensitiveArg(c, 1), false)), nil
		}),
		method("LastIndexOf", func(c *interp.Call, s string) (any, error) {
			return i32(indexOf(s, c.Str(0), sensitiveArg(c, 1), true)), nil
		}),
		method("IndexOfAny", func(c *interp.Call, s string) (any, error) {
			i := strings.IndexAny(s, trimSet(c))
			if i > 0 {
				i = len([]rune(s[:i]))
			}
			return i32(i), nil
		}),
		method("Replace", func(c *interp.Call, s string) (any, error) {
			if c.Str(0) == "" {
				return nil, argError("String cannot be of zero length.\nParameter name: oldValue")
			}
			if len(s)/len(c.Str(0))*len(c.Str(1)) > value.MaxItems {
				return nil, value.ErrTooLarge
			}
			return strings.ReplaceAll(s, c.Str(0), c.Str(1)), nil
		}),
		method("Split", split),
		method("Substring", func(c *interp.Call, s string) (any, error) {
			r := []rune(s)
			n, err := ints(c, 0)
			if err != nil {
				return nil, err
			}
			if len(n) == 0 || n[0] < 0 || n[0] > len(r) || len(n) > 1 && (n[1] < 0 || n[0]+n[1] > len(r)) {
				return nil, outOfRange("length")
			}
			if len(n) > 1 {
				return string(r[n[0] : n[0]+n[1]]), nil
			}
			return string(r[n[0]:]), nil
		}),
		method("Remove", func(c *interp.Call, s string) (any, error) {
			r := []rune(s)
			n, err := ints(c, 0)
			if err != nil {
				return nil, err
			}
			if len(n) == 1 {
				n = append(n, len(r)-n[0])
			}
			if len(n) == 0 || n[0] < 0 || n[1] < 0 || n[0]+n[1] > len(r) {
				return nil, outOfRange("startIndex")
			}
			return string(r[:n[0]]) + string(r[n[0]+n[1]:]), nil
		}),
		method("Insert", func(c *interp.Call, s string) (any, error) {
			r := []rune(s)
			n, err := c.Int(0)
			if err != nil || n < 0 || n > len(r) {
				return nil, outOfRange("startIndex")
			}
			return string(r[:n]) + c.Str(1) + string(r[n:]), nil
		}),
		method("ToCharArray", func(_ *interp.Call, s string) (any, error) { return charArray(s), nil }),
		method("Chars", func(c *interp.Call, s string) (any, error) { return c.R.Index(s, c.Arg(0)) }),
		method("get_Chars", func(c *interp.Call, s string) (any, error) { return c.R.Index(s, c.Arg(0)) }),
		method("Equals", func(c *interp.Call, s string) (any, error) {
			if !sensitiveArg(c, 1) {
				return strings.EqualFold(s, c.Str(0)), nil
			}
			return s == c.Arg(0), nil
		}),
		method("CompareTo", func(c *interp.Call, s string) (any, error) {
			return i32(value.CompareText(s, c.Str(0), true)), nil
		}),
		method("Normalize", func(_ *interp.Call, s string) (any, error) { return s, nil }),
		method("Clone", func(_ *interp.Call, s string) (any, error) { return s, nil }),
	}
	return ms
}

// split is String.Split: the separators are characters, or texts when the
// options say so. Source: https://learn.microsoft.com/dotnet/api/system.string.split, read 2026-11.
func split(c *interp.Call, s string) (any, error) {
	var seps []string
	limit, drop := -1, false
	chars := c.R.Edition() == 0 // .NET Framework has only the overload with characters for one string
	for i, a := range c.Args {
		switch x := a.(type) {
		case interp.EnumValue:
			drop = x.N&1 != 0
		case int32:
			if i > 0 {
				limit = int(x)
			}
		case *value.Array:
			chars = chars && x.Elem != "String"
			for _, e := range x.Items {
				seps = append(seps, value.String(e))
			}
		default:
			t := value.String(x)
			switch {
			case i > 0 && strings.EqualFold(t, "RemoveEmptyEntries"):
				drop = true
			case i > 0 && strings.EqualFold(t, "None"):
			default:
				seps = append(seps, t)
			}
		}
	}
	if chars {
		var each []string
		for _, t := range seps {
			for _, r := range t {
				each = append(each, string(r))
			}
		}
		seps = each
	}
	if len(seps) == 0 {
		seps = []string{" ", "\t", "\n", "\r"}
	}
	var parts []string
	rest := s
	for limit < 0 || len(parts)+1 < limit {
		at, width := -1, 0
		for _, sep := range seps {
			if i := strings.Index(rest, sep); sep != "" && i >= 0 && (at < 0 || i < at) {
				at, width = i, len(sep)
			}
		}
		if at < 0 {
			break
		}
		if !drop || at > 0 {
			parts = append(parts, rest[:at])
		}
		rest = rest[at+width:]
	}
	if !drop || rest != "" {
		parts = append(parts, rest)
	}
	return value.NewStrings(parts), nil
}

// textBuilder is System.Text.StringBuilder.
type textBuilder struct{ s []rune }

func (b *textBuilder) String() string { return string(b.s) }

func builderClass() *interp.Class {
	add := func(c *interp.Call, b *textBuilder, s string) (any, error) {
		if len(b.s)+len(s) > value.MaxItems {
			return nil, value.ErrTooLarge
		}
		b.s = append(b.s, []rune(s)...)
		return c.Self, nil
	}
	return &interp.Class{Name: "System.Text.StringBuilder", New: func(c *interp.Call) (any, error) {
		b := &textBuilder{}
		if s, ok := c.Arg(0).(string); ok {
			b.s = []rune(s)
		}
		return instance(c.R, "System.Text.StringBuilder", b, b.String), nil
	}, Props: []interp.Property{
		rw("Length", func(b *textBuilder) any { return i32(len(b.s)) },
			func(_ *interp.Call, b *textBuilder, v any) error {
				n, err := value.ToInt(v)
				if err != nil || n < 0 || n > value.MaxItems {
					return outOfRange("value")
				}
				for len(b.s) < n {
					b.s = append(b.s, 0)
				}
				b.s = b.s[:n]
				return nil
			}),
		get("Capacity", func(b *textBuilder) any { return i32(max(cap(b.s), 16)) }),
	}, Methods: []interp.Method{
		method("Append", func(c *interp.Call, b *textBuilder) (any, error) {
			if c.N() == 2 {
				s, err := value.Mul(c.Str(0), c.Arg(1))
				if err != nil {
					return nil, err
				}
				return add(c, b, s.(string))
			}
			return add(c, b, c.Str(0))
		}),
		method("AppendLine", func(c *interp.Call, b *textBuilder) (any, error) {
			return add(c, b, c.Str(0)+c.R.Newline())
		}),
		method("AppendFormat", func(c *interp.Call, b *textBuilder) (any, error) {
			s, err := formatArgs(c)
			if err != nil {
				return nil, err
			}
			return add(c, b, s)
		}),
		method("Clear", func(c *interp.Call, b *textBuilder) (any, error) { b.s = nil; return c.Self, nil }),
		method("Insert", func(c *interp.Call, b *textBuilder) (any, error) {
			n, err := c.Int(0)
			if err != nil || n < 0 || n > len(b.s) {
				return nil, outOfRange("index")
			}
			b.s = []rune(string(b.s[:n]) + c.Str(1) + string(b.s[n:]))
			return c.Self, nil
		}),
		method("Replace", func(c *interp.Call, b *textBuilder) (any, error) {
			if c.Str(0) == "" {
				return nil, argError("Empty name is not legal.")
			}
			b.s = []rune(strings.ReplaceAll(string(b.s), c.Str(0), c.Str(1)))
			return c.Self, nil
		}),
		method("Remove", func(c *interp.Call, b *textBuilder) (any, error) {
			n, err := ints(c, 0)
			if err != nil {
				return nil, err
			}
			if len(n) != 2 || n[0] < 0 || n[1] < 0 || n[0]+n[1] > len(b.s) {
				return nil, outOfRange("length")
			}
			b.s = append(b.s[:n[0]:n[0]], b.s[n[0]+n[1]:]...)
			return c.Self, nil
		}),
	}}
}

// sortItems orders a list in place as Array.Sort and ArrayList.Sort do.
func sortItems(items []any) {
	sort.SliceStable(items, func(i, j int) bool {
		n, ok := value.Compare(items[i], items[j], true)
		return ok && n < 0
	})
}
