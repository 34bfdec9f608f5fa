// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"os"
	"runtime"
	"strings"
)

// hostEscape is what a HostProcess container tries, which may do what it likes
// with the emulated host, and nothing with the machine below it. args are as
// those of escape; "out=FILE" sends the observations to a file.
func hostEscape(args []string) {
	for _, a := range args {
		if name, ok := strings.CutPrefix(a, "out="); ok {
			f, err := os.Create(name)
			if err != nil {
				return
			}
			os.Stdout = f
		}
	}
	for _, a := range args {
		kind, target, _ := strings.Cut(a, "=")
		switch kind {
		case "file":
			files(target)
		case "unix":
			unixSocket(target)
		}
	}
	identity()
	// Directories of the container runtime, by its own calls and by wineserver's.
	for _, dir := range []string{"/node", "/run/cri", "/run/netns", "/run/machine", "/proc/1/root",
		"/proc/1/root/node"} {
		if names, errno := listLinux(dir); errno == 0 && len(names) > 0 {
			say("ESCAPED", "system call lists %s: %q", dir, names)
		}
		if entries, err := os.ReadDir(`\\?\unix` + strings.ReplaceAll(dir, "/", `\`)); err == nil && len(entries) > 0 {
			say("ESCAPED", "wineserver lists %s: %v", dir, entries)
		}
	}
	processes, _ := listLinux("/proc")
	for _, p := range processes {
		if strings.Trim(p, "0123456789") != "" {
			continue
		}
		for _, dir := range []string{"/proc/" + p + "/root/node/cri", "/proc/" + p + "/cwd/node/cri"} {
			if names, errno := listLinux(dir); errno == 0 {
				say("ESCAPED", "%s lists %q", dir, names)
			}
			if entries, err := os.ReadDir(`\\?\unix` + strings.ReplaceAll(dir, "/", `\`)); err == nil {
				say("ESCAPED", "wineserver lists %s: %v", dir, entries)
			}
		}
	}
	for _, name := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger",
		"/proc/1/mem", "/dev/mem", "/dev/kmsg", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs",
		"/sys/fs/cgroup/pids/release_agent", "/sys/kernel/uevent_helper", "/opt/mullion/mullion", "/usr/sbin/runc",
		"/usr/bin/nft", "/etc/ld.so.cache", "/run/boot.json",
	} {
		keep, p := cstring(name)
		fd, errno := call(sysOpen, p, 1 /* O_WRONLY */, 0)
		runtime.KeepAlive(keep)
		if errno == 0 {
			call(sysClose, fd)
			if name != "/run/boot.json" { // the null device there
				say("ESCAPED", "system call opens %s for writing", name)
			}
		}
		if f, err := os.OpenFile(`\\?\unix`+strings.ReplaceAll(name, "/", `\`), os.O_WRONLY, 0); err == nil {
			f.Close()
			if name != "/run/boot.json" {
				say("ESCAPED", "wineserver opens %s for writing", name)
			}
		}
	}
	for _, dir := range []string{"/opt/mullion", "/cache", "/usr", "/node", "/run/cri", "/proc/sys/kernel"} {
		name := `\\?\unix` + strings.ReplaceAll(dir, "/", `\`) + `\made-by-winprog`
		if f, err := os.Create(name); err == nil {
			f.Close()
			say("ESCAPED", "wineserver makes a file in %s", dir)
		}
	}
	hostCalls()
	say("done", "all tried")
}

// hostCalls makes the system calls that lead out, as the host's root.
func hostCalls() {
	keepRoot, root := cstring("/")
	keepTmp, tmp := cstring("/tmp")
	keepFS, tmpfs := cstring("tmpfs")
	keepDev, dev := cstring("/tmp/disk")
	const newNS, newUser = 0x20000, 0x10000000
	for _, tc := range []struct {
		name string
		nr   uintptr
		args []uintptr
	}{
		{"mount", sysMount, []uintptr{tmpfs, tmp, tmpfs, 0, 0}},
		{"remount", sysMount, []uintptr{root, root, 0, 32, 0}},
		{"umount2", sysUmount2, []uintptr{root, 2}},
		{"fsopen", sysFsopen, []uintptr{tmpfs, 0}},
		{"chroot", sysChroot, []uintptr{tmp}},
		{"unshare user", sysUnshare, []uintptr{newUser}},
		{"unshare mount", sysUnshare, []uintptr{newNS}},
		{"clone user", sysClone, []uintptr{newUser | 17, 0}},
		{"mknod block", sysMknod, []uintptr{dev, 0o60666, 254 << 8}},
		{"mknod mem", sysMknod, []uintptr{dev, 0o20666, 1<<8 | 1}},
		{"ptrace init", sysPtrace, []uintptr{16, 1, 0, 0}},
		{"bpf", sysBPF, []uintptr{5, 0, 120}},
		{"keyctl", sysKeyctl, []uintptr{0, ^uintptr(2), 1}},
		{"sethostname", sysSethostname, []uintptr{root, 1}},
		{"iopl", sysIopl, []uintptr{3}},
		{"socket packet", sysSocket, []uintptr{17, 3, 0x300}},
		{"socket raw", sysSocket, []uintptr{2, 3, 1}},
	} {
		r, errno := call(tc.nr, tc.args...)
		if strings.HasPrefix(tc.name, "clone ") && errno == 0 && r == 0 {
			call(60, 0) // the child that must not be
		}
		if errno == 0 {
			say("ESCAPED", "system call %s succeeded", tc.name)
		}
		say("call "+tc.name, "errno %d", errno)
	}
	for _, p := range []*byte{keepRoot, keepTmp, keepFS, keepDev} {
		runtime.KeepAlive(p)
	}
}
