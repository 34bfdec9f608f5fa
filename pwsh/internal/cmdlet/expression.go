// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// expressionCmdlets run text and script blocks.
func expressionCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Invoke-Expression", Aliases: []string{"iex"}, Params: "Command@0!<",
			Process: func(c *interp.Invocation) error {
				b, err := c.R.ParseBlock(c.Str("Command", ""))
				if err != nil {
					return err
				}
				return c.R.RunInline(b, c.Out)
			}},
		{Name: "Invoke-Command", Aliases: []string{"icm"},
			Params: "ScriptBlock:block@0! ComputerName|Cn[] ArgumentList|Args:any[] InputObject:any< NoNewScope?~ " +
				"Session:any AsJob? Credential:any FilePath", Process: func(c *interp.Invocation) error {
				for _, n := range c.Strs("ComputerName") {
					if !strings.EqualFold(n, "localhost") && n != "." && !strings.EqualFold(n, hostname(c)) {
						return interp.NotImplemented("Invoke-Command -ComputerName")
					}
				}
				if c.Has("Session") || c.Switch("AsJob") || c.Has("FilePath") {
					return interp.NotImplemented("Invoke-Command with a session, a job or a file")
				}
				return c.R.CallFunction(&interp.Function{Block: c.Block("ScriptBlock")}, c.Items("ArgumentList"), c.Out)
			}},
		{Name: "Measure-Command", Params: "Expression:block@0! InputObject:any<",
			Process: func(c *interp.Invocation) error {
				clock := c.R.Handlers().Now
				if clock == nil {
					clock = time.Now
				}
				start := clock()
				if err := c.R.RunBlock(c.Block("Expression"), nil, nil,
					interp.Sink{Emit: func(any) error { return nil }}); err != nil {
					return err
				}
				return c.Write(value.TimeSpan(clock().Sub(start)))
			}},
		{Name: "Set-StrictMode", Params: "Version:any Off?", Process: func(c *interp.Invocation) error {
			c.R.SetStrict(!c.Switch("Off"))
			return nil
		}},
		{Name: "Start-Job", Aliases: []string{"sajb"}, Params: "ScriptBlock:any@0 Name ArgumentList:any",
			Process: func(*interp.Invocation) error {
				return interp.NotImplemented("Start-Job")
			}},
		{Name: "Add-Type", Params: "TypeDefinition@0 AssemblyName|AN[] Path[] MemberDefinition Name Namespace " +
			"Language= ReferencedAssemblies[]= PassThru? IgnoreWarnings?=",
			Fidelity: "-AssemblyName has no effect; C# is refused", Process: func(c *interp.Invocation) error {
				if c.Has("AssemblyName") && !c.Has("TypeDefinition") && !c.Has("MemberDefinition") {
					return nil // the available types need no assembly
				}
				return interp.NotImplemented("Add-Type with source code")
			}},
	}
}
