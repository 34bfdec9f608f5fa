// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// systemCmdlets describe the machine.
func systemCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Get-CimInstance", Aliases: []string{"gcim"},
			Params: "ClassName@0 Filter Property[] Namespace Query KeyOnly?= ComputerName[]~",
			Fidelity: "Win32_OperatingSystem, Win32_ComputerSystem, Win32_Process and Win32_Service, with a few " +
				"properties; a filter is refused", Process: cimInstance},
		{Name: "Get-WmiObject", Aliases: []string{"gwmi"},
			Params:   "Class@0 Filter Property[]@1 Namespace Query List?~ ComputerName[]~",
			Fidelity: "as Get-CimInstance", Process: cimInstance},
		{Name: "Get-ExecutionPolicy", Params: "Scope@0 List?", Process: func(c *interp.Invocation) error {
			return c.Write("Bypass")
		}, Fidelity: "always Bypass: files have no signatures"},
		{Name: "Set-ExecutionPolicy", Params: "ExecutionPolicy@0= Scope@1= Force?=",
			Process: func(*interp.Invocation) error {
				return nil
			}, Fidelity: "no effect: the policy is always Bypass"},
	}
}

func cimInstance(c *interp.Invocation) error {
	s := c.R.Handlers().System
	if s == nil {
		return interp.NotImplemented(c.Cmd.Name)
	}
	if c.Has("Filter") || c.Has("Query") || c.Has("Namespace") {
		return interp.NotImplemented(c.Cmd.Name + " with a filter, a query or a namespace")
	}
	total, free := s.Memory()
	switch name := c.Str("ClassName", c.Str("Class", "")); lower(name) {
	case "win32_operatingsystem":
		v := s.OSVersion()
		return c.Write(
			asList(value.NewObject("Microsoft.Management.Infrastructure.CimInstance#root/cimv2/Win32_OperatingSystem",
				"Caption", "Microsoft Windows Server", "Version", v, "BuildNumber", buildOf(v), "OSArchitecture",
				"64-bit", "CSName", s.Hostname(), "TotalVisibleMemorySize", total/1024, "FreePhysicalMemory", free/1024,
				"LastBootUpTime", value.DateTime{Time: s.BootTime()}), "Caption", "Version", "BuildNumber", "CSName"))
	case "win32_computersystem":
		return c.Write(
			asList(value.NewObject("Microsoft.Management.Infrastructure.CimInstance#root/cimv2/Win32_ComputerSystem",
				"Name", s.Hostname(), "Domain", "WORKGROUP", "TotalPhysicalMemory", total, "NumberOfLogicalProcessors",
				i32(s.ProcessorCount()), "Manufacturer", "mullion", "Model", "emulated"),
				"Name", "Domain", "TotalPhysicalMemory"))
	case "win32_process":
		list, err := s.Processes(c.R.Context())
		if err != nil {
			return err
		}
		for _, p := range list {
			if err :=
				c.Write(show(value.NewObject("Microsoft.Management.Infrastructure.CimInstance#root/cimv2/Win32_Process",
					"ProcessId", i32(p.ID), "Name", p.Name, "ParentProcessId", i32(p.Parent), "ExecutablePath", p.Path,
					"WorkingSetSize", p.WorkingSet), "ProcessId", "Name", "WorkingSetSize")); err != nil {
				return err
			}
		}
		return nil
	case "win32_service":
		list, err := s.Services(c.R.Context())
		if err != nil {
			return err
		}
		for _, x := range list {
			if err :=
				c.Write(show(value.NewObject("Microsoft.Management.Infrastructure.CimInstance#root/cimv2/Win32_Service",
					"Name", x.Name, "StartMode", x.StartType, "State", x.Status), "Name", "StartMode",
					"State")); err != nil {
				return err
			}
		}
		return nil
	default:
		return interp.NotImplemented("the class " + name)
	}
}

func buildOf(version string) string {
	parts := strings.Split(version, ".")
	if len(parts) > 2 {
		return parts[2]
	}
	return ""
}
