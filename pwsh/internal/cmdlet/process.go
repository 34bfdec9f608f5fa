// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"sort"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/dotnet"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

func system(c *interp.Invocation) (host.System, error) {
	if s := c.R.Handlers().System; s != nil {
		return s, nil
	}
	return nil, interp.NotImplemented(c.Cmd.Name)
}

func noProcessNamed(name string) error {
	return interp.Failf("Microsoft.PowerShell.Commands.ProcessCommandException", "NoProcessFoundForGivenName",
		"ObjectNotFound", name, "Cannot find a process with the name \"%s\". Verify the process name and call the "+
			"cmdlet again.", name)
}

func noProcessWithID(id any) error {
	return interp.Failf("Microsoft.PowerShell.Commands.ProcessCommandException", "NoProcessFoundForGivenId",
		"ObjectNotFound", id, "Cannot find a process with the process identifier %s.", value.String(id))
}

// findProcesses returns the processes that -Name, -Id or the pipeline name.
func findProcesses(c *interp.Invocation) ([]host.ProcessInfo, error) {
	s, err := system(c)
	if err != nil {
		return nil, err
	}
	all, err := s.Processes(c.R.Context())
	if err != nil {
		return nil, err
	}
	ids := c.Items("Id")
	wanted := c.Strs("Name")
	if c.HasItem && len(wanted) == 0 && ids == nil {
		if v, ok := c.R.HasProperty(c.Item, "Id"); ok {
			ids = []any{v}
		}
	}
	var out []host.ProcessInfo
	for _, id := range ids {
		n, err := value.ToInt(id)
		if err != nil {
			return nil, err
		}
		found := false
		for _, p := range all {
			if p.ID == n {
				out, found = append(out, p), true
			}
		}
		if !found {
			if err := c.Error(noProcessWithID(id)); err != nil {
				return nil, err
			}
		}
	}
	for _, n := range wanted {
		found := false
		for _, p := range all {
			if value.Like(p.Name, strings.TrimSuffix(lower(n), ".exe"), false) {
				out, found = append(out, p), true
			}
		}
		if !found && !value.HasWildcard(n) {
			if err := c.Error(noProcessNamed(n)); err != nil {
				return nil, err
			}
		}
	}
	if ids == nil && wanted == nil {
		out = all
	}
	sort.SliceStable(out, func(i, j int) bool { return lower(out[i].Name) < lower(out[j].Name) })
	return out, nil
}

// processCmdlets work on processes.
func processCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Get-Process", Aliases: []string{"gps", "ps"},
			Params: "Name|ProcessName[]@0. Id|PID:any[]. ComputerName|Cn[]~ Module?~ FileVersionInfo?~ " +
				"IncludeUserName?~ InputObject:any<",
			Fidelity: "handles are not counted; the memory sizes beside WS are absent",
			Process: func(c *interp.Invocation) error {
				list, err := findProcesses(c)
				if err != nil {
					return err
				}
				for _, p := range list {
					if err := c.Write(dotnet.ProcessObject(p)); err != nil {
						return err
					}
				}
				return nil
			}},
		{Name: "Stop-Process", Aliases: []string{"kill", "spps"},
			Params: "Id:any[]@0. Name|ProcessName[] InputObject:any< Force? PassThru?",
			Process: func(c *interp.Invocation) error {
				list, err := findProcesses(c)
				if err != nil {
					return err
				}
				s, err := system(c)
				if err != nil {
					return err
				}
				if !c.Has("Id") && !c.Has("Name") && !c.HasItem {
					return badArgument("Id", "Cannot process command because of one or more missing mandatory "+
						"parameters: Id.")
				}
				for _, p := range list {
					ok, err := c.ShouldProcess(p.Name+" ("+value.String(i32(p.ID))+")", "Stop-Process")
					if err != nil {
						return err
					}
					if !ok {
						continue
					}
					if err := s.Kill(c.R.Context(), p.ID); err != nil {
						if err := c.Error(interp.Failf("Microsoft.PowerShell.Commands.ProcessCommandException",
							"CouldNotStopProcess", "CloseError", p.ID,
							"Cannot stop process \"%s (%d)\" because of the following error: %s", p.Name, p.ID,
							err.Error())); err != nil {
							return err
						}
					}
				}
				return nil
			}},
		{Name: "Start-Process", Aliases: []string{"start", "saps"},
			Params: "FilePath|PSPath|Path@0! ArgumentList|Args:any@1 WorkingDirectory Wait? NoNewWindow|nnw? " +
				"PassThru? WindowStyle= RedirectStandardOutput|RSO RedirectStandardError|RSE " +
				"RedirectStandardInput|RSI Verb Credential:any UseNewEnvironment?~",
			Fidelity: "-RedirectStandardOutput, -RedirectStandardError, -RedirectStandardInput and -Verb are refused",
			Process:  startProcess},
	}
}

