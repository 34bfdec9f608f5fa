// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/wine"
)

// HostProcesses configures how programs run on the emulated host itself.
type HostProcesses struct {
	// Wine has the host's runtime and prefix.
	Wine wine.Host
	// Views is a directory for the containers' views of drive C. What is mounted
	// there must show, at the same path, where the host's wineserver runs: it opens
	// the files.
	Views string
	// Sockets is the directory in which the wineserver has its socket.
	Sockets string
	// Shared are files and directories of the host that its programs need, beside
	// the above; they are shown read-only at the same paths.
	Shared []string
}

// What hcsshim does with HostProcess containers: internal/jobcontainers of
// github.com/Microsoft/hcsshim v0.13.0. Where a host can bind files, which all
// supported builds can, the image's files are at imageRoot.
const (
	imageRoot     = `C:\hpc`
	imageRootName = "hpc"
	// mountPointVariable holds imageRoot with a backslash at its end.
	mountPointVariable = "CONTAINER_SANDBOX_MOUNT_POINT"
	// userNameLimit is winapi.UserNameCharLimit.
	userNameLimit = 20
)

// Words of hcsshim's logon.go.
var (
	errNoUser = errors.New("failed to create user process token: empty username or group name passed")
	errPipe   = errors.New("named pipe mounts not supported for job containers - interact with the pipe directly")
)

// hostProcessUser returns the name that hcsshim gets: the pod's setting, or else the
// image's user, which is rarely an account of the host.
func hostProcessUser(c *runtime.ContainerConfig, sb *runtime.PodSandboxConfig, img v1.Config) string {
	return cmp.Or(c.GetWindows().GetSecurityContext().GetRunAsUsername(),
		sb.GetWindows().GetSecurityContext().GetRunAsUsername(), img.User)
}

