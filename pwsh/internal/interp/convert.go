// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// typeByName resolves a type's name: an accelerator, a full name, a name
// without System., or one of a namespace in use.
func (r *Runner) typeByName(name string) (string, bool) {
	if full, ok := value.Accelerated(name); ok {
		return full, true
	}
	for _, full := range append([]string{name, "System." + name}, r.using...) {
		if strings.HasSuffix(full, ".") {
			full += name
		}
		if c := r.Class(full); c != nil {
			return c.Name, true
		}
		if b, ok := exceptionBases[full]; ok && b != "" {
			return full, true
		}
	}
	if strings.HasSuffix(strings.ToLower(name), "exception") { // any exception can be named
		if !strings.Contains(name, ".") {
			name = "System." + name
		}
		return name, true
	}
	return "", false
}

// resolveType returns the type value of a type literal.
func (r *Runner) resolveType(t *syntax.TypeName) (*value.Type, error) {
	name := t.Name
	if len(t.Args) > 0 {
		args := make([]string, len(t.Args))
		for i, a := range t.Args {
			at, err := r.resolveType(a)
			if err != nil {
				return nil, err
			}
			args[i] = at.Name
		}
		base := strings.TrimSuffix(
			strings.TrimSuffix(strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(name, "System."),
				"Collections.Generic.")), "`1"), "`2")
		generic := map[string]string{"list": "List", "dictionary": "Dictionary", "queue": "Queue", "stack": "Stack",
			"hashset": "HashSet", "keyvaluepair": "KeyValuePair", "ienumerable": "IEnumerable",
			"sorteddictionary": "SortedDictionary"}
		g, ok := generic[strings.TrimPrefix(base, "system.collections.generic.")]
		if !ok {
			return nil, r.typeNotFound(t.String())
		}
		return &value.Type{Name: "System.Collections.Generic." + g + "`" + value.String(int32(len(args))) + "[" +
			strings.Join(args, ",") + "]"}, nil
	}
	full, ok := r.typeByName(name)
	if !ok {
		return nil, r.typeNotFound(name)
	}
	if t.Rank > 0 {
		full += strings.Repeat("[]", t.Rank)
	}
	return &value.Type{Name: full}, nil
}

func (r *Runner) typeNotFound(name string) error {
	return r.fail("System.Management.Automation.RuntimeException", "TypeNotFound", "InvalidOperation", name,
		"Unable to find type [%s]. Types that mullion's PowerShell knows are listed in %s.", name, FidelityPage)
}

// cast is [type] x.
func (r *Runner) cast(x *syntax.Cast) (any, error) {
	lower := strings.ToLower(x.Type.Name)
	if h, ok := x.X.(*syntax.Hash); ok && (lower == "ordered" || lower == "pscustomobject") {
		v, err := r.hash(h, true)
		if err != nil || lower == "ordered" {
			return v, err
		}
		return customObject(v.(*value.Hash)), nil
	}
	v, err := r.operand(x.X)
	if err != nil {
		return nil, err
	}
	return r.convert(v, x.Type)
}

func customObject(h *value.Hash) *value.Object {
	o := &value.Object{}
	for _, k := range h.Keys() {
		v, _ := h.Get(k)
		o.Set(value.String(k), v)
	}
	return o
}

// convert converts to the type of a literal.
func (r *Runner) convert(v any, t *syntax.TypeName) (any, error) {
	switch lower := strings.ToLower(t.Name); {
	case t.Rank == 0 && lower == "ref":
		return nil, NotImplemented("the type [ref]")
	case t.Rank == 0 && lower == "pscustomobject" || t.Rank == 0 && lower == "psobject":
		if h, ok := v.(*value.Hash); ok {
			return customObject(h), nil
		}
		return v, nil
	}
	typ, err := r.resolveType(t)
	if err != nil {
		return nil, err
	}
	return r.ConvertTo(v, typ.Name)
}

