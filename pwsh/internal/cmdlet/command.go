// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"sort"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

func writeFunctions(c *interp.Invocation, patterns []string) error {
	all := c.R.Functions()
	var list []string
	for _, f := range all {
		if matches(patterns, f.Name) {
			list = append(list, f.Name)
		}
	}
	sort.Strings(list)
	for _, n := range list {
		if err := c.Write(&interp.Command{Name: n, Function: all[lower(n)]}); err != nil {
			return err
		}
	}
	return nil
}

// commandCmdlets are Get-Command and Get-Help.
func commandCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Get-Command", Aliases: []string{"gcm"},
			Params: "Name[]@0< CommandType|Type Module[]~ Noun[] Verb[] All?= Syntax?~ ListImported?= TotalCount:int " +
				"ArgumentList:any", Process: getCommand},
		{Name: "Get-Help", Aliases: []string{"help", "man"},
			Params:   "Name@0 Full?= Examples?= Detailed?= Online?~ Parameter~",
			Fidelity: "shows the command's parameters only", Process: func(c *interp.Invocation) error {
				cmd, err := c.R.Lookup(c.Str("Name", "Get-Help"))
				if err != nil {
					return err
				}
				var text strings.Builder
				text.WriteString("\nNAME\n    " + cmd.Name + "\n\nSYNTAX\n    " + cmd.Name)
				if cmd.Cmdlet != nil {
					for _, p := range c.R.ParamsOf(cmd.Cmdlet) {
						text.WriteString(" [-" + p.Name)
						if p.Kind != "switch" {
							text.WriteString(" <" + strings.TrimPrefix(p.Kind, "[]") + ">")
						}
						text.WriteString("]")
					}
				}
				return c.Write(text.String() + "\n")
			}},
	}
}

func getCommand(c *interp.Invocation) error {
	list := c.Strs("Name")
	if len(list) == 0 {
		list = []string{"*"}
	}
	kind := c.Str("CommandType", "")
	for _, n := range list {
		if value.HasWildcard(n) || len(c.Strs("Noun")) > 0 || len(c.Strs("Verb")) > 0 {
			if err := writeFunctions(c, []string{n}); err != nil {
				return err
			}
			for _, k := range c.R.Library().Cmdlets {
				verb, noun, _ := strings.Cut(k.Name, "-")
				if value.Like(k.Name, n, false) && matches(c.Strs("Noun"), noun) && matches(c.Strs("Verb"), verb) &&
					(kind == "" || strings.EqualFold(kind, "Cmdlet")) {
					if err := c.Write(&interp.Command{Name: k.Name, Cmdlet: k}); err != nil {
						return err
					}
				}
			}
			continue
		}
		cmd, err := c.R.Lookup(n)
		if err == nil && kind != "" && !strings.HasPrefix(value.ShortName(cmd.TypeName()), kind) {
			err = interp.Failf("System.Management.Automation.CommandNotFoundException", "CommandNotFoundException",
				"ObjectNotFound", n, "The term '%s' is not recognized as the name of a cmdlet, function, script "+
					"file, or operable program.", n)
		}
		if err != nil {
			if err := c.Error(err); err != nil {
				return err
			}
			continue
		}
		if err := c.Write(cmd); err != nil {
			return err
		}
	}
	return nil
}