// hostAccount finds the account that a HostProcess container logs on as; see
// processToken of hcsshim. groups are the local groups of the host.
func hostAccount(user, id string, groups []string) (wine.Account, error) {
	if user == "" {
		return wine.Account{}, errNoUser
	}
	if i := slices.IndexFunc(groups, func(g string) bool { return strings.EqualFold(g, user) }); i >= 0 {
		return wine.LocalUser(id[:min(userNameLimit, len(id))], strings.EqualFold(groups[i], "Administrators")), nil
	}
	parts := strings.Split(user, `\`)
	if len(parts) > 2 {
		return wine.Account{}, fmt.Errorf("failed to create user process token: invalid user string `%s`", user)
	}
	// hcsshim compares the authority as it is written to choose the logon of a
	// service; anything else is an interactive logon, for which it has no password.
	if len(parts) == 2 && parts[0] == "NT AUTHORITY" {
		if a, ok := wine.FindAccount(user, ""); ok {
			return a, nil
		}
	}
	return wine.Account{}, fmt.Errorf("failed to create user process token: failed to logon user: %w", errLogon)
}

// builtinGroups returns the local groups of every Windows Server:
// learn.microsoft.com, "Local accounts".
func builtinGroups() []string {
	return []string{
		"Administrators", "Backup Operators", "Distributed COM Users", "Event Log Readers", "Guests",
		"Hyper-V Administrators", "Network Configuration Operators", "Performance Log Users",
		"Performance Monitor Users", "Power Users", "Remote Desktop Users", "Remote Management Users",
		"Replicator", "Users",
	}
}

// accountsFile is where the stand-ins' net.exe keeps accounts.
const accountsFile = "ProgramData/mullion/accounts.json"

// maxAccountsBytes is far above what net.exe writes.
const maxAccountsBytes = 1 << 20

// hostGroups returns the local groups of the host. What net.exe wrote is a
// container's to write.
func (s *Server) hostGroups() []string {
	groups := builtinGroups()
	root, err := os.OpenRoot(s.cfg.Drive)
	if err != nil {
		return groups
	}
	defer func() { _ = root.Close() }() // opened for look-ups
	f, err := root.Open(accountsFile)
	if err != nil {
		return groups // none was created
	}
	defer func() { _ = f.Close() }() // opened for reading
	var accounts struct {
		Groups map[string][]string `json:"groups"`
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return groups
	}
	if err := json.NewDecoder(io.LimitReader(f, maxAccountsBytes)).Decode(&accounts); err != nil {
		return groups
	}
	for name := range accounts.Groups {
		groups = append(groups, name)
	}
	return groups
}

// hostProcess returns the main process of a HostProcess container, as
// mainProcess does for others.
func (s *Server) hostProcess(c *store.Container, sb *runtime.PodSandboxConfig, img v1.Config) (oci.Process, error) {
	args, commandLine, err := command(c.Config, img)
	if err != nil {
		return oci.Process{}, err
	}
	c.User = hostProcessUser(c.Config, sb, img)
	c.Env = hostEnvironment(environment(img.Env, c.Config.GetEnvs()))
	c.Dir = withMountPoint(cmp.Or(c.Config.GetWorkingDir(), img.WorkingDir, imageRoot))
	for i := range args {
		args[i] = withMountPoint(args[i])
	}
	return s.hostProgram(*c, wine.Process{Args: args, CommandLine: withMountPoint(commandLine), Status: mainStatus},
		c.Config.GetTty()), nil
}

// hostProgram completes a program of a HostProcess container.
func (s *Server) hostProgram(c store.Container, p wine.Process, terminal bool) oci.Process {
	p.Env, p.Dir, p.Computer = c.Env, c.Dir, s.cfg.Hostname
	// One that cannot log on is refused by the start.
	p.Account, _ = hostAccount(c.User, c.ID, s.hostGroups())
	h := s.cfg.HostProcesses.Wine
	h.Prefix = s.view(c.ID)
	argv, env, cwd := h.Process(p)
	return oci.Process{
		Args:      argv,
		Env:       env,
		Cwd:       cwd,
		GID:       p.Account.GID,
		Host:      true,
		Terminal:  terminal,
		OpenFiles: s.files,
	}
}

// withMountPoint replaces the variable as hcsshim does, which knows two
// spellings (replaceWithMountPoint).
func withMountPoint(s string) string {
	return strings.NewReplacer("%"+mountPointVariable+"%", imageRoot, "$env:"+mountPointVariable, imageRoot).Replace(s)
}

// hostEnvironment adds what hcsshim adds: the place of the image's files, and
// directories to search.
func hostEnvironment(env []string) []string {
	search := hostPath
	var out []string
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if strings.EqualFold(name, "PATH") {
			search = value
			continue
		}
		out = append(out, name+"="+withMountPoint(value))
	}
	search = strings.TrimSuffix(search, ";") + `;` + imageRoot +
		`\;C:\WINDOWS\System32\WindowsPowerShell\v1.0\;C:\WINDOWS\System32\Wbem`
	return append(out, "Path="+search, mountPointVariable+"="+imageRoot+`\`)
}

// hostPath is Path of a Windows Server.
const hostPath = `C:\Windows\system32;C:\Windows;C:\Windows\System32\Wbem;C:\Windows\System32\WindowsPowerShell\v1.0`

// hostSpec describes a HostProcess container. It shares the namespaces of the
// host but for the mounts: the programs see drive C and what Wine needs of Linux,
// and nothing of the container runtime.
func (s *Server) hostSpec(c *store.Container, process oci.Process) oci.Config {
	h := s.cfg.HostProcesses
	spec := oci.Config{
		ID:          c.ID,
		Rootfs:      s.dir(c.ID, linuxRootDir),
		Process:     process,
		HostProcess: true,
		Cgroup:      s.containerCgroup(c.SandboxID, c.ID).Path(),
		Resources:   s.resources(c.Config.GetWindows().GetResources()),
		Tmpfs:       []oci.Tmpfs{{Destination: "/tmp", Mode: "1777", SizeBytes: hostTmpBytes}},
		Mounts: []oci.Mount{
			{Source: h.Wine.Runtime, Destination: h.Wine.Runtime, ReadOnly: true},
			{Source: s.view(c.ID), Destination: s.view(c.ID)},
			{Source: h.Sockets, Destination: h.Sockets},
			{Source: s.dir(c.ID, statusDir), Destination: wine.StatusDir},
		},
	}
	for _, p := range h.Shared {
		if _, err := os.Stat(p); err == nil {
			spec.Mounts = append(spec.Mounts, oci.Mount{Source: p, Destination: p, ReadOnly: true})
		}
	}
	return spec
}

// hostTmpBytes bounds what Wine's Unix side keeps in /tmp: a cache of fonts.
const hostTmpBytes = 16 << 20

// view returns the prefix of a HostProcess container, as all see it.
func (s *Server) view(id string) string {
	if s.cfg.HostProcesses == nil {
		return ""
	}
	return path.Join(s.cfg.HostProcesses.Views, id)
}