// ConvertTo converts to a type by its full name. Source: chapter 6 of the
// language specification.
func (r *Runner) ConvertTo(v any, full string) (any, error) {
	if before, ok := strings.CutSuffix(full, "[]"); ok {
		return r.toArray(v, before)
	}
	switch full {
	case "System.Object", "System.Management.Automation.PSObject":
		return v, nil
	case "System.Void":
		return Void, nil
	case "System.String":
		return r.Text(v), nil
	case "System.Boolean":
		return value.Bool(v), nil
	case "System.Int32", "System.Int64", "System.Byte", "System.SByte", "System.Int16", "System.UInt16",
		"System.UInt32", "System.UInt64":
		if items, ok := value.Items(v); ok && len(items) == 1 {
			v = items[0]
		}
		return value.Int(v, full)
	case "System.Double":
		return value.Float(v)
	case "System.Single":
		f, err := value.Float(v)
		return float32(f), err
	case "System.Decimal":
		return nil, NotImplemented("the type [decimal]")
	case "System.Char":
		return value.ToChar(v)
	case "System.DateTime":
		return value.ToDate(v)
	case "System.TimeSpan":
		return value.ToSpan(v)
	case "System.Array":
		return r.toArray(v, "System.Object")
	case "System.Collections.Hashtable", "System.Collections.IDictionary":
		if h, ok := v.(*value.Hash); ok {
			return h, nil
		}
		if v == nil {
			return nil, nil
		}
	case "System.Collections.Specialized.OrderedDictionary":
		if h, ok := v.(*value.Hash); ok && h.Ordered {
			return h, nil
		}
	case "System.Text.RegularExpressions.Regex":
		if x, ok := v.(*Regex); ok {
			return x, nil
		}
		return NewRegex(r.Text(v), "")
	case "System.Management.Automation.ScriptBlock":
		if b, ok := v.(*ScriptBlock); ok || v == nil {
			return b, nil
		}
		return r.ParseBlock(r.Text(v))
	case "System.Management.Automation.SwitchParameter":
		return Switch(value.Bool(v)), nil
	case "System.Guid":
		return toGuid(v)
	case "System.Version":
		if x, ok := v.(value.Version); ok {
			return x, nil
		}
		if x, ok := value.ParseVersion(r.Text(v)); ok {
			return x, nil
		}
		return nil, &value.ConvertError{From: v, To: full}
	case "System.Type":
		if t, ok := v.(*value.Type); ok {
			return t, nil
		}
		name, ok := r.typeByName(r.Text(v))
		if !ok {
			return nil, r.typeNotFound(r.Text(v))
		}
		return &value.Type{Name: name}, nil
	}
	return r.toClass(v, full)
}

func (r *Runner) toClass(v any, full string) (any, error) {
	for _, a := range r.ancestors(value.TypeName(value.Unwrap(v))) {
		if strings.EqualFold(a, full) {
			return v, nil
		}
	}
	if list, ok := strings.CutPrefix(full, "System.Collections.Generic.List`1"); ok ||
		full == "System.Collections.ArrayList" {
		_ = list
		items, isList := value.Items(v)
		if !isList {
			items = []any{v}
		}
		return &value.List{Items: append([]any{}, items...), Type: full}, nil
	}
	c := r.Class(full)
	switch {
	case v == nil:
		return nil, nil
	case c != nil && c.Enum != nil:
		return EnumOf(c, v)
	case c != nil && c.Cast != nil:
		return c.Cast(r, v)
	case c != nil && c.New != nil:
		if _, isHash := v.(*value.Hash); !isHash {
			if x, err := c.New(&Call{R: r, Args: []any{v}, Name: c.Name}); err == nil {
				return x, nil
			}
		}
	case strings.HasSuffix(full, "Exception"):
		return &Exception{Type: full, Message: r.Text(v)}, nil
	}
	return nil, &value.ConvertError{From: v, To: full}
}

func toGuid(v any) (any, error) {
	s := strings.ToLower(strings.Trim(value.String(v), "{}()"))
	hex := strings.ReplaceAll(s, "-", "")
	if len(hex) != 32 || strings.Trim(hex, "0123456789abcdef") != "" {
		return nil, &value.ConvertError{From: v, To: "System.Guid",
			Why: "Guid should contain 32 digits with 4 dashes (xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx)."}
	}
	return value.Guid(hex[:8] + "-" + hex[8:12] + "-" + hex[12:16] + "-" + hex[16:20] + "-" + hex[20:]), nil
}

func (r *Runner) toArray(v any, elem string) (any, error) {
	if v == nil {
		return nil, nil
	}
	if a, ok := v.(*value.Array); ok && strings.EqualFold("System."+a.Elem, elem) {
		return a, nil
	}
	items, ok := value.Items(v)
	if !ok {
		if s, isText := v.(string); isText && elem == "System.Char" {
			items = nil
			for _, c := range s {
				items = append(items, value.Char(c))
			}
		} else {
			items = []any{v}
		}
	}
	out := &value.Array{Items: make([]any, len(items)), Elem: strings.TrimPrefix(elem, "System.")}
	for i, x := range items {
		c, err := r.ConvertTo(x, elem)
		if err != nil {
			return nil, err
		}
		out.Items[i] = c
	}
	return out, nil
}

func (r *Runner) typeOf(t any) (string, error) {
	if x, ok := t.(*value.Type); ok {
		return x.Name, nil
	}
	name := strings.TrimSuffix(strings.TrimPrefix(r.Text(t), "["), "]") // as in Where-Object a -is [int]
	if full, ok := r.typeByName(name); ok {
		return full, nil
	}
	return "", r.typeNotFound(name)
}

