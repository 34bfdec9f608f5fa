// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// operate applies a binary operator. Source: about_Operators.
func (r *Runner) operate(op string, x, y any, sensitive bool) (any, error) {
	switch op {
	case "+":
		return value.Add(x, y)
	case "-":
		return value.Sub(x, y)
	case "*":
		return value.Mul(x, y)
	case "/":
		return value.Div(x, y)
	case "%":
		return value.Mod(x, y)
	case "..":
		return r.rangeOf(x, y)
	case "-f":
		args, ok := value.Items(y)
		if !ok {
			args = []any{y}
		}
		s, err := value.Format(r.Text(x), args)
		if err != nil {
			return nil, r.fail("System.FormatException", "FormatError", "InvalidOperation", x, "%s", err.Error())
		}
		return s, nil
	case "-xor":
		return value.Bool(x) != value.Bool(y), nil
	case "-band", "-bor", "-bxor", "-shl", "-shr":
		return bitOp(op, x, y)
	case "-is", "-isnot":
		is, err := r.isType(x, y)
		return is == (op == "-is"), err
	case "-as":
		return r.asType(x, y)
	case "-join":
		return r.join(x, r.Text(y)), nil
	case "-split":
		return r.split(x, y, sensitive)
	case "-replace":
		return r.replace(x, y, sensitive)
	case "-contains", "-notcontains":
		return r.contains(x, y, sensitive) == (op == "-contains"), nil
	case "-in", "-notin":
		return r.contains(y, x, sensitive) == (op == "-in"), nil
	}
	return r.compare(op, x, y, sensitive)
}

// compare does the comparisons: with a collection on the left they filter it.
func (r *Runner) compare(op string, x, y any, sensitive bool) (any, error) {
	items, ok := value.Items(x)
	if !ok {
		return r.compareOne(op, x, y, sensitive, true)
	}
	kept := []any{}
	for _, v := range items {
		yes, err := r.compareOne(op, v, y, sensitive, false)
		if err != nil {
			return nil, err
		}
		if yes {
			kept = append(kept, v)
		}
	}
	return value.NewArray(kept...), nil
}

func (r *Runner) compareOne(op string, x, y any, sensitive, single bool) (bool, error) {
	switch op {
	case "-eq":
		return value.Equal(x, y, sensitive), nil
	case "-ne":
		return !value.Equal(x, y, sensitive), nil
	case "-like":
		return value.Like(r.Text(x), r.Text(y), sensitive), nil
	case "-notlike":
		return !value.Like(r.Text(x), r.Text(y), sensitive), nil
	case "-match", "-notmatch":
		if single {
			yes, err := r.match(r.Text(x), r.Text(y), sensitive)
			return yes == (op == "-match"), err
		}
		re, err := r.Regex(r.Text(y), !sensitive)
		if err != nil {
			return false, err
		}
		m, err := re.Find(r.Text(x))
		return (m != nil) == (op == "-match"), err
	}
	c, ok := value.Compare(x, y, sensitive)
	if !ok {
		if _, err := r.convertLike(y, x); err != nil {
			return false, r.fail("System.Management.Automation.RuntimeException", "ComparisonFailure",
				"InvalidOperation", x, "Could not compare \"%s\" to \"%s\". Error: \"%s\"", r.Text(x), r.Text(y),
				err.Error())
		}
		return false, r.fail("System.Management.Automation.RuntimeException", "NotIcomparable", "InvalidOperation", x,
			"Cannot compare \"%s\" because it is not IComparable.", r.Text(x))
	}
	switch op {
	case "-lt":
		return c < 0, nil
	case "-le":
		return c <= 0, nil
	case "-gt":
		return c > 0, nil
	case "-ge":
		return c >= 0, nil
	}
	return false, NotImplemented("the operator " + op)
}

// convertLike converts y to the type of x, for its error.
func (r *Runner) convertLike(y, x any) (any, error) {
	switch {
	case value.IsNumber(x):
		return value.Number(y)
	default:
		if _, ok := x.(value.DateTime); ok {
			return value.ToDate(y)
		}
	}
	return y, nil
}

