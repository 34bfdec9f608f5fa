// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// validate applies the Validate attributes. Source:
// about_Functions_Advanced_Parameters.
func (r *Runner) validate(p *syntax.Param, v any) error {
	for _, a := range p.Attributes {
		args := make([]any, len(a.Args))
		for i, x := range a.Args {
			val, err := r.operand(x)
			if err != nil {
				return err
			}
			args[i] = val
		}
		if msg := r.validateOne(strings.ToLower(a.Name), args, v); msg != "" {
			return r.fail("System.Management.Automation.ParameterBindingValidationException",
				"ParameterArgumentValidationError", "InvalidData", nil,
				"Cannot validate argument on parameter '%s'. %s", p.Name, msg)
		}
	}
	return nil
}

func (r *Runner) validateOne(name string, args []any, v any) string {
	items, ok := value.Items(v)
	if !ok {
		items = []any{v}
	}
	switch name {
	case "validatenotnullorempty", "validatenotnull":
		if v == nil || name == "validatenotnullorempty" && (v == "" || ok && len(items) == 0) {
			return "The argument is null or empty. Provide an argument that is not null or empty, and then try the " +
				"command again."
		}
	case "validateset":
		for _, x := range items {
			if !r.contains(value.NewArray(args...), x, false) {
				return "The argument \"" + r.Text(x) + "\" does not belong to the set \"" +
					r.join(value.NewArray(args...), ",") + "\" specified by the ValidateSet attribute. Supply an " +
					"argument that is in the set and then try the command again."
			}
		}
	case "validaterange":
		for _, x := range items {
			lo, ok1 := value.Compare(x, at(args, 0), false)
			hi, ok2 := value.Compare(x, at(args, 1), false)
			if !ok1 || !ok2 || lo < 0 || hi > 0 {
				return "The " + r.Text(x) + " argument is outside of the allowed range of " + r.Text(at(args, 0)) +
					" to " + r.Text(at(args, 1)) + ". Supply an argument that is in the range and then try the " +
					"command again."
			}
		}
	case "validatepattern":
		re, err := r.Regex(r.Text(at(args, 0)), true)
		if err != nil {
			return err.Error()
		}
		for _, x := range items {
			m, err := re.Find(r.Text(x))
			if err != nil {
				return err.Error()
			}
			if m == nil {
				return "The argument \"" + r.Text(x) + "\" does not match the \"" + re.Pattern +
					"\" pattern. Supply an argument that matches \"" + re.Pattern + "\" and try the command again."
			}
		}
	case "validatescript":
		b, ok := at(args, 0).(*ScriptBlock)
		if !ok {
			return ""
		}
		for _, x := range items {
			res, err := r.CallBlock(b, x, nil)
			if err != nil {
				return err.Error()
			}
			if !value.Bool(res) {
				return "The \"" + strings.TrimSpace(b.Text()) + "\" validation script for the argument with value \"" +
					r.Text(x) + "\" did not return a result of True. Determine why the validation script failed, and " +
					"then try the command again."
			}
		}
	case "validatelength", "validatecount":
		n := len(items)
		if name == "validatelength" {
			n = len([]rune(r.Text(v)))
		}
		lo, _ := value.ToInt(at(args, 0))
		hi, _ := value.ToInt(at(args, 1))
		if n < lo || n > hi {
			return "The length or count of the argument is outside of the allowed range of " + r.Text(at(args, 0)) +
				" to " + r.Text(at(args, 1)) + "."
		}
	}
	return ""
}

func at(args []any, i int) any {
	if i < len(args) {
		return args[i]
	}
	return nil
}
