// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"errors"
	"math"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/mullion-k8s/mullion/internal/pwsh/interp"
	"github.com/mullion-k8s/mullion/internal/pwsh/value"
)

// objectCmdlets are the cmdlets of the noun Object.
func objectCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		forEachObject(), whereObject(), selectObject(), sortObject(), groupObject(), measureObject(), compareObject(), newObject(),
		{Name: "Get-Unique", Aliases: []string{"gu"}, Params: "InputObject:any< AsString? OnType?", Process: func(c *interp.Invocation) error {
			v := c.Any("InputObject")
			if last, ok := c.State.(*value.List); ok && value.Equal(last.Items[0], v, true) {
				return nil
			}
			c.State = &value.List{Items: []any{v}}
			return c.Write(v)
		}},
	}
}

func forEachObject() *interp.Cmdlet {
	run := func(c *interp.Invocation, b *interp.ScriptBlock, item any) error {
		return c.R.RunBlock(b, item, nil, c.Out)
	}
	return &interp.Cmdlet{Name: "ForEach-Object", Aliases: []string{"%", "foreach"}, Params: "Process:any@0 Begin:block End:block RemainingScripts:any@1* MemberName ArgumentList:any[] InputObject:any< Parallel:block ThrottleLimit:int",
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
				return badArgument("Process", "Cannot process command because of one or more missing mandatory parameters: Process.")
			}
			if s.begin != nil {
				return run(c, s.begin, nil)
			}
			return nil
		}, Process: func(c *interp.Invocation) error {
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
		}, End: func(c *interp.Invocation) error {
			if s := c.State.(*forEachState); s.end != nil {
				return run(c, s.end, nil)
			}
			return nil
		}}
}

type forEachState struct {
	begin, end *interp.ScriptBlock
	process    []*interp.ScriptBlock
}

// whereOps are the operators that Where-Object has as parameters.
var whereOps = []string{"EQ", "NE", "GT", "GE", "LT", "LE", "Like", "NotLike", "Match", "NotMatch", "Contains", "NotContains", "In", "NotIn", "Is", "IsNot",
	"CEQ", "CNE", "CLike", "CMatch", "CGT", "CLT", "CGE", "CLE", "CNotLike", "CNotMatch"}

