// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/engine"
	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/winsys/cmdline"
)

// mainStatus is the name of the status file of a container's main program.
const mainStatus = "main"

// mainProcess returns the main process of a container: the pod's settings,
// completed from the image's configuration. It stores the settings that later
// commands need in the record.
func (s *Server) mainProcess(c *store.Container, sb store.Sandbox, img v1.Config) (oci.Process, error) {
	args, commandLine, err := command(c.Config, img)
	if err != nil {
		return oci.Process{}, err
	}
	p := engine.Program{
		Container:   c.ID,
		Args:        args,
		CommandLine: commandLine,
		Env:         environment(img.Env, c.Config.GetEnvs()),
		Dir:         cmp.Or(c.Config.GetWorkingDir(), img.WorkingDir),
		User:        userName(c.Config, sb.Config, img),
		Computer:    s.hostname(sb.Config),
		Status:      mainStatus,
	}
	if sb.HostProcess {
		p = s.cfg.HostProcesses.Main(p)
	} else {
		p.User = cmp.Or(p.User, s.cfg.Engine.DefaultUser())
	}
	c.User, c.Env, c.Dir, c.Command = p.User, p.Env, p.Dir, cmp.Or(commandLine, cmdline.Join(args))
	return s.process(p, sb.HostProcess, c.Config.GetTty()), nil
}

// process describes a program of a container.
func (s *Server) process(p engine.Program, host, terminal bool) oci.Process {
	var out oci.Process
	if host {
		out = s.cfg.HostProcesses.Process(p)
	} else {
		out = s.cfg.Engine.Process(p)
	}
	out.Terminal, out.OpenFiles = terminal, s.files
	return out
}

// command merges the pod's command and arguments with the image's, as
// containerd does (internal/cri/opts/spec_windows_opts.go, getArgs): a command
// of the pod replaces both, arguments alone replace the image's Cmd.
//
// An image whose ArgsEscaped is set has a whole command line as its first
// word, quoted as its author wants it (moby writes the shell form so). If that word
// is the first of the command, the program gets it untouched.
func command(c *runtime.ContainerConfig, img v1.Config) (args []string, commandLine string, err error) {
	entry, rest, ofImage := c.GetCommand(), c.GetArgs(), false
	if len(entry) == 0 {
		if len(rest) == 0 {
			rest = img.Cmd
			ofImage = len(img.Entrypoint) == 0 && len(rest) > 0
		}
		entry = img.Entrypoint
		ofImage = ofImage || len(entry) > 0
	}
	args = append(append([]string{}, entry...), rest...)
	if len(args) == 0 {
		return nil, "", invalid{errors.New("no command specified")}
	}
	if !img.ArgsEscaped || !ofImage { // deprecated in OCI, used by every image of docker build
		return args, "", nil
	}
	line := args[0]
	if len(args) > 1 {
		line += " " + cmdline.Join(args[1:])
	}
	return args, line, nil
}

// environment adds the pod's variables to the image's. Names that differ only
// in case are one variable on Windows; the last value counts.
func environment(image []string, pod []*runtime.KeyValue) []string {
	var out []string
	set := func(name, value string) {
		out = slices.DeleteFunc(out, func(e string) bool {
			have, _, _ := strings.Cut(e, "=")
			return strings.EqualFold(have, name)
		})
		out = append(out, name+"="+value)
	}
	for _, e := range image {
		if name, value, ok := strings.Cut(e, "="); ok && name != "" {
			set(name, value)
		}
	}
	for _, e := range pod {
		set(e.GetKey(), string(e.GetValue()))
	}
	return out
}

// userName returns the account that the pod or the image names, or "".
func userName(c *runtime.ContainerConfig, sb *runtime.PodSandboxConfig, img v1.Config) string {
	return cmp.Or(
		c.GetWindows().GetSecurityContext().GetRunAsUsername(),
		sb.GetWindows().GetSecurityContext().GetRunAsUsername(),
		img.User)
}

// checkUser refuses accounts that no image has. hcsshim reports it when the
// process with the command line is made.
func (s *Server) checkUser(id, command, user, computer string) error {
	if user != "" && !s.cfg.Engine.HasUser(user, computer) {
		return createProcessError(id, command, engine.ErrLogon)
	}
	return nil
}

// createProcessError returns hcsshim's error for a process that could not be made (internal/hcs/system.go,
// createProcess), as containerd passes it on.
func createProcessError(id, command string, err error) error {
	operation := "hcs::System::CreateProcess"
	if command != "" {
		operation += ": " + command
	}
	return fmt.Errorf("%s %s: %w: unknown", operation, id, err)
}