func (r *Runner) isType(x, t any) (bool, error) {
	full, err := r.typeOf(t)
	if err != nil {
		return false, err
	}
	if x == nil {
		return false, nil
	}
	if _, custom := x.(*value.Object); custom && (full == "System.Management.Automation.PSObject" ||
		full == value.CustomType) {
		return true, nil
	}
	return r.isA(x, full), nil
}

// isA reports whether a value is of a type or of one derived from it.
func (r *Runner) isA(x any, full string) bool {
	if full == "System.ValueType" {
		switch x.(type) {
		case bool, int32, int64, float64, value.Char, value.DateTime, value.TimeSpan, EnumValue:
			return true
		}
		return value.IsNumber(x)
	}
	if full == "System.Collections.IEnumerable" || full == "System.Collections.IList" {
		_, ok := value.Items(x)
		return ok
	}
	if _, hash := x.(*value.Hash); hash && full == "System.Collections.IDictionary" {
		return true
	}
	if e, ok := x.(EnumValue); ok && full == "System.Enum" {
		return e.Class != nil
	}
	if o, ok := x.(*value.Object); ok {
		for _, t := range o.Types {
			if strings.EqualFold(t, full) {
				return true
			}
		}
	}
	for _, a := range r.ancestors(value.TypeName(value.Unwrap(x))) {
		if strings.EqualFold(a, full) {
			return true
		}
	}
	return strings.EqualFold(full, "System.Object[]") && value.TypeName(x) == "System.Object[]"
}

func (r *Runner) asType(x, t any) (any, error) {
	full, err := r.typeOf(t)
	if err != nil {
		return nil, err
	}
	if v, err := r.ConvertTo(x, full); err == nil {
		return v, nil
	}
	return nil, nil
}

// NewObject creates an object of a type.
func (r *Runner) NewObject(full string, args []any) (any, error) {
	if strings.HasSuffix(full, "[]") {
		n, err := value.ToInt(first(args))
		if err != nil || n < 0 || n > value.MaxItems/8 {
			return nil, value.ErrTooLarge
		}
		elem := strings.TrimSuffix(full, "[]")
		a := &value.Array{Items: make([]any, n), Elem: strings.TrimPrefix(elem, "System.")}
		if intType(elem) || elem == "System.Boolean" || elem == "System.Double" {
			zero, err := r.ConvertTo(int32(0), elem)
			if err != nil {
				return nil, err
			}
			for i := range a.Items {
				a.Items[i] = zero
			}
		}
		return a, nil
	}
	if strings.HasPrefix(full, "System.Collections.Generic.") {
		return r.newGeneric(full, args)
	}
	c := r.Class(full)
	if c == nil || c.New == nil {
		if strings.HasSuffix(full, "Exception") {
			ex := &Exception{Type: full, Message: "Exception of type '" + full + "' was thrown."}
			if len(args) > 0 {
				ex.Message = r.Text(args[0])
			}
			if len(args) > 1 {
				ex.Inner, _ = args[1].(*Exception)
			}
			return ex, nil
		}
		return nil, NotImplemented("a new object of the type [" + full + "]")
	}
	v, err := c.New(&Call{R: r, Args: args, Name: ".ctor"})
	if err != nil && !isFlow(err) {
		ex := r.exception(err)
		if ex.Type == "System.Management.Automation.MethodException" || ex.cause == errNotImplemented {
			return nil, err
		}
		return nil, &Exception{
			Type: "System.Management.Automation.MethodInvocationException",
			Message: "Exception calling \".ctor\" with \"" + value.String(int32(len(args))) + "\" argument(s): \"" +
				ex.Message + "\"",
			ID:       "ConstructorInvokedThrowException",
			Category: "InvalidOperation",
			Inner:    ex,
			cause:    err,
		}
	}
	return v, err
}

func intType(full string) bool {
	_, err := value.Int(int32(0), full)
	return err == nil && strings.Contains(full, "Int") || full == "System.Byte" || full == "System.SByte"
}

func first(args []any) any {
	if len(args) > 0 {
		return args[0]
	}
	return nil
}

func (r *Runner) newGeneric(full string, args []any) (any, error) {
	if strings.Contains(full, "Dictionary`2") {
		// Keys of text are compared with case, as .NET's Dictionary does.
		h := &value.Hash{CaseSensitive: true}
		if src, ok := first(args).(*value.Hash); ok {
			for _, k := range src.Keys() {
				v, _ := src.Get(k)
				h.Set(k, v)
			}
		}
		return h, nil
	}
	l := &value.List{Type: full}
	if items, ok := value.Items(first(args)); ok {
		l.Items = append(l.Items, items...)
	}
	return l, nil
}
