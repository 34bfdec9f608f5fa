// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"sort"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/internal/dotnet"
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

// errorCmdlets is Write-Error.
func errorCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{{Name: "Write-Error", Params: "Message|Msg@0< Exception:any ErrorRecord:any Category " +
		"ErrorId TargetObject:any RecommendedAction= CategoryActivity~ CategoryReason~ CategoryTargetName~ " +
		"CategoryTargetType~", Process: func(c *interp.Invocation) error {
		if rec, ok := c.Any("ErrorRecord").(*interp.ErrorRecord); ok {
			return c.WriteRecord(rec)
		}
		ex, ok := c.Any("Exception").(*interp.Exception)
		if !ok {
			ex = interp.Failf("Microsoft.PowerShell.Commands.WriteErrorException",
				"Microsoft.PowerShell.Commands.WriteErrorException", "NotSpecified", c.Any("TargetObject"), "%s",
				c.Str("Message", ""))
		}
		rec := c.Record(ex)
		if m := c.Str("Message", ""); m != "" && ok {
			rec.Details = m
		}
		rec.FQID = c.Str("ErrorId", value.ShortName(ex.Type))
		if c.Str("ErrorId", "") == "" {
			rec.FQID = ex.Type
		}
		rec.Category = c.Str("Category", "NotSpecified")
		rec.Target = c.Any("TargetObject")
		c.R.AsCaller(rec)
		if rec.Caller {
			rec.FQID += "," + interp.LeafPath(rec.Prefix)
		}
		return c.WriteRecord(rec)
	}}}
}

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
			Fidelity: "-AssemblyName does nothing; C# is refused", Process: func(c *interp.Invocation) error {
				if c.Has("AssemblyName") && !c.Has("TypeDefinition") && !c.Has("MemberDefinition") {
					return nil // the types that there are need no assembly
				}
				return interp.NotImplemented("Add-Type with source code")
			}},
	}
}

// historyCmdlets returns the cmdlets for the history, which is not kept.
func historyCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{{Name: "Get-History", Aliases: []string{"h", "history", "ghy"},
		Params: "Id:any@0 Count:int", Fidelity: "no history is kept", Process: func(*interp.Invocation) error {
			return nil
		}}}
}

// moduleCmdlets are modules: every command is built in.
func moduleCmdlets() []*interp.Cmdlet {
	builtin := []string{"Microsoft.PowerShell.Management", "Microsoft.PowerShell.Utility", "Microsoft.PowerShell.Core",
		"Microsoft.PowerShell.Security", "Microsoft.PowerShell.Host", "NetTCPIP", "NetAdapter", "DnsClient",
		"CimCmdlets"}
	return []*interp.Cmdlet{
		{Name: "Import-Module", Aliases: []string{"ipmo"},
			Params: "Name[]@0!< Force? Global?= PassThru? DisableNameChecking?= Scope Function[] Cmdlet[] " +
				"RequiredVersion~ MinimumVersion~ SkipEditionCheck?=",
			Fidelity: "the modules whose commands are built in, and .ps1 and .psm1 files, which are dot-sourced",
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

// sleepCmdlets is Start-Sleep.
func sleepCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{{Name: "Start-Sleep", Aliases: []string{"sleep"},
		Params: "Seconds|s:float@0< Milliseconds|m:float Duration:any", Process: func(c *interp.Invocation) error {
			var d time.Duration
			if v, ok := c.Get("Milliseconds"); ok {
				d = time.Duration(v.(float64) * float64(time.Millisecond))
			} else if v, ok := c.Get("Seconds"); ok {
				d = time.Duration(v.(float64) * float64(time.Second))
			} else if v, ok := c.Get("Duration"); ok {
				s, err := value.ToSpan(v)
				if err != nil {
					return err
				}
				d = time.Duration(s)
			} else {
				return badArgument("Seconds", "Cannot process command because of one or more missing mandatory "+
					"parameters: Seconds.")
			}
			if d < 0 {
				return badArgument("Seconds", "Cannot validate argument on parameter 'Seconds'. The argument is less "+
					"than the minimum allowed range of 0.")
			}
			return dotnet.Sleep(c.R, d)
		}}}
}

// dateCmdlets are Get-Date and New-TimeSpan.
func dateCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Get-Date", Params: "Date|LastWriteTime:any@0<. Format UFormat DisplayHint Year:int Month:int Day:int " +
			"Hour:int Minute:int Second:int Millisecond:int AsUTC? UnixTimeSeconds:any", Process: getDate},
		{Name: "New-TimeSpan", Params: "Start|LastWriteTime:any@0<. End:any@1 Days:int Hours:int Minutes:int " +
			"Seconds:int Milliseconds:int", Process: func(c *interp.Invocation) error {
			v, hasStart := c.Get("Start")
			e, hasEnd := c.Get("End")
			if !hasStart && !hasEnd {
				return c.Write(value.TimeSpan(time.Duration(c.Int("Days", 0))*24*time.Hour +
					time.Duration(c.Int("Hours", 0))*time.Hour + time.Duration(c.Int("Minutes", 0))*time.Minute +
					time.Duration(c.Int("Seconds", 0))*time.Second +
					time.Duration(c.Int("Milliseconds", 0))*time.Millisecond))
			}
			now := value.DateTime{Time: clock(c)}
			if !hasStart {
				v = now
			}
			if !hasEnd {
				e = now
			}
			from, err := value.ToDate(v)
			if err != nil {
				return err
			}
			to, err := value.ToDate(e)
			if err != nil {
				return err
			}
			d, err := value.Sub(to, from)
			if err != nil {
				return err
			}
			return c.Write(d)
		}},
	}
}