func (r *Runner) contains(list, x any, sensitive bool) bool {
	items, ok := value.Items(list)
	if !ok {
		items = []any{list}
	}
	for _, v := range items {
		if value.Equal(v, x, sensitive) {
			return true
		}
	}
	return false
}

func (r *Runner) rangeOf(x, y any) (any, error) {
	if a, ok := x.(string); ok && len([]rune(a)) == 1 && r.cfg.Edition != 0 {
		if b, ok := y.(string); ok && len([]rune(b)) == 1 {
			return charRange([]rune(a)[0], []rune(b)[0]), nil
		}
	}
	a, err := value.Int(x, "System.Int32")
	if err != nil {
		return nil, err
	}
	b, err := value.Int(y, "System.Int32")
	if err != nil {
		return nil, err
	}
	from, to := int64(a.(int32)), int64(b.(int32))
	step := int64(1)
	n := to - from + 1
	if to < from {
		step, n = -1, from-to+1
	}
	if n > value.MaxItems/4 {
		return nil, value.ErrTooLarge
	}
	items := make([]any, n)
	for i := range items {
		items[i] = int32(from + int64(i)*step)
	}
	return value.NewArray(items...), nil
}

func charRange(a, b rune) *value.Array {
	var items []any
	for c := a; ; {
		items = append(items, value.Char(c))
		if c == b || len(items) > 0x10ffff {
			return value.NewArray(items...)
		}
		if a < b {
			c++
		} else {
			c--
		}
	}
}

func (r *Runner) join(v any, sep string) string {
	items, ok := value.Items(v)
	if !ok {
		return r.Text(v)
	}
	parts := make([]string, len(items))
	for i, x := range items {
		parts[i] = r.Text(x)
	}
	return strings.Join(parts, sep)
}

func (r *Runner) splitWords(v any) any {
	items, ok := value.Items(v)
	if !ok {
		items = []any{v}
	}
	var words []string
	for _, x := range items {
		words = append(words, strings.Fields(r.Text(x))...)
	}
	return value.NewStrings(words)
}

// split is x -split pattern[, max[, options]], or a script block that says
// where to split. Source: about_Split.
func (r *Runner) split(x, y any, sensitive bool) (any, error) {
	args, ok := value.Items(y)
	if !ok {
		args = []any{y}
	}
	limit := 0
	simple := false
	if len(args) > 1 {
		n, err := value.ToInt(args[1])
		if err != nil {
			return nil, err
		}
		limit = n
	}
	if len(args) > 2 {
		opts := strings.ToLower(value.String(args[2]))
		simple = strings.Contains(opts, "simplematch")
		sensitive = sensitive && !strings.Contains(opts, "ignorecase")
	}
	if len(args) == 0 || limit < 0 {
		return nil, NotImplemented("-split with a negative limit")
	}
	items, ok := value.Items(x)
	if !ok {
		items = []any{x}
	}
	var out []any
	for _, v := range items {
		text := r.Text(v)
		if b, ok := args[0].(*ScriptBlock); ok {
			parts, err := r.splitBlock(text, b, limit)
			if err != nil {
				return nil, err
			}
			out = append(out, parts...)
			continue
		}
		pattern := r.Text(args[0])
		if simple {
			pattern = QuoteRegex(pattern)
		}
		re, err := r.Regex(pattern, !sensitive)
		if err != nil {
			return nil, err
		}
		cut, err := re.Split(text, limit)
		if err != nil {
			return nil, err
		}
		for _, p := range cut {
			out = append(out, p)
		}
	}
	strs := make([]any, len(out))
	copy(strs, out)
	return &value.Array{Items: strs, Elem: "String"}, nil
}

