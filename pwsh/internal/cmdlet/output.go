// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
	"github.com/mullion-k8s/mullion/pwsh/internal/view"
)

// hostCmdlets are Write-Host and its like.
func hostCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Write-Host", Params: "Object:any@0*< NoNewline? Separator:any ForegroundColor|fg= BackgroundColor|bg=",
			Fidelity: "colours are accepted, but not shown",
			Process: func(c *interp.Invocation) error {
				sep := " "
				if s, ok := c.Get("Separator"); ok {
					sep = c.R.Text(s)
				}
				end := "\n"
				if c.Switch("NoNewline") {
					end = ""
				}
				return c.R.HostOut(hostText(c, c.Any("Object"), sep), end)
			}},
		{Name: "Read-Host", Params: "Prompt@0 AsSecureString? MaskInput?~", Process: func(c *interp.Invocation) error {
			if c.Switch("AsSecureString") {
				return interp.NotImplemented("Read-Host -AsSecureString")
			}
			if p := c.Str("Prompt", ""); p != "" {
				if err := c.R.Host(p + ": "); err != nil {
					return err
				}
			}
			v, err := c.R.CallStatic("System.Console", "ReadLine", nil)
			if err != nil {
				return err
			}
			return c.Write(value.String(v))
		}},
		{Name: "Out-Host", Aliases: []string{"oh"}, Params: "InputObject:any< Paging?=",
			Process: func(c *interp.Invocation) error {
				if !c.HasItem && !c.Has("InputObject") {
					return nil
				}
				return c.R.Show(c.Any("InputObject"))
			}},
		{Name: "Clear-Host", Aliases: []string{"cls", "clear"}, Process: func(c *interp.Invocation) error {
			if console := c.R.Handlers().Console; console != nil {
				return console.Clear()
			}
			return nil
		}},
		{Name: "Get-Host", Process: func(c *interp.Invocation) error {
			v, _ := c.R.GetVariable("Host")
			return c.Write(v)
		}},
		{Name: "Write-Progress", Params: "Activity@0= Status@1 Id:int@2 PercentComplete:int= SecondsRemaining:int= " +
			"CurrentOperation= ParentId:int= Completed?= SourceId:int=", Fidelity: "no output",
			Process: func(*interp.Invocation) error { return nil }},
	}
}

func hostText(c *interp.Invocation, v any, sep string) string {
	items, ok := value.Items(v)
	if !ok {
		if h, isHash := v.(*value.Hash); isHash {
			var parts []string
			for _, k := range h.Keys() {
				x, _ := h.Get(k)
				parts = append(parts, "["+value.String(k)+", "+c.R.Text(x)+"]")
			}
			if parts == nil {
				return "System.Collections.Hashtable"
			}
			return strings.Join(parts, sep)
		}
		if d, isDate := v.(value.DateTime); isDate {
			return value.FormatDate(d.Time, "G")
		}
		return c.R.Text(v)
	}
	parts := make([]string, len(items))
	for i, x := range items {
		parts[i] = hostText(c, x, sep)
	}
	return strings.Join(parts, sep)
}

