// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"sort"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

func writeVariables(c *interp.Invocation, patterns []string) error {
	list := c.R.Variables()
	sort.Slice(list, func(i, j int) bool { return lower(list[i].Name) < lower(list[j].Name) })
	found := false
	for _, v := range list {
		if !matches(patterns, v.Name) {
			continue
		}
		found = true
		if c.Switch("ValueOnly") {
			if err := c.Write(v.Value); err != nil {
				return err
			}
			continue
		}
		if err := c.Write(variableObject(v)); err != nil {
			return err
		}
	}
	if !found && len(patterns) == 1 && !value.HasWildcard(patterns[0]) {
		if v, ok := c.R.GetVariable(patterns[0]); ok {
			if c.Switch("ValueOnly") {
				return c.Write(v)
			}
			return c.Write(variableObject(&interp.Variable{Name: patterns[0], Value: v}))
		}
		return c.Error(interp.Failf("System.Management.Automation.ItemNotFoundException", "VariableNotFound",
			"ObjectNotFound", patterns[0], "Cannot find a variable with the name '%s'.", patterns[0]))
	}
	return nil
}

func variableObject(v *interp.Variable) *value.Object {
	return show(value.NewObject("System.Management.Automation.PSVariable", "Name", v.Name, "Value", v.Value),
		"Name", "Value")
}

// variableCmdlets work on variables.
func variableCmdlets() []*interp.Cmdlet {
	set := func(name string, aliases []string, fresh bool) *interp.Cmdlet {
		return &interp.Cmdlet{
			Name:    name,
			Aliases: aliases,
			Params: "Name[]@0! Value:any@1< Scope Option Force? PassThru? Description= Visibility~ Include[]~ " +
				"Exclude[]~",
			Process: func(c *interp.Invocation) error {
				for _, n := range c.Strs("Name") {
					if old := c.R.FindVariable(n); fresh && old != nil && !c.Switch("Force") &&
						c.Str("Scope", "") == "" && old.Constant {
						return c.Error(interp.Failf("System.Management.Automation.SessionStateException",
							"VariableAlreadyExists", "ResourceExists", n, "A variable with name '%s' already exists.",
							n))
					}
					old := c.R.FindVariable(n)
					locked := old != nil && old.ReadOnly && c.Switch("Force")
					if locked {
						old.ReadOnly = false
					}
					v, err := c.R.SetVariable(n, c.Any("Value"), c.Str("Scope", ""))
					if locked {
						old.ReadOnly = true
					}
					if err != nil {
						return err
					}
					switch lower(c.Str("Option", "")) {
					case "readonly":
						v.ReadOnly = true
					case "constant":
						v.Constant = true
					case "private":
						v.Private = true
					}
					if c.Switch("PassThru") {
						return c.Write(variableObject(v))
					}
				}
				return nil
			},
		}
	}
	return []*interp.Cmdlet{
		{Name: "Get-Variable", Aliases: []string{"gv"}, Params: "Name[]@0< ValueOnly? Scope~ Include[]~ Exclude[]~",
			Process: func(c *interp.Invocation) error {
				if len(c.Strs("Name")) == 0 {
					return writeVariables(c, []string{"*"})
				}
				for _, n := range c.Strs("Name") {
					if err := writeVariables(c, []string{n}); err != nil {
						return err
					}
				}
				return nil
			}},
		set("Set-Variable", []string{"sv", "set"}, false), set("New-Variable", []string{"nv"}, true),
		{Name: "Remove-Variable", Aliases: []string{"rv"}, Params: "Name[]@0!. Scope~ Force? Include[]~ Exclude[]~",
			Process: func(c *interp.Invocation) error {
				for _, n := range c.Strs("Name") {
					if !c.R.RemoveVariable(n) {
						if err := c.Error(interp.Failf("System.Management.Automation.ItemNotFoundException",
							"VariableNotFound", "ObjectNotFound", n, "Cannot find a variable with the name '%s'.",
							n)); err != nil {
							return err
						}
					}
				}
				return nil
			}},
		{Name: "Clear-Variable", Aliases: []string{"clv"}, Params: "Name[]@0!. Scope~ Force?",
			Process: func(c *interp.Invocation) error {
				for _, n := range c.Strs("Name") {
					if v := c.R.FindVariable(n); v != nil {
						v.Value = nil
					}
				}
				return nil
			}},
	}
}
