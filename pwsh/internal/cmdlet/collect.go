// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"math"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

func gather(c *interp.Invocation) error {
	if c.State == nil {
		c.State = &value.List{}
	}
	if c.HasItem || c.Has("InputObject") {
		l := c.State.(*value.List)
		if items, ok := value.Items(c.Any("InputObject")); ok && !c.HasItem {
			l.Items = append(l.Items, items...)
		} else {
			l.Items = append(l.Items, c.Any("InputObject"))
		}
	}
	return nil
}

func gathered(c *interp.Invocation) []any {
	if l, ok := c.State.(*value.List); ok {
		return l.Items
	}
	return nil
}

func sortObject() *interp.Cmdlet {
	return &interp.Cmdlet{
		Name:    "Sort-Object",
		Aliases: []string{"sort"},
		Params: "Property:any[]@0 InputObject:any< Descending? Unique? CaseSensitive? Culture~ Top:int Bottom:int " +
			"Stable?=",
		Process: gather,
		End: func(c *interp.Invocation) error {
			items := gathered(c)
			props, err := properties(c, c.Items("Property"))
			if err != nil {
				return err
			}
			keys := make([][]any, len(items))
			for i, v := range items {
				keys[i] = []any{v}
				if len(props) > 0 {
					keys[i] = nil
					for _, p := range props {
						k, err := p.get(c, v)
						if err != nil {
							return err
						}
						keys[i] = append(keys[i], k)
					}
				}
			}
			order := make([]int, len(items))
			for i := range order {
				order[i] = i
			}
			cmp := func(a, b int) int {
				for k := range keys[a] {
					n, ok := value.Compare(keys[a][k], keys[b][k], c.Switch("CaseSensitive"))
					if !ok {
						n = value.CompareText(c.R.Text(keys[a][k]), c.R.Text(keys[b][k]), c.Switch("CaseSensitive"))
					}
					desc := c.Switch("Descending")
					if k < len(props) && props[k].desc != nil {
						desc = *props[k].desc
					}
					if desc {
						n = -n
					}
					if n != 0 {
						return n
					}
				}
				return 0
			}
			sort.SliceStable(order, func(i, j int) bool { return cmp(order[i], order[j]) < 0 })
			var out []any
			for i, n := range order {
				if c.Switch("Unique") && i > 0 && cmp(order[i-1], n) == 0 {
					continue
				}
				out = append(out, items[n])
			}
			if n := c.Int("Top", -1); n >= 0 {
				out = out[:min(n, len(out))]
			}
			if n := c.Int("Bottom", -1); n >= 0 {
				out = out[max(len(out)-n, 0):]
			}
			return c.WriteAll(value.NewArray(out...))
		},
	}
}