// outputCmdlets returns the cmdlets for the other streams and the Out- cmdlets.
//
// Length: one table; splitting hides which names belong together.
func outputCmdlets() []*interp.Cmdlet {
	stream := func(name, kind string) *interp.Cmdlet {
		return &interp.Cmdlet{Name: name, Params: "Message|Msg@0!<", Process: func(c *interp.Invocation) error {
			if kind == "verbose" {
				return c.Verbose(c.Str("Message", ""))
			}
			if kind == "warning" {
				return c.Warning(c.Str("Message", ""))
			}
			if c.Switch(kind) {
				return c.R.Message(kind, c.Str("Message", ""))
			}
			return c.R.WriteStream(kind, c.Str("Message", ""))
		}}
	}
	return []*interp.Cmdlet{
		{Name: "Write-Output", Aliases: []string{"echo", "write"}, Params: "InputObject:any@0*< NoEnumerate?",
			Process: func(c *interp.Invocation) error {
				v := c.Any("InputObject")
				if c.Switch("NoEnumerate") {
					return c.Write(v)
				}
				// one argument that is itself a collection is enumerated
				if a, ok := v.(*value.Array); ok && !c.HasItem {
					return c.WriteAll(a)
				}
				return c.WriteAll(v)
			}},
		stream("Write-Warning", "warning"), stream("Write-Verbose", "verbose"), stream("Write-Debug", "debug"),
		{Name: "Write-Information", Params: "MessageData|Msg:any@0!< Tags[]@1=",
			Process: func(c *interp.Invocation) error {
				if a := c.Str("InformationAction", ""); strings.EqualFold(a, "Continue") {
					return c.R.Message("information", c.Any("MessageData"))
				}
				return c.R.WriteStream("information", c.Any("MessageData"))
			}},
		{Name: "Out-Null", Params: "InputObject:any<", Process: func(*interp.Invocation) error { return nil }},
		{Name: "Out-Default", Params: "InputObject:any<", Process: func(c *interp.Invocation) error {
			if !c.HasItem && !c.Has("InputObject") {
				return nil
			}
			return c.R.Show(c.Any("InputObject"))
		}},
		{Name: "Out-String", Aliases: []string{"oss"}, Params: "InputObject:any< Stream? Width:int NoNewline?",
			Begin: func(c *interp.Invocation) error {
				b := &strings.Builder{}
				c.State = &textState{b, view.NewWidth(c.R, b, c.Int("Width", view.Width))}
				return nil
			}, Process: func(c *interp.Invocation) error {
				if !c.HasItem && !c.Has("InputObject") {
					return nil
				}
				return c.State.(*textState).w.Add(c.Any("InputObject"))
			}, End: func(c *interp.Invocation) error {
				s := c.State.(*textState)
				if err := s.w.Flush(); err != nil {
					return err
				}
				if c.Switch("Stream") {
					for _, l := range interp.SplitLines(s.b.String()) {
						if err := c.Write(l); err != nil {
							return err
						}
					}
					return nil
				}
				if c.Switch("NoNewline") {
					return c.Write(strings.NewReplacer("\r", "", "\n", "").Replace(s.b.String()))
				}
				return c.Write(s.b.String())
			}},
		outFile(),
		{Name: "Tee-Object", Aliases: []string{"tee"},
			Params: "FilePath@0 Variable InputObject:any< Append? LiteralPath Encoding",
			Begin: func(c *interp.Invocation) error {
				c.State = &value.List{}
				return nil
			}, Process: func(c *interp.Invocation) error {
				if !c.HasItem && !c.Has("InputObject") {
					return nil
				}
				l := c.State.(*value.List)
				l.Items = append(l.Items, c.Any("InputObject"))
				return c.Write(c.Any("InputObject"))
			}, End: func(c *interp.Invocation) error {
				items := c.State.(*value.List).Items
				if name := c.Str("Variable", ""); name != "" {
					_, err := c.R.SetVariable(name, value.Collapse(items), "")
					return err
				}
				return writeObjects(c, c.Str("FilePath", c.Str("LiteralPath", "")), items, c.Switch("Append"),
					c.Str("Encoding", ""))
			}},
	}
}

type textState struct {
	b *strings.Builder
	w *view.Writer
}

func outFile() *interp.Cmdlet {
	return &interp.Cmdlet{
		Name: "Out-File",
		Params: "FilePath|Path@0! Encoding@1 LiteralPath|PSPath Append? Force? NoClobber? Width:int NoNewline? " +
			"InputObject:any<",
		Fidelity: "the default encoding is UTF-8, in Windows PowerShell UTF-16",
		Begin:    func(c *interp.Invocation) error { c.State = &value.List{}; return nil },
		Process: func(c *interp.Invocation) error {
			if c.HasItem || c.Has("InputObject") {
				l := c.State.(*value.List)
				l.Items = append(l.Items, c.Any("InputObject"))
			}
			return nil
		},
		End: func(c *interp.Invocation) error {
			name := c.Str("FilePath", c.Str("LiteralPath", ""))
			if c.Switch("NoClobber") && c.R.Exists(c.R.Path(name)) {
				return interp.Failf("System.IO.IOException", "NoClobber", "ResourceExists", name,
					"The file '%s' already exists.", c.R.Path(name))
			}
			return writeObjects(c, name, c.State.(*value.List).Items, c.Switch("Append"), c.Str("Encoding", ""))
		},
	}
}

// writeObjects writes objects to a file as the console shows them.
func writeObjects(c *interp.Invocation, name string, items []any, appendTo bool, encoding string) error {
	b := &strings.Builder{}
	w := view.NewWidth(c.R, b, c.Int("Width", view.Width))
	for _, v := range items {
		if err := w.Add(v); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	text := b.String()
	if c.Switch("NoNewline") {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", ""), "\n", "")
	}
	return writeText(c, name, text, encoding, appendTo)
}