func whereObject() *interp.Cmdlet {
	spec := "FilterScript:any@0 Value:any@1 Property InputObject:any< Not?"
	for _, op := range whereOps {
		spec += " " + op + "?"
	}
	return &interp.Cmdlet{Name: "Where-Object", Aliases: []string{"?", "where"}, Params: spec, Process: func(c *interp.Invocation) error {
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
	}}
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

// property is one argument of -Property: a name, a script block, or a
// hashtable of both. Source: about_Calculated_Properties.
type property struct {
	name   string
	block  *interp.ScriptBlock
	source string
	desc   *bool
	format string
	width  int
	align  int
}

func (p *property) get(c *interp.Invocation, item any) (any, error) {
	if p.block != nil {
		return c.Call(p.block, item)
	}
	return c.R.Property(item, p.source)
}

// properties reads -Property; wildcards are left to the caller.
func properties(c *interp.Invocation, args []any) ([]property, error) {
	var out []property
	for _, a := range args {
		switch x := value.Unwrap(a).(type) {
		case *interp.ScriptBlock:
			out = append(out, property{name: strings.TrimSpace(x.Text()), block: x})
		case *value.Hash:
			p, err := calculated(c, x)
			if err != nil {
				return nil, err
			}
			out = append(out, p)
		default:
			s := c.R.Text(a)
			out = append(out, property{name: s, source: s})
		}
	}
	return out, nil
}

func calculated(c *interp.Invocation, h *value.Hash) (property, error) {
	var p property
	for _, k := range h.Keys() {
		v, _ := h.Get(k)
		key := lower(value.String(k))
		is := func(full string) bool { return key != "" && strings.HasPrefix(full, key) }
		switch {
		case is("name"), is("label"):
			p.name = c.R.Text(v)
		case is("expression"):
			if b, ok := v.(*interp.ScriptBlock); ok {
				p.block = b
			} else {
				p.source = c.R.Text(v)
			}
		case key == "descending", key == "desc":
			on := value.Bool(v)
			p.desc = &on
		case key == "ascending", key == "asc":
			on := !value.Bool(v)
			p.desc = &on
		case is("formatstring"):
			p.format = c.R.Text(v)
		case is("width"):
			p.width, _ = value.ToInt(v)
		case is("alignment"):
			p.align = map[string]int{"right": 1, "left": -1, "center": -1}[lower(c.R.Text(v))]
		default:
			return p, interp.Failf("System.NotSupportedException", "DictionaryKeyIllegal", "InvalidArgument", k, "The %s key is not valid.", value.String(k))
		}
	}
	if p.name == "" {
		p.name = p.source
		if p.block != nil {
			p.name = strings.TrimSpace(p.block.Text())
		}
	}
	return p, nil
}

// names lists the properties of an object.
func names(c *interp.Invocation, v any) []string {
	switch x := v.(type) {
	case *value.Object:
		var out []string
		for _, p := range x.Props {
			if _, ok := p.Value.(*interp.ScriptMethod); !ok {
				out = append(out, p.Name)
			}
		}
		if x.Base != nil {
			out = append(out, names(c, x.Base)...)
		}
		return out
	case *value.Hash:
		var out []string
		for _, k := range x.Keys() {
			out = append(out, value.String(k))
		}
		return out
	}
	props, _ := c.R.Members(v)
	var out []string
	for _, p := range props {
		out = append(out, p.Name)
	}
	return out
}

type selectState struct {
	props   []property
	count   int
	last    []any
	seen    []any
	skip    int
	exclude []string
}

func selectObject() *interp.Cmdlet {
	return &interp.Cmdlet{Name: "Select-Object", Aliases: []string{"select"}, Params: "Property:any[]@0 InputObject:any< First:int Last:int Skip:int SkipLast:int Unique? ExpandProperty ExcludeProperty[] Index:any[] Wait?",
		Begin: func(c *interp.Invocation) error {
			props, err := properties(c, c.Items("Property"))
			c.State = &selectState{props: props, skip: c.Int("Skip", 0), exclude: c.Strs("ExcludeProperty")}
			if err == nil && c.Has("First") && c.Int("First", 0) == 0 && c.Piped() && !c.Has("Last") {
				return nil
			}
			return err
		}, Process: func(c *interp.Invocation) error {
			s := c.State.(*selectState)
			if !c.HasItem && !c.Has("InputObject") {
				return nil
			}
			item := c.Any("InputObject")
			if c.Has("Last") || c.Has("SkipLast") {
				s.last = append(s.last, item)
				return nil
			}
			n := s.count
			s.count++
			if n < s.skip {
				return nil
			}
			if idx := c.Items("Index"); idx != nil {
				for _, i := range idx {
					if k, err := value.ToInt(i); err == nil && k == n {
						return selectOne(c, s, item)
					}
				}
				return nil
			}
			first := c.Int("First", -1)
			if first >= 0 && n-s.skip >= first {
				return c.Stop()
			}
			if err := selectOne(c, s, item); err != nil {
				return err
			}
			if first >= 0 && n-s.skip+1 >= first && c.HasItem {
				return c.Stop()
			}
			return nil
		}, End: func(c *interp.Invocation) error {
			s := c.State.(*selectState)
			list := s.last
			if n := c.Int("SkipLast", 0); n > 0 {
				list = list[:max(len(list)-n, 0)]
			}
			if c.Has("Last") {
				if s.skip > 0 {
					list = list[:max(len(list)-s.skip, 0)]
				}
				list = list[max(len(list)-c.Int("Last", 0), 0):]
			} else if s.skip > 0 {
				list = list[min(s.skip, len(list)):]
			}
			for _, v := range list {
				if err := selectOne(c, s, v); err != nil {
					return err
				}
			}
			return nil
		}}
}

func selectOne(c *interp.Invocation, s *selectState, item any) error {
	out := item
	if name := c.Str("ExpandProperty", ""); name != "" {
		v, ok := c.R.HasProperty(item, name)
		if !ok {
			return c.Error(interp.Failf("System.Management.Automation.PSArgumentException", "ExpandPropertyNotFound", "InvalidArgument", item, "Property \"%s\" cannot be found.", name))
		}
		if c.Switch("Unique") {
			return c.WriteAll(v)
		}
		return c.WriteAll(v)
	}
	if len(s.props) > 0 || len(s.exclude) > 0 {
		o := &value.Object{}
		if t := value.TypeName(item); t != value.CustomType && t != "" {
			o.Types = nil
		}
		props := s.props
		if len(props) == 0 {
			props = []property{{name: "*", source: "*"}}
		}
		for _, p := range props {
			if p.block == nil && value.HasWildcard(p.source) {
				for _, n := range names(c, item) {
					if value.Like(n, p.source, false) && (len(s.exclude) == 0 || !matches(s.exclude, n)) {
						v, err := c.R.Property(item, n)
						if err != nil {
							continue
						}
						o.Set(n, v)
					}
				}
				continue
			}
			if len(s.exclude) > 0 && matches(s.exclude, p.name) {
				continue
			}
			v, err := p.get(c, item)
			if err != nil {
				var ab interface{ Unwrap() error }
				if !errors.As(err, &ab) {
					return err
				}
				v = nil // a calculated property that fails is empty
			}
			name := p.name
			if p.block == nil {
				name = spelled(c, item, name)
			}
			o.Set(name, v)
		}
		out = o
	}
	if c.Switch("Unique") {
		for _, v := range s.seen {
			if sameObject(c, v, out) {
				return nil
			}
		}
		s.seen = append(s.seen, out)
	}
	return c.Write(out)
}

// spelled is a property's name as the object spells it: PowerShell keeps the
// spelling of the argument only for calculated ones.
func spelled(c *interp.Invocation, item any, name string) string {
	if c.R.Edition() == 0 {
		for _, n := range names(c, item) {
			if strings.EqualFold(n, name) {
				return n
			}
		}
	}
	return name
}

func sameObject(c *interp.Invocation, a, b any) bool {
	x, ok1 := a.(*value.Object)
	y, ok2 := b.(*value.Object)
	if ok1 && ok2 && x.Base == nil && y.Base == nil {
		if len(x.Props) != len(y.Props) {
			return false
		}
		for _, p := range x.Props {
			q, ok := y.Get(p.Name)
			if !ok || !sameObject(c, p.Value, q) {
				return false
			}
		}
		return true
	}
	return value.Equal(a, b, true)
}

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
	return &interp.Cmdlet{Name: "Sort-Object", Aliases: []string{"sort"}, Params: "Property:any[]@0 InputObject:any< Descending? Unique? CaseSensitive? Culture Top:int Bottom:int Stable?", Process: gather, End: func(c *interp.Invocation) error {
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
	}}
}