func startProcess(c *interp.Invocation) error {
	for _, p := range []string{"RedirectStandardOutput", "RedirectStandardError", "RedirectStandardInput", "Verb",
		"Credential"} {
		if c.Has(p) {
			return interp.NotImplemented("Start-Process -" + p)
		}
	}
	name := c.Str("FilePath", "")
	path, ok := c.R.FindProgram(name)
	if !ok || c.R.Handlers().Exec == nil {
		return interp.Failf("System.InvalidOperationException", "InvalidOperationException", "InvalidOperation", nil,
			"This command cannot be run due to the error: The system cannot find the file specified.")
	}
	var args []string
	if items, ok := value.Items(c.Any("ArgumentList")); ok {
		for _, x := range items {
			args = append(args, strings.Fields(c.R.Text(x))...)
		}
	} else if v := c.Any("ArgumentList"); v != nil {
		args = strings.Fields(c.R.Text(v)) // joined and split again, as Windows' command line is
	}
	dir := c.R.Location
	if d := c.Str("WorkingDirectory", ""); d != "" {
		dir = c.R.Path(d)
	}
	h := c.R.Handlers()
	exit, err := h.Exec(c.R.Context(), host.Process{
		Path:   path,
		Args:   args,
		Dir:    dir,
		Stdout: h.Stdout,
		Stderr: h.Stderr,
		Detach: !c.Switch("Wait"),
	})
	if err != nil {
		return interp.Failf("System.InvalidOperationException", "InvalidOperationException", "InvalidOperation", nil,
			"This command cannot be run due to the error: %s.", err.Error())
	}
	if !c.Switch("PassThru") {
		return nil
	}
	if c.Switch("Wait") {
		o := dotnet.ProcessObject(host.ProcessInfo{Name: strings.TrimSuffix(interp.LeafPath(path), ".exe")})
		o.Set("ExitCode", i32(exit))
		o.Set("HasExited", true)
		return c.Write(o)
	}
	return c.Write(
		dotnet.ProcessObject(host.ProcessInfo{ID: exit, Name: strings.TrimSuffix(interp.LeafPath(path), ".exe")}))
}

func serviceObject(s host.ServiceInfo) *value.Object {
	o := value.NewObject("System.ServiceProcess.ServiceController", "Status", s.Status, "Name", s.Name, "DisplayName",
		s.DisplayName, "ServiceName", s.Name, "StartType", s.StartType, "CanStop", s.Status == "Running",
		"MachineName", ".")
	o.Str = s.Name
	return show(o, "Status", "Name", "DisplayName")
}

// serviceCmdlets work on Windows services.
func serviceCmdlets() []*interp.Cmdlet {
	control := func(name, verb, done string) *interp.Cmdlet {
		return &interp.Cmdlet{Name: name, Params: "Name|ServiceName[]@0.< Force?= PassThru?~ NoWait?~ DisplayName[]~ " +
			"InputObject:any~", Process: func(c *interp.Invocation) error {
			s, err := system(c)
			if err != nil {
				return err
			}
			return eachService(c, s, c.Strs("Name"), func(x host.ServiceInfo) error {
				label := x.DisplayName + " (" + x.Name + ")"
				if ok, err := c.ShouldProcess(label, name); err != nil || !ok {
					return err
				}
				if err := s.ControlService(c.R.Context(), x.Name, verb); err != nil {
					return c.Error(interp.Failf("Microsoft.PowerShell.Commands.ServiceCommandException",
						"CouldNot"+strings.ReplaceAll(name, "-", ""), "OpenError", x.Name,
						"Service '%s' cannot be %s due to the following error: %s", label, done, err.Error()))
				}
				return nil
			})
		}}
	}
	return []*interp.Cmdlet{
		{Name: "Get-Service", Aliases: []string{"gsv"},
			Params: "Name|ServiceName[]@0.< DisplayName[] ComputerName|Cn[]~ DependentServices?~ RequiredServices?~ " +
				"Include[]~ Exclude[]~ InputObject:any~", Process: func(c *interp.Invocation) error {
				s, err := system(c)
				if err != nil {
					return err
				}
				wanted := c.Strs("Name")
				if wanted == nil {
					wanted = []string{"*"}
				}
				return eachService(c, s, wanted, func(x host.ServiceInfo) error {
					if !matches(c.Strs("DisplayName"), x.DisplayName) {
						return nil
					}
					return c.Write(serviceObject(x))
				})
			}},
		control("Start-Service", "start", "started"), control("Stop-Service", "stop", "stopped"),
		control("Restart-Service", "restart", "restarted"),
	}
}

// eachService calls f for the services that the names and wildcards match,
// sorted by name. A name without a service is a non-terminating error.
func eachService(c *interp.Invocation, s host.System, names []string, f func(host.ServiceInfo) error) error {
	all, err := s.Services(c.R.Context())
	if err != nil {
		return interp.Failf("System.InvalidOperationException", "GetServiceCommand", "OpenError", nil,
			"Cannot open Service Control Manager: %s.", err.Error())
	}
	sort.Slice(all, func(i, j int) bool { return lower(all[i].Name) < lower(all[j].Name) })
	for _, n := range names {
		found := false
		for _, x := range all {
			if !value.Like(x.Name, n, false) {
				continue
			}
			found = true
			if err := f(x); err != nil {
				return err
			}
		}
		if !found && !value.HasWildcard(n) {
			if err := c.Error(interp.Failf("Microsoft.PowerShell.Commands.ServiceCommandException",
				"NoServiceFoundForGivenName", "ObjectNotFound", n, "Cannot find any service with service name '%s'.",
				n)); err != nil {
				return err
			}
		}
	}
	return nil
}