func clock(c *interp.Invocation) time.Time {
	if f := c.R.Handlers().Now; f != nil {
		return f().Local().Truncate(100)
	}
	return time.Now().Truncate(100)
}

func getDate(c *interp.Invocation) error {
	d := value.DateTime{Time: clock(c)}
	if v, ok := c.Get("Date"); ok && v != nil {
		var err error
		if d, err = value.ToDate(v); err != nil {
			return err
		}
	}
	if v, ok := c.Get("UnixTimeSeconds"); ok {
		n, err := value.ToInt(v)
		if err != nil {
			return err
		}
		d = value.DateTime{Time: time.Unix(int64(n), 0)}
	}
	part := func(name string, def int) int { return c.Int(name, def) }
	d = value.DateTime{Time: time.Date(part("Year", d.Year()), time.Month(part("Month", int(d.Month()))),
		part("Day", d.Day()), part("Hour", d.Hour()), part("Minute", d.Minute()), part("Second", d.Second()),
		part("Millisecond", d.Nanosecond()/1e6)*1e6+d.Nanosecond()%1e6, d.Location())}
	if c.Switch("AsUTC") {
		d = value.DateTime{Time: d.UTC()}
	}
	switch f := c.Str("Format", ""); f {
	case "":
	case "FileDate":
		return c.Write(value.FormatDate(d.Time, "yyyyMMdd"))
	case "FileDateTime":
		return c.Write(value.FormatDate(d.Time, "yyyyMMddTHHmmssffff"))
	case "FileDateUniversal":
		return c.Write(value.FormatDate(d.UTC(), "yyyyMMddZ"))
	case "FileDateTimeUniversal":
		return c.Write(value.FormatDate(d.UTC(), "yyyyMMddTHHmmssffff'Z'"))
	default:
		return c.Write(value.FormatDate(d.Time, f))
	}
	if u := c.Str("UFormat", ""); u != "" {
		s, err := unixFormat(d.Time, strings.TrimPrefix(u, "+"))
		if err != nil {
			return err
		}
		return c.Write(s)
	}
	switch lower(c.Str("DisplayHint", "")) {
	case "date":
		return c.Write(value.FormatDate(d.Time, "D"))
	case "time":
		return c.Write(value.FormatDate(d.Time, "T"))
	}
	return c.Write(d)
}

// unixFormat is Get-Date -UFormat.
func unixFormat(t time.Time, f string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(f); i++ {
		if f[i] != '%' || i+1 >= len(f) {
			b.WriteByte(f[i])
			continue
		}
		i++
		net, ok := map[byte]string{'Y': "yyyy", 'y': "yy", 'm': "MM", 'd': "dd", 'H': "HH", 'I': "hh", 'M': "mm",
			'S': "ss", 'p': "tt", 'A': "dddd", 'a': "ddd", 'B': "MMMM", 'b': "MMM", 'F': "yyyy-MM-dd", 'T': "HH:mm:ss",
			'R': "HH:mm", 'D': "MM/dd/yy", 'e': "%d", 'Z': "zz"}[f[i]]
		switch {
		case ok:
			b.WriteString(value.FormatDate(t, net))
		case f[i] == 's':
			b.WriteString(value.String(t.Unix()))
		case f[i] == 'j':
			b.WriteString(value.String(int32(t.YearDay())))
		case f[i] == '%':
			b.WriteByte('%')
		case f[i] == 'n':
			b.WriteByte('\n')
		case f[i] == 't':
			b.WriteByte('\t')
		default:
			return "", interp.NotImplemented("the -UFormat specifier %" + string(f[i]))
		}
	}
	return b.String(), nil
}