func groupObject() *interp.Cmdlet {
	return &interp.Cmdlet{Name: "Group-Object", Aliases: []string{"group"}, Params: "Property:any[]@0 InputObject:any< NoElement? AsHashTable|AHT? AsString? CaseSensitive? Culture", Process: gather, End: func(c *interp.Invocation) error {
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
			o := value.NewObject("Microsoft.PowerShell.Commands.GroupInfo", "Values", &value.List{Items: g.keys, Type: "System.Collections.ArrayList"}, "Count", i32(len(g.items)), "Group", value.NewArray(g.items...), "Name", g.name)
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
	}}
}

func measureObject() *interp.Cmdlet {
	return &interp.Cmdlet{Name: "Measure-Object", Aliases: []string{"measure"}, Params: "Property:any[]@0 InputObject:any< Sum? Average? Maximum? Minimum? StandardDeviation? AllStats? Line? Word? Character? IgnoreWhiteSpace?", Process: gather, End: func(c *interp.Invocation) error {
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
	}}
}

func measure(c *interp.Invocation, vals []any, name string) (*value.Object, error) {
	all := c.Switch("AllStats")
	o := value.NewObject("Microsoft.PowerShell.Commands.GenericMeasureInfo", "Count", i32(len(vals)), "Average", nil, "Sum", nil, "Maximum", nil, "Minimum", nil)
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
				return nil, interp.Failf("System.Management.Automation.PSInvalidCastException", "NonNumericInputObject", "InvalidType", v, "Input object \"%s\" is not numeric.", c.R.Text(v))
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
	o := value.NewObject("Microsoft.PowerShell.Commands.TextMeasureInfo", "Lines", nil, "Words", nil, "Characters", nil, "Property", nil)
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

func compareObject() *interp.Cmdlet {
	return &interp.Cmdlet{Name: "Compare-Object", Aliases: []string{"compare", "diff"}, Params: "ReferenceObject:any[]@0! DifferenceObject:any[]@1!< Property:any[] SyncWindow:int IncludeEqual? ExcludeDifferent? PassThru? CaseSensitive? Culture", Process: func(c *interp.Invocation) error {
		if c.State == nil {
			c.State = &value.List{}
		}
		l := c.State.(*value.List)
		l.Items = append(l.Items, c.Items("DifferenceObject")...)
		return nil
	}, End: func(c *interp.Invocation) error {
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
	}}
}

func newObject() *interp.Cmdlet {
	return &interp.Cmdlet{Name: "New-Object", Params: "TypeName@0 ArgumentList|Args:any[]@1 Property:hash ComObject Strict?", Process: func(c *interp.Invocation) error {
		if c.Has("ComObject") {
			return interp.NotImplemented("New-Object -ComObject " + c.Str("ComObject", ""))
		}
		block, err := c.R.ParseBlock("[" + c.Str("TypeName", "") + "]")
		if err != nil {
			return interp.Failf("System.Management.Automation.PSArgumentException", "TypeNotFound", "InvalidType", nil, "Cannot find type [%s]: verify that the assembly containing this type is loaded.", c.Str("TypeName", ""))
		}
		t, err := c.R.CallBlock(block, nil, nil)
		typ, ok := t.(*value.Type)
		if err != nil || !ok {
			return interp.Failf("System.Management.Automation.PSArgumentException", "TypeNotFound", "InvalidType", nil, "Cannot find type [%s]: verify that the assembly containing this type is loaded. Types that mullion's PowerShell knows are listed in %s.", c.Str("TypeName", ""), interp.FidelityPage)
		}
		if h := c.Hash("Property"); h != nil && (typ.Name == "System.Management.Automation.PSObject" || typ.Name == value.CustomType) {
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
