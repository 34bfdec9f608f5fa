// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// moduleCmdlets are modules: every command is built in.
func moduleCmdlets() []*interp.Cmdlet {
	builtin := []string{"Microsoft.PowerShell.Management", "Microsoft.PowerShell.Utility", "Microsoft.PowerShell.Core",
		"Microsoft.PowerShell.Security", "Microsoft.PowerShell.Host", "NetTCPIP", "NetAdapter", "DnsClient",
		"CimCmdlets"}
	return []*interp.Cmdlet{
		{Name: "Import-Module", Aliases: []string{"ipmo"},
			Params: "Name[]@0!< Force? Global?= PassThru? DisableNameChecking?= Scope Function[] Cmdlet[] " +
				"RequiredVersion~ MinimumVersion~ SkipEditionCheck?=",
			Fidelity: "modules of built-in commands, and .ps1 and .psm1 files, which are dot-sourced",
			Process: func(c *interp.Invocation) error {
				for _, n := range c.Strs("Name") {
					if matches([]string{n}, "") || containsFold(builtin, n) {
						continue
					}
					if l := lower(n); strings.HasSuffix(l, ".psm1") || strings.HasSuffix(l, ".ps1") {
						text, err := c.R.ReadText(n)
						if err != nil {
							return err
						}
						b, err := c.R.ParseBlock(text)
						if err != nil {
							return err
						}
						if err := c.R.RunInline(b, c.Out); err != nil {
							return err
						}
						continue
					}
					if err := c.Error(interp.Failf("System.IO.FileNotFoundException", "Modules_ModuleNotFound",
						"ResourceUnavailable", n, "The specified module '%s' was not loaded because no valid module "+
							"file was found in any module directory. mullion's PowerShell has the modules of %s.", n,
						interp.FidelityPage)); err != nil {
						return err
					}
				}
				return nil
			}},
		{Name: "Get-Module", Aliases: []string{"gmo"}, Params: "Name[]@0< ListAvailable?= All?=",
			Process: func(c *interp.Invocation) error {
				for _, n := range builtin {
					if matches(c.Strs("Name"), n) {
						if err := c.Write(show(value.NewObject("System.Management.Automation.PSModuleInfo",
							"ModuleType", "Manifest", "Version", value.Version{
								Major:    3,
								Minor:    1,
								Build:    0,
								Revision: 0,
							}, "Name", n), "ModuleType", "Version", "Name")); err != nil {
							return err
						}
					}
				}
				return nil
			}},
		{Name: "Remove-Module", Aliases: []string{"rmo"}, Params: "Name[]@0 Force?",
			Process: func(*interp.Invocation) error {
				return nil
			}},
		{Name: "Export-ModuleMember", Params: "Function[]@0 Cmdlet[] Variable[] Alias[]",
			Process: func(*interp.Invocation) error {
				return nil
			}},
	}
}

func containsFold(list []string, s string) bool {
	for _, x := range list {
		if strings.EqualFold(x, s) {
			return true
		}
	}
	return false
}
