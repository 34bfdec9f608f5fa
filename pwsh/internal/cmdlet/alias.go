// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"sort"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

func writeAliases(c *interp.Invocation, patterns []string) error {
	all := c.R.Aliases()
	list := make([]string, 0, len(all))
	for k := range all {
		if matches(patterns, k) {
			list = append(list, k)
		}
	}
	sort.Strings(list)
	for _, k := range list {
		o := value.NewObject("System.Management.Automation.AliasInfo", "CommandType", "Alias", "Name", k, "DisplayName",
			k+" -> "+all[k], "Definition", all[k], "ResolvedCommandName", all[k], "Version", "", "Source", "")
		o.Str = k
		if err := c.Write(show(o, "CommandType", "Name", "Definition")); err != nil {
			return err
		}
	}
	return nil
}

// aliasCmdlets work on aliases.
func aliasCmdlets() []*interp.Cmdlet {
	set := func(name, alias string) *interp.Cmdlet {
		return &interp.Cmdlet{
			Name:    name,
			Aliases: []string{alias},
			Params:  "Name@0! Value@1! Option= Scope= Force?= Description= PassThru?~",
			Process: func(c *interp.Invocation) error {
				c.R.Aliases()[lower(c.Str("Name", ""))] = c.Str("Value", "")
				return nil
			},
		}
	}
	return []*interp.Cmdlet{
		{Name: "Get-Alias", Aliases: []string{"gal"}, Params: "Name[]@0< Definition[] Scope~ Exclude[]~",
			Process: func(c *interp.Invocation) error {
				if defs := c.Strs("Definition"); len(defs) > 0 {
					var found []string
					for k, v := range c.R.Aliases() {
						if matches(defs, v) {
							found = append(found, k)
						}
					}
					if found == nil {
						return nil
					}
					return writeAliases(c, found)
				}
				return writeAliases(c, c.Strs("Name"))
			}},
		set("Set-Alias", "sal"), set("New-Alias", "nal"),
	}
}
