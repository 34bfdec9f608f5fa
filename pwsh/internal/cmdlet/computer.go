// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// computerCmdlets is Get-ComputerInfo.
func computerCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{{
		Name:     "Get-ComputerInfo",
		Aliases:  []string{"gin"},
		Params:   "Property[]@0",
		Fidelity: "about thirty of its properties; others are absent",
		Process: func(c *interp.Invocation) error {
			all, err := computerInfo(c)
			if err != nil {
				return err
			}
			if wanted := c.Strs("Property"); len(wanted) > 0 {
				var props []value.Prop
				for _, pattern := range wanted {
					for _, p := range all.Props {
						if matches([]string{pattern}, p.Name) && !hasProp(props, p.Name) {
							props = append(props, p)
						}
					}
				}
				all.Props = props
			}
			var names []string
			for _, p := range all.Props {
				names = append(names, p.Name)
			}
			return c.Write(asList(all, names...))
		},
	}}
}

func hasProp(props []value.Prop, name string) bool {
	for _, p := range props {
		if p.Name == name {
			return true
		}
	}
	return false
}

// computerInfo gathers the properties that scripts use: from the registry, as the
// original does for the names that begin with Windows, and from the system.
func computerInfo(c *interp.Invocation) (*value.Object, error) {
	s := c.R.Handlers().System
	if s == nil {
		return nil, interp.NotImplemented(c.Cmd.Name)
	}
	current := currentVersion(c.R)
	version := strings.Join(strings.SplitN(s.OSVersion(), ".", 4)[:min(3, strings.Count(s.OSVersion(), ".")+1)], ".")
	product := current["ProductName"]
	osName := "Microsoft Windows"
	if product != "" {
		osName = "Microsoft " + product
	}
	total, free := s.Memory()
	boot := s.BootTime()
	now := clock(c)
	return value.NewObject("Microsoft.PowerShell.Commands.ComputerInfo",
		"WindowsBuildLabEx", optionalText(current["BuildLabEx"]),
		"WindowsCurrentVersion", optionalText(current["CurrentVersion"]),
		"WindowsEditionId", optionalText(current["EditionID"]),
		"WindowsInstallationType", optionalText(current["InstallationType"]),
		"WindowsProductId", optionalText(current["ProductId"]),
		"WindowsProductName", optionalText(product),
		"WindowsRegisteredOwner", optionalText(current["RegisteredOwner"]),
		"WindowsSystemRoot", optionalText(current["SystemRoot"]),
		"WindowsVersion", optionalText(current["ReleaseId"]),
		"OSDisplayVersion", optionalText(current["DisplayVersion"]),
		"CsDNSHostName", s.Hostname(),
		"CsDomain", "WORKGROUP",
		"CsName", strings.ToUpper(s.Hostname()),
		"CsNumberOfLogicalProcessors", i32(s.ProcessorCount()),
		"CsPartOfDomain", false,
		"CsPhyicallyInstalledMemory", total/1024, // the original's spelling
		"CsTotalPhysicalMemory", total,
		"CsUserName", nil,
		"CsWorkgroup", "WORKGROUP",
		"OsName", osName,
		"OsType", "WINNT",
		"OsVersion", version,
		"OsBuildNumber", buildOf(version),
		"OsArchitecture", "64-bit",
		"OsLocalDateTime", value.DateTime{Time: now},
		"OsLastBootUpTime", value.DateTime{Time: boot},
		"OsUptime", value.TimeSpan(now.Sub(boot)),
		"OsNumberOfProcesses", i32(processCount(c)),
		"OsTotalVisibleMemorySize", total/1024,
		"OsFreePhysicalMemory", free/1024,
		"OsLocale", "en-US",
		"OsLanguage", "en-US",
		"OsWindowsDirectory", optionalText(current["SystemRoot"]),
	), nil
}

func processCount(c *interp.Invocation) int {
	list, err := c.R.Handlers().System.Processes(c.R.Context())
	if err != nil {
		return 0
	}
	return len(list)
}

// optionalText converts an absent value to $null.
func optionalText(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// currentVersion returns the texts below the key CurrentVersion.
func currentVersion(r *interp.Runner) map[string]string {
	texts := map[string]string{}
	reg := r.Handlers().Registry
	if reg == nil {
		return texts
	}
	values, err := reg.Values(`HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion`)
	if err != nil {
		return texts // each of them is absent
	}
	for _, v := range values {
		if s, ok := v.Data.(string); ok {
			texts[v.Name] = s
		}
	}
	return texts
}