func (r *Runner) splitBlock(text string, b *ScriptBlock, limit int) ([]any, error) {
	var out []any
	var cur strings.Builder
	for _, c := range text {
		v, err := r.CallBlock(b, value.Char(c), nil)
		if err != nil {
			return nil, err
		}
		if value.Bool(v) && (limit == 0 || len(out)+1 < limit) {
			out = append(out, cur.String())
			cur.Reset()
			continue
		}
		cur.WriteRune(c)
	}
	return append(out, cur.String()), nil
}

// replace is x -replace pattern, substitute. Source: about_Comparison_Operators.
func (r *Runner) replace(x, y any, sensitive bool) (any, error) {
	args, ok := value.Items(y)
	if !ok {
		args = []any{y}
	}
	if len(args) == 0 || len(args) > 2 {
		op := "-ireplace"
		if sensitive {
			op = "-creplace"
		}
		return nil, r.fail("System.Management.Automation.RuntimeException", "BadReplaceArgument", "InvalidOperation", y,
			"The %s operator allows only two elements to follow it, not %d.", op, len(args))
	}
	var sub any = ""
	if len(args) == 2 {
		sub = args[1]
	}
	re, err := r.Regex(r.Text(args[0]), !sensitive)
	if err != nil {
		return nil, err
	}
	one := func(v any) (any, error) {
		text := r.Text(v)
		if b, ok := sub.(*ScriptBlock); ok && r.cfg.Edition != 0 {
			return re.ReplaceFunc(text, -1, func(m *Match) (string, error) {
				v, err := r.CallBlock(b, m, nil)
				return r.Text(v), err
			})
		}
		return re.Replace(text, r.Text(sub), -1)
	}
	items, ok := value.Items(x)
	if !ok {
		return one(x)
	}
	out := make([]any, len(items))
	for i, v := range items {
		if out[i], err = one(v); err != nil {
			return nil, err
		}
	}
	return value.NewArray(out...), nil
}

// match is -match on one value: it sets $Matches.
func (r *Runner) match(text, pattern string, sensitive bool) (bool, error) {
	re, err := r.Regex(pattern, !sensitive)
	if err != nil {
		return false, err
	}
	m, err := re.Find(text)
	if m == nil {
		return false, err
	}
	h := &value.Hash{}
	for _, g := range slices.Backward(m.Groups) {
		switch {
		case !g.Success:
		case g.Name == strconv.Itoa(g.Number):
			h.Set(int32(g.Number), g.Value)
		default:
			h.Set(g.Name, g.Value)
		}
	}
	r.scope.set("Matches", "matches", h)
	return true, nil
}

func bitOperand(v any) (int64, bool, error) {
	if s, ok := v.(interface{ IntValue() int64 }); ok {
		return s.IntValue(), false, nil
	}
	x, err := value.Int(v, "System.Int64")
	if err != nil {
		return 0, false, err
	}
	_, long := v.(int64)
	n := x.(int64)
	return n, long || n != int64(int32(n)), nil
}

func bitNot(v any) (any, error) {
	n, long, err := bitOperand(v)
	if err != nil {
		return nil, err
	}
	if long {
		return ^n, nil
	}
	return int32(^n), nil
}

func bitOp(op string, x, y any) (any, error) {
	a, la, err := bitOperand(x)
	if err != nil {
		return nil, err
	}
	b, lb, err := bitOperand(y)
	if err != nil {
		return nil, err
	}
	var n int64
	switch op {
	case "-band":
		n = a & b
	case "-bor":
		n = a | b
	case "-bxor":
		n = a ^ b
	case "-shl":
		if !la {
			return int32(a) << (uint(b) & 31), nil
		}
		return a << (uint(b) & 63), nil
	case "-shr":
		if !la {
			return int32(a) >> (uint(b) & 31), nil
		}
		return a >> (uint(b) & 63), nil
	}
	if e, ok := x.(EnumValue); ok {
		if f, ok := y.(EnumValue); ok && f.Class == e.Class {
			return EnumValue{Class: e.Class, N: n}, nil
		}
	}
	if la || lb {
		return n, nil
	}
	return int32(n), nil
}
