// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package hostprocess runs HostProcess containers: programs of the emulated host
// itself, which see its drive C, network and processes. It does the work of hcsshim
// on Windows (internal/jobcontainers of github.com/Microsoft/hcsshim v0.13.0) on a
// host that can bind files, which all supported builds can: the image's files are
// at C:\hpc.
//
// The CRI server mounts the image and runs the container. It calls this package
// through its interface HostProcesses.
package hostprocess

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/mullion-k8s/mullion/internal/cri/engine"
	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/wine"
)

// Host is an emulated host that runs HostProcess containers.
type Host struct {
	// Wine has the host's runtime and prefix.
	Wine wine.Host
	// Drive is the directory that is drive C.
	Drive string
	// Computer is the host's computer name.
	Computer string
	// Views is a directory for the containers' views of drive C. Mounts there must
	// show, at the same path, where the host's wineserver runs: it opens the files.
	Views string
	// Sockets is the directory in which the wineserver has its socket.
	Sockets string
	// Shared are files and directories of the host that its programs need, beside
	// the above; they are shown read-only at the same paths.
	Shared []string
}

const (
	// imageRoot is where a container sees the image's files.
	imageRoot = `C:\hpc`
	// mountPointVariable holds imageRoot with a backslash at its end.
	mountPointVariable = "CONTAINER_SANDBOX_MOUNT_POINT"
	// hostPath is Path of a Windows Server.
	hostPath = `C:\Windows\system32;C:\Windows;C:\Windows\System32\Wbem;C:\Windows\System32\WindowsPowerShell\v1.0`
	// hcsshim adds searchPath to it.
	searchPath = imageRoot + `\;C:\WINDOWS\System32\WindowsPowerShell\v1.0\;C:\WINDOWS\System32\Wbem`
)

// Main completes the main program of a container: its variables, and the place of
// the image's files in its directory. Programs that join the container later have
// the same.
func (h *Host) Main(p engine.Program) engine.Program {
	p.Env = environment(p.Env)
	p.Dir = withMountPoint(cmp.Or(p.Dir, imageRoot))
	return p
}

// withPlaces puts the place of the image's files into a program's arguments. hcsshim
// does so for each program of a container (jobcontainer.go, CreateProcess).
func withPlaces(p engine.Program) engine.Program {
	p.CommandLine = withMountPoint(p.CommandLine)
	args := make([]string, len(p.Args))
	for i, a := range p.Args {
		args[i] = withMountPoint(a)
	}
	p.Args = args
	return p
}

// Process describes the Linux process that runs a program of a container.
func (h *Host) Process(p engine.Program) oci.Process {
	p = withPlaces(p)
	// One that cannot log on is refused by the start (LogOn).
	a, _ := account(p.User, p.Container, h.groups())
	host := h.Wine
	host.Prefix = h.view(p.Container)
	argv, env, cwd := host.Process(wine.Process{
		Args:        p.Args,
		CommandLine: p.CommandLine,
		Env:         p.Env,
		Dir:         p.Dir,
		Status:      p.Status,
		Account:     a,
		Computer:    h.Computer,
		Exec:        p.Exec,
	})
	return oci.Process{Args: argv, Env: env, Cwd: cwd, GID: a.GID, Host: true}
}

// withMountPoint replaces the variable as hcsshim does, which supports two
// spellings (replaceWithMountPoint).
func withMountPoint(s string) string {
	return strings.NewReplacer("%"+mountPointVariable+"%", imageRoot, "$env:"+mountPointVariable, imageRoot).Replace(s)
}

// environment puts the place of the image's files into the values of all variables, and
// adds the same variables as hcsshim: that place, and directories to search.
func environment(env []string) []string {
	search := hostPath
	var out []string
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		value = withMountPoint(value)
		if strings.EqualFold(name, "PATH") {
			search = value
			continue
		}
		out = append(out, name+"="+value)
	}
	return append(out, "Path="+strings.TrimSuffix(search, ";")+";"+searchPath, mountPointVariable+"="+imageRoot+`\`)
}

// tmpBytes bounds the files of Wine's Unix side in /tmp: a cache of fonts.
const tmpBytes = 16 << 20

// Spec describes the isolation of a container. It shares the namespaces of the
// host but for the mounts: the programs see drive C and the parts of Linux that
// Wine needs, but not the container runtime.
func (h *Host) Spec(c engine.HostContainer) oci.Config {
	view := h.view(c.ID)
	spec := oci.Config{
		Rootfs:      c.Root,
		HostProcess: true,
		Tmpfs:       []oci.Tmpfs{{Destination: "/tmp", Mode: "1777", SizeBytes: tmpBytes}},
		Mounts: []oci.Mount{
			{Source: h.Wine.Runtime, Destination: h.Wine.Runtime, ReadOnly: true},
			{Source: view, Destination: view},
			{Source: h.Sockets, Destination: h.Sockets},
			{Source: c.Status, Destination: wine.StatusDir},
		},
	}
	for _, p := range h.Shared {
		if _, err := os.Stat(p); err == nil {
			spec.Mounts = append(spec.Mounts, oci.Mount{Source: p, Destination: p, ReadOnly: true})
		}
	}
	return spec
}

// view returns the prefix of a container, as all see it.
func (h *Host) view(id string) string { return path.Join(h.Views, id) }

// driveOf returns drive C of a view.
func driveOf(view string) string { return filepath.Join(view, "drive_c") }
