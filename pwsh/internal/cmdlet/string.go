// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
	"github.com/mullion-k8s/mullion/pwsh/internal/view"
)

// stringCmdlets are Select-String and ConvertFrom-StringData.
func stringCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Select-String", Aliases: []string{"sls"},
			Params: "Pattern[]@0! Path[]@1. InputObject:any< LiteralPath|PSPath[] SimpleMatch? CaseSensitive? Quiet? " +
				"List? NotMatch? AllMatches? Context:any Raw? Encoding Include[]~ Exclude[]~ NoEmphasis?=",
			Begin: func(c *interp.Invocation) error {
				if c.Has("Context") {
					return interp.NotImplemented("Select-String -Context")
				}
				s := &searchState{}
				for _, p := range c.Strs("Pattern") {
					if c.Switch("SimpleMatch") {
						p = interp.QuoteRegex(p)
					}
					re, err := c.R.Regex(p, !c.Switch("CaseSensitive"))
					if err != nil {
						return err
					}
					s.res = append(s.res, re)
				}
				c.State = s
				return nil
			}, Process: func(c *interp.Invocation) error {
				s := c.State.(*searchState)
				files := paths(c)
				if v, ok := c.R.HasProperty(c.Item, "FullName"); ok && c.HasItem && len(files) == 0 {
					files = []string{value.String(v)}
				}
				for _, p := range files {
					text, err := c.R.ReadText(p)
					if err != nil {
						if err := c.Error(err); err != nil {
							return err
						}
						continue
					}
					for i, l := range interp.SplitLines(text) {
						stop, err := s.search(c, l, i+1, c.R.Path(p))
						if err != nil {
							return err
						}
						if stop {
							break
						}
					}
				}
				if len(files) == 0 && (c.HasItem || c.Has("InputObject")) {
					items, ok := value.Items(c.Any("InputObject"))
					if !ok {
						items = []any{c.Any("InputObject")}
					}
					for _, x := range items {
						s.line++
						if _, err := s.search(c, c.R.Text(x), s.line, "InputStream"); err != nil {
							return err
						}
					}
				}
				return nil
			}, End: func(c *interp.Invocation) error {
				if c.Switch("Quiet") {
					return c.Write(c.State.(*searchState).found)
				}
				return nil
			}},
		{Name: "ConvertFrom-StringData", Params: "StringData@0!< Delimiter", Process: func(c *interp.Invocation) error {
			h := &value.Hash{}
			for _, l := range interp.SplitLines(c.Str("StringData", "")) {
				l = strings.TrimSpace(l)
				if l == "" || strings.HasPrefix(l, "#") {
					continue
				}
				k, v, ok := strings.Cut(l, c.Str("Delimiter", "="))
				if !ok {
					return badArgument("StringData", "Data line '%s' is not in 'name=value' format.", l)
				}
				h.Set(strings.TrimSpace(k), stringEscapes.Replace(strings.TrimSpace(v)))
			}
			return c.Write(h)
		}},
		{Name: "ConvertTo-SecureString", Params: "String@0 AsPlainText? Force? Key:any",
			Process: func(*interp.Invocation) error {
				return interp.NotImplemented("ConvertTo-SecureString")
			}},
	}
}

// stringEscapes are the escapes in the values of string data.
// Source: https://learn.microsoft.com/powershell/module/microsoft.powershell.utility/convertfrom-stringdata, read
// 2026-11.
var stringEscapes = strings.NewReplacer(`\\`, `\`, `\a`, "\a", `\b`, "\b", `\f`, "\f", `\n`, "\n", `\r`, "\r", `\t`,
	"\t", `\v`, "\v", `\0`, "\x00")

type searchState struct {
	res   []*interp.Regex
	line  int
	found bool
}

// search matches one line; stop reports that
// the remaining lines of the file need not be searched.
func (s *searchState) search(c *interp.Invocation, line string, n int, file string) (stop bool, err error) {
	var hits []any
	hit := false
	pattern := ""
	for _, re := range s.res {
		m, err := re.Find(line)
		for ; m != nil && err == nil; m, err = m.Next() {
			hits, hit, pattern = append(hits, m), true, re.Pattern
			if !c.Switch("AllMatches") {
				break
			}
		}
		if err != nil {
			return false, err
		}
		if hit {
			break
		}
	}
	if hit == c.Switch("NotMatch") {
		return false, nil
	}
	s.found = true
	if c.Switch("Quiet") {
		return true, nil
	}
	if c.Switch("Raw") {
		return c.Switch("List"), c.Write(line)
	}
	o := value.NewObject("Microsoft.PowerShell.Commands.MatchInfo", "IgnoreCase", !c.Switch("CaseSensitive"),
		"LineNumber", i32(n), "Line", line, "Filename", interp.LeafPath(file), "Path", file, "Pattern", pattern,
		"Context", nil, "Matches", value.NewArray(hits...))
	o.Str = line
	if file != "InputStream" {
		o.Str = interp.LeafPath(file) + ":" + value.String(i32(n)) + ":" + line
	}
	o.Base = nil
	o.Show = []string{} // shown as its text
	return c.Switch("List"), c.Write(o)
}

// formatCmdlets lay objects out.
func formatCmdlets() []*interp.Cmdlet {
	const params = "Property:any[]@0 InputObject:any< AutoSize?= HideTableHeaders? Wrap? GroupBy:any View~ Force? " +
		"Expand~ DisplayError?~ ShowError?~"
	end := func(kind view.Kind) func(c *interp.Invocation) error {
		return func(c *interp.Invocation) error {
			items := gathered(c)
			if len(items) == 0 {
				return nil
			}
			f := &view.Format{
				Kind:       kind,
				Items:      items,
				HideHeader: c.Switch("HideTableHeaders"),
				Wrap:       c.Switch("Wrap"),
			}
			if g, ok := c.Get("GroupBy"); ok {
				f.GroupBy = c.R.Text(g)
			}
			if err := columns(c, f); err != nil {
				return err
			}
			return c.Write(f)
		}
	}
	return []*interp.Cmdlet{
		{Name: "Format-Table", Aliases: []string{"ft"}, Params: params, Process: gather, End: end(view.Table)},
		{Name: "Format-List", Aliases: []string{"fl"}, Params: params, Process: gather, End: end(view.List)},
	}
}

// columns returns the columns of -Property.
func columns(c *interp.Invocation, f *view.Format) error {
	args := c.Items("Property")
	if len(args) == 0 {
		return nil
	}
	props, err := properties(c, args)
	if err != nil {
		return err
	}
	f.Columns = []view.Column{}
	for _, p := range props {
		if p.block == nil && value.HasWildcard(p.source) {
			for _, n := range names(c, f.Items[0]) {
				if value.Like(n, p.source, false) {
					f.Columns = append(f.Columns, view.Column{Label: n, Value: func(v any) (any, error) {
						return c.R.Property(v, n)
					}})
				}
			}
			continue
		}
		label := p.name
		if p.block == nil && p.name == p.source {
			label = spelledAny(c, f.Items[0], p.name)
		}
		f.Columns = append(f.Columns, view.Column{
			Label: label,
			Value: func(v any) (any, error) { return p.get(c, v) },
			Align: p.align,
			Width: p.width,
			Fmt:   p.format,
		})
	}
	return nil
}

func spelledAny(c *interp.Invocation, item any, name string) string {
	for _, n := range names(c, item) {
		if strings.EqualFold(n, name) {
			return n
		}
	}
	return name
}