func groupObject() *interp.Cmdlet {
	return &interp.Cmdlet{
		Name:    "Group-Object",
		Aliases: []string{"group"},
		Params:  "Property:any[]@0 InputObject:any< NoElement? AsHashTable|AHT? AsString? CaseSensitive? Culture~",
		Process: gather,
		End: func(c *interp.Invocation) error {
			props, err := properties(c, c.Items("Property"))
			if err != nil {
				return err
			}
			type group struct {
				name  string
				keys  []any
				items []any
			}
			var groups []*group
			byName := map[string]*group{}
			for _, v := range gathered(c) {
				keys := []any{v}
				if len(props) > 0 {
					keys = nil
					for _, p := range props {
						k, err := p.get(c, v)
						if err != nil {
							return err
						}
						keys = append(keys, k)
					}
				}
				parts := make([]string, len(keys))
				for i, k := range keys {
					parts[i] = c.R.Text(k)
				}
				name := strings.Join(parts, ", ")
				id := name
				if !c.Switch("CaseSensitive") {
					id = lower(name)
				}
				g := byName[id]
				if g == nil {
					g = &group{name: name, keys: keys}
					byName[id] = g
					groups = append(groups, g)
				}
				g.items = append(g.items, v)
			}
			if c.Switch("AsHashTable") {
				h := &value.Hash{}
				for _, g := range groups {
					key := value.Collapse(g.keys)
					if c.Switch("AsString") {
						key = g.name
					}
					h.Set(key, value.NewArray(g.items...))
				}
				return c.Write(h)
			}
			if c.R.Edition() != 0 || len(props) > 0 {
				sort.SliceStable(groups, func(i, j int) bool {
					n, ok := value.Compare(value.Collapse(groups[i].keys), value.Collapse(groups[j].keys), false)
					return ok && n < 0 && c.R.Edition() != 0
				})
			}
			for _, g := range groups {
				o := value.NewObject("Microsoft.PowerShell.Commands.GroupInfo", "Values",
					&value.List{Items: g.keys, Type: "System.Collections.ArrayList"}, "Count", i32(len(g.items)),
					"Group", value.NewArray(g.items...), "Name", g.name)
				cols := []string{"Count", "Name", "Group"}
				if c.Switch("NoElement") {
					o.Set("Group", nil)
					cols = cols[:2]
				}
				if err := c.Write(show(o, cols...)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func measureObject() *interp.Cmdlet {
	return &interp.Cmdlet{
		Name:    "Measure-Object",
		Aliases: []string{"measure"},
		Params: "Property:any[]@0 InputObject:any< Sum? Average? Maximum? Minimum? StandardDeviation? AllStats? " +
			"Line? Word? Character? IgnoreWhiteSpace?",
		Process: gather,
		End: func(c *interp.Invocation) error {
			items := gathered(c)
			if c.Switch("Line") || c.Switch("Word") || c.Switch("Character") {
				return c.Write(measureText(c, items))
			}
			props, err := properties(c, c.Items("Property"))
			if err != nil {
				return err
			}
			if len(props) == 0 {
				o, err := measure(c, items, "")
				if err != nil {
					return err
				}
				return c.Write(o)
			}
			for _, p := range props {
				var vals []any
				for _, v := range items {
					x, err := p.get(c, v)
					if err != nil {
						return err
					}
					if x != nil {
						vals = append(vals, x)
					}
				}
				o, err := measure(c, vals, p.name)
				if err != nil {
					return err
				}
				if err := c.Write(o); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func measure(c *interp.Invocation, vals []any, name string) (*value.Object, error) {
	all := c.Switch("AllStats")
	o := value.NewObject("Microsoft.PowerShell.Commands.GenericMeasureInfo", "Count", i32(len(vals)), "Average", nil,
		"Sum", nil, "Maximum", nil, "Minimum", nil)
	if c.R.Edition() != 0 {
		o.Set("StandardDeviation", nil)
	}
	o.Set("Property", nil)
	if name != "" {
		o.Set("Property", name)
	}
	o.Show, o.List = nil, true
	sum := 0.0
	var nums []float64
	var lo, hi any
	for _, v := range vals {
		if c.Switch("Sum") || c.Switch("Average") || c.Switch("StandardDeviation") || all {
			f, err := value.Float(v)
			if err != nil {
				return nil, interp.Failf("System.Management.Automation.PSInvalidCastException", "NonNumericInputObject",
					"InvalidType", v, "Input object \"%s\" is not numeric.", c.R.Text(v))
			}
			sum += f
			nums = append(nums, f)
		}
		if n, ok := value.Compare(v, lo, false); lo == nil || ok && n < 0 {
			lo = v
		}
		if n, ok := value.Compare(v, hi, false); hi == nil || ok && n > 0 {
			hi = v
		}
	}
	number := func(v any) any {
		if f, err := value.Float(v); err == nil && value.IsNumber(v) {
			return f
		}
		return v
	}
	if (c.Switch("Sum") || all) && len(vals) > 0 {
		o.Set("Sum", sum)
	}
	if (c.Switch("Average") || all) && len(vals) > 0 {
		o.Set("Average", sum/float64(len(vals)))
	}
	if c.Switch("Maximum") || all {
		o.Set("Maximum", number(hi))
	}
	if c.Switch("Minimum") || all {
		o.Set("Minimum", number(lo))
	}
	if (c.Switch("StandardDeviation") || all) && len(nums) > 1 {
		mean, sq := sum/float64(len(nums)), 0.0
		for _, f := range nums {
			sq += (f - mean) * (f - mean)
		}
		o.Set("StandardDeviation", math.Sqrt(sq/float64(len(nums)-1)))
	}
	return o, nil
}

func measureText(c *interp.Invocation, items []any) *value.Object {
	lines, words, chars := 0, 0, 0
	for _, v := range items {
		s := c.R.Text(v)
		lines += len(interp.SplitLines(s))
		words += len(strings.Fields(s))
		if c.Switch("IgnoreWhiteSpace") {
			s = strings.Join(strings.Fields(s), "")
		}
		chars += utf8.RuneCountInString(s)
	}
	o := value.NewObject("Microsoft.PowerShell.Commands.TextMeasureInfo", "Lines", nil, "Words", nil, "Characters", nil,
		"Property", nil)
	if c.Switch("Line") {
		o.Set("Lines", i32(lines))
	}
	if c.Switch("Word") {
		o.Set("Words", i32(words))
	}
	if c.Switch("Character") {
		o.Set("Characters", i32(chars))
	}
	return o
}

// Length: one walk over one kind of thing; its parts share its state.
func compareObject() *interp.Cmdlet {
	return &interp.Cmdlet{
		Name:    "Compare-Object",
		Aliases: []string{"compare", "diff"},
		Params: "ReferenceObject:any[]@0! DifferenceObject:any[]@1!< Property:any[] SyncWindow:int= IncludeEqual? " +
			"ExcludeDifferent? PassThru? CaseSensitive? Culture~",
		Process: func(c *interp.Invocation) error {
			if c.State == nil {
				c.State = &value.List{}
			}
			l := c.State.(*value.List)
			l.Items = append(l.Items, c.Items("DifferenceObject")...)
			return nil
		},
		End: func(c *interp.Invocation) error {
			props, err := properties(c, c.Items("Property"))
			if err != nil {
				return err
			}
			key := func(v any) (string, *value.Object, error) {
				o := &value.Object{}
				if len(props) == 0 {
					return c.R.Text(v), o, nil
				}
				var parts []string
				for _, p := range props {
					x, err := p.get(c, v)
					if err != nil {
						return "", nil, err
					}
					o.Set(p.name, x)
					parts = append(parts, c.R.Text(x))
				}
				return strings.Join(parts, "\x00"), o, nil
			}
			same := func(a, b string) bool { return a == b || !c.Switch("CaseSensitive") && strings.EqualFold(a, b) }
			emit := func(v any, side string) error {
				if c.Switch("PassThru") {
					return c.Write(v)
				}
				_, o, err := key(v)
				if err != nil {
					return err
				}
				if len(props) == 0 {
					o.Set("InputObject", v)
				}
				o.Set("SideIndicator", side)
				return c.Write(o)
			}
			left, right := c.Items("ReferenceObject"), gathered(c)
			used := make([]bool, len(right))
			var only []any
			for _, a := range left {
				ka, _, err := key(a)
				if err != nil {
					return err
				}
				found := false
				for j, b := range right {
					kb, _, err := key(b)
					if err != nil {
						return err
					}
					if !used[j] && same(ka, kb) {
						used[j], found = true, true
						break
					}
				}
				if found {
					if c.Switch("IncludeEqual") {
						if err := emit(a, "=="); err != nil {
							return err
						}
					}
					continue
				}
				only = append(only, a)
			}
			if c.Switch("ExcludeDifferent") {
				return nil
			}
			for j, b := range right {
				if !used[j] {
					if err := emit(b, "=>"); err != nil {
						return err
					}
				}
			}
			for _, a := range only {
				if err := emit(a, "<="); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
