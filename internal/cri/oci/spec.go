// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package oci

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Process describes the process that runs in a container.
type Process struct {
	Args     []string
	Env      []string
	Cwd      string // Unix path in the container
	UID, GID uint32
	Terminal bool
	// Host marks a program of the emulated host itself.
	Host bool
	// OpenFiles is RLIMIT_NOFILE; zero is DefaultOpenFiles. A runtime without
	// CAP_SYS_RESOURCE cannot give more than it has.
	OpenFiles uint64
}

// Mount mounts a file or directory of the host at a path in the container.
type Mount struct {
	Source      string // absolute path on the host
	Destination string // absolute Unix path in the container
	ReadOnly    bool
}

// Config holds everything that distinguishes one container from another.
type Config struct {
	ID       string
	Hostname string
	Rootfs   string // mounted root directory
	Process  Process
	// NetNS is the file of the pod's network namespace; empty shares the
	// host's.
	NetNS string
	// HostProcess shares all namespaces of the emulated host but its mounts.
	HostProcess bool
	Cgroup      string // path below the root of every cgroup hierarchy
	Mounts      []Mount
	Tmpfs       []Tmpfs
	Resources   Resources
	// Annotations are for people who look at the container with runc.
	Annotations map[string]string
}

// Tmpfs is a file system in memory; it counts against the container's memory.
type Tmpfs struct {
	Destination string
	Mode        string // octal, "1777"
	SizeBytes   int64
}

// specVersion is the version of the specification that runc 1.1 implements;
// newer fields are not used.
const specVersion = "1.0.2"

// DefaultOpenFiles is RLIMIT_NOFILE. wineserver keeps a descriptor for each open file
// of every process of the container; 65536 is four times the size of Windows' default
// handle table of a busy service and far below the machine's limit.
const DefaultOpenFiles = 65536

// oomScore makes the kernel take a container before the node's own programs
// when the machine runs out of memory. The range is -1000 to 1000 (proc(5)).
const oomScore = 500

// Spec describes the container for runc.
func Spec(c Config) *specs.Spec {
	adj := oomScore
	if c.HostProcess {
		c.Hostname = "" // there is no UTS namespace to set it in
	}
	return &specs.Spec{
		Version:     specVersion,
		Hostname:    c.Hostname,
		Root:        &specs.Root{Path: c.Rootfs},
		Process:     process(c.Process, &adj),
		Mounts:      mounts(c),
		Annotations: c.Annotations,
		Linux: &specs.Linux{
			CgroupsPath: c.Cgroup,
			Namespaces:  namespaces(c),
			Resources:   c.Resources.linux(),
			Seccomp:     seccomp(),
			MaskedPaths: []string{
				"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
				"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
				"/proc/swaps", "/proc/partitions", "/proc/diskstats", "/proc/modules",
			},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
			// With neither propagation nor a shared root, no mount of the
			// machine appears in a container later.
			RootfsPropagation: "private",
		},
	}
}

// ExecProcess describes another process in a running container, with the same
// restrictions as the first.
func ExecProcess(p Process) *specs.Process { return process(p, nil) }

func process(p Process, adj *int) *specs.Process {
	p.OpenFiles = cmp.Or(p.OpenFiles, DefaultOpenFiles)
	return &specs.Process{
		Terminal:        p.Terminal,
		User:            specs.User{UID: p.UID, GID: p.GID},
		Args:            p.Args,
		Env:             p.Env,
		Cwd:             p.Cwd,
		Capabilities:    capabilities(p.Host),
		NoNewPrivileges: true,
		OOMScoreAdj:     adj,
		Rlimits: []specs.POSIXRlimit{
			{Type: "RLIMIT_CORE", Hard: 0, Soft: 0},
			{Type: "RLIMIT_NOFILE", Hard: p.OpenFiles, Soft: p.OpenFiles},
		},
	}
}

// HostCapabilities returns the capabilities of the programs of an emulated host.
// They may use the files of all users, as Windows administrators do, and low
// ports. No capability lets them reach beyond their mounts. Programs of the host
// and of HostProcess containers must have the same set: wineserver reads the
// memory of both, and ptrace(2) allows that only if it has all capabilities of
// the process it reads.
func HostCapabilities() []string {
	return []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_NET_BIND_SERVICE"}
}

func capabilities(host bool) *specs.LinuxCapabilities {
	if !host {
		return &specs.LinuxCapabilities{}
	}
	list := HostCapabilities()
	return &specs.LinuxCapabilities{Bounding: list, Effective: list, Permitted: list}
}

func namespaces(c Config) []specs.LinuxNamespace {
	if c.HostProcess {
		return []specs.LinuxNamespace{{Type: specs.MountNamespace}}
	}
	ns := []specs.LinuxNamespace{
		{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.IPCNamespace},
		{Type: specs.UTSNamespace}, {Type: specs.CgroupNamespace},
	}
	if c.NetNS != "" {
		ns = append(ns, specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: c.NetNS})
	}
	return ns
}

// mounts lists the file systems of the container in the order in which they
// are mounted: those nearer to the root first.
func mounts(c Config) []specs.Mount {
	out := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "noexec", "strictatime",
			"mode=755", "size=64k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance",
			"ptmxmode=0666", "mode=0620"}},
		// Wine maps shared memory sections from here.
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm",
			Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=67108864"}},
	}
	var own []specs.Mount
	for _, t := range c.Tmpfs {
		own = append(own, specs.Mount{
			Destination: t.Destination, Type: "tmpfs", Source: "tmpfs",
			Options: []string{"nosuid", "nodev", "mode=" + t.Mode, "size=" + strconv.FormatInt(t.SizeBytes, 10)},
		})
	}
	for _, m := range c.Mounts {
		options := []string{"rbind", "rprivate", "nosuid", "nodev", "rw"}
		if m.ReadOnly {
			options[len(options)-1] = "ro"
		}
		own = append(own, specs.Mount{Destination: m.Destination, Type: "bind", Source: m.Source, Options: options})
	}
	slices.SortStableFunc(own, func(a, b specs.Mount) int {
		return strings.Count(a.Destination, "/") - strings.Count(b.Destination, "/")
	})
	return append(out, own...)
}
