// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/wine"
	"github.com/mullion-k8s/mullion/internal/wine/launch"
)

// mainStatus is the name of the status file of a container's main program.
const mainStatus = "main"

// mainProcess returns the main process of a container: the pod's settings,
// completed from the image's configuration. It stores in the record what later
// commands need too.
func (s *Server) mainProcess(c *store.Container, sb *runtime.PodSandboxConfig, img v1.Config) (oci.Process, error) {
	args, commandLine, err := command(c.Config, img)
	if err != nil {
		return oci.Process{}, err
	}
	c.User = userName(c.Config, sb, img)
	c.Env = environment(img.Env, c.Config.GetEnvs())
	if c.Dir = c.Config.GetWorkingDir(); c.Dir == "" {
		c.Dir = img.WorkingDir
	}
	p := s.cfg.Engine.Process(wine.Process{
		Args: args, CommandLine: commandLine, Env: c.Env, Dir: c.Dir, Status: mainStatus,
		Account: accountOf(*c, s.hostname(sb)), Computer: s.hostname(sb),
	})
	p.Terminal, p.OpenFiles = c.Config.GetTty(), s.files
	return p, nil
}

// command merges the pod's command and arguments with the image's, as
// containerd does (internal/cri/opts/spec_windows_opts.go, getArgs): a command
// of the pod replaces both, arguments alone replace the image's Cmd.
//
// An image whose ArgsEscaped is set has a whole command line as its first
// word, quoted as its author wants it (moby writes the shell form so). If that
// word is the first of what runs, the program gets it untouched.
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
		line += " " + launch.CommandLine(args[1:])
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

// userName returns the account that a container runs as: the pod's, the image's,
// or the default of Windows Server Core.
func userName(c *runtime.ContainerConfig, sb *runtime.PodSandboxConfig, img v1.Config) string {
	for _, u := range []string{
		c.GetWindows().GetSecurityContext().GetRunAsUsername(), sb.GetWindows().GetSecurityContext().GetRunAsUsername(),
		img.User,
	} {
		if u != "" {
			return u
		}
	}
	return defaultAccount().Name
}

func defaultAccount() wine.Account { return wine.Accounts()[0] }

// accountOf returns the account that a container runs as. The name of one that does
// not exist is only found out by the start, as on Windows (checkUser).
func accountOf(c store.Container, computer string) wine.Account {
	if a, ok := wine.FindAccount(c.User, computer); ok {
		return a
	}
	return defaultAccount()
}

// errLogon is Windows' text for ERROR_LOGON_FAILURE (0x8007052e), the Host
// Compute Service's error for an account that the image does not have.
var errLogon = errors.New("The user name or password is incorrect.") //nolint:staticcheck // Windows' own words

// checkUser refuses accounts that no image has. hcsshim reports it when the
// process is made (internal/hcs, hcs::System::CreateProcess).
func checkUser(id, user, computer string) error {
	if _, ok := wine.FindAccount(user, computer); !ok && user != "" {
		return fmt.Errorf("hcs::System::CreateProcess %s: %w: unknown", id, errLogon)
	}
	return nil
}
