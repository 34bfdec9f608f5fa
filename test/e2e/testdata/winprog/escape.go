// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"time"
	"unsafe"
)

// linux and linux32 are system calls of the kernel below Wine, which no
// Windows program knows of and any can make.
func linux(nr, a1, a2, a3, a4, a5, a6 uintptr) uintptr
func linux32(nr, a1 uintptr) uintptr

// Numbers of x86-64's system calls (arch/x86/entry/syscalls/syscall_64.tbl).
const (
	sysRead, sysWrite, sysOpen, sysClose, sysGetdents64      = 0, 1, 2, 3, 217
	sysMmap                                                  = 9
	sysSocket, sysConnect, sysGetuid, sysPtrace, sysSetns    = 41, 42, 102, 101, 308
	sysMount, sysUmount2, sysPivotRoot, sysChroot, sysMknod  = 165, 166, 155, 161, 133
	sysClone, sysUnshare, sysBPF, sysIoUringSetup, sysKeyctl = 56, 272, 321, 425, 250
	sysInitModule, sysKexecLoad, sysReboot, sysPerfEventOpen = 175, 246, 169, 298
	sysUserfaultfd, sysOpenByHandleAt, sysSethostname        = 323, 304, 170
	sysSettimeofday, sysIopl, sysSetuid, sysFsopen           = 164, 172, 105, 430
	sysMoveMount, sysOpenTree, sysProcessVMReadv, sysSwapon  = 429, 428, 310, 167
	sysClone3                                                = 435
)

// call makes a Linux system call and returns its result and error number.
func call(nr uintptr, args ...uintptr) (uintptr, int) {
	var a [6]uintptr
	copy(a[:], args)
	r := linux(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if r > ^uintptr(4095) {
		return 0, int(^r + 1)
	}
	return r, 0
}

// linuxMemory takes memory by system calls until it is ended. No function of Windows refuses that.
func linuxMemory() {
	const readWrite, privateAnonymousPopulate, size = 1 | 2, 0x2 | 0x20 | 0x8000, 16 << 20
	for {
		if _, errno := call(sysMmap, 0, size, readWrite, privateAnonymousPopulate, ^uintptr(0), 0); errno != 0 {
			say("mmap", "error %d", errno)
			return
		}
	}
}

func cstring(s string) (*byte, uintptr) {
	b := append([]byte(s), 0)
	return &b[0], uintptr(unsafe.Pointer(&b[0]))
}

// readLinux reads the start of a file by system calls only.
func readLinux(path string) (string, int) {
	keep, p := cstring(path)
	fd, errno := call(sysOpen, p, 0, 0)
	runtime.KeepAlive(keep)
	if errno != 0 {
		return "", errno
	}
	defer call(sysClose, fd)
	var out []byte
	buf := make([]byte, 4096)
	for len(out) < 1<<20 {
		n, errno := call(sysRead, fd, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
		if errno != 0 {
			return string(out), errno
		}
		if n == 0 {
			break
		}
		out = append(out, buf[:n]...)
	}
	return string(out), 0
}

func listLinux(path string) ([]string, int) {
	keep, p := cstring(path)
	fd, errno := call(sysOpen, p, 0x10000 /* O_DIRECTORY */, 0)
	runtime.KeepAlive(keep)
	if errno != 0 {
		return nil, errno
	}
	defer call(sysClose, fd)
	var names []string
	buf := make([]byte, 1<<15)
	for {
		n, errno := call(sysGetdents64, fd, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
		if errno != 0 || n == 0 {
			return names, errno
		}
		for b := buf[:n]; len(b) > 0; {
			size := binary.LittleEndian.Uint16(b[16:])
			name, _, _ := bytes.Cut(b[19:size], []byte{0})
			if s := string(name); s != "." && s != ".." {
				names = append(names, s)
			}
			b = b[size:]
		}
	}
}

// escape tries everything; args are "file=PATH" of the machine, "tcp=ADDRESS"
// and "unix=PATH" that must be out of reach. What it reaches is said with
// "ESCAPED".
func escape(args []string) {
	for _, a := range args {
		kind, target, _ := strings.Cut(a, "=")
		switch kind {
		case "file":
			files(target)
		case "tcp":
			tcp(target)
		case "unix":
			unixSocket(target)
		}
	}
	identity()
	surroundings()
	calls()
	say("done", "all tried")
}

// files tries every way to a file of the machine.
func files(path string) {
	windows := strings.ReplaceAll(path, "/", `\`)
	for _, p := range []string{
		`Z:` + windows, `\\?\Z:` + windows, `\\?\unix` + path, `\\?\unix` + windows, `\\.\unix` + path,
		`\\.\unix` + windows,
		`\??\unix` + path, `C:\..\..` + windows, `C:\..\..\..\..\..` + windows, `\\?\C:\..\..` + windows,
		`\\localhost\unix` + windows,
		`\\?\GLOBALROOT\??\unix` + windows, `C:\.wine\dosdevices\c:\..\..\..` + windows, `C:\proc\1\root` + windows,
		`C:\proc\self\cwd\..\..\..\..` + windows, windows,
	} {
		if b, err := os.ReadFile(p); err == nil {
			say("ESCAPED", "%s has %q", p, head(string(b)))
		}
	}
	for _, p := range []string{
		path, "/.." + path, "/proc/1/root" + path, "/proc/self/root/.." + path, "/proc/1/root/../.." + path,
		"/proc/1/cwd/../../.." + path, "/proc/self/cwd/../../../../../.." + path, "/dev/../.." + path, "/node" + path,
		"/cache" + path, "/proc/2/root" + path,
	} {
		if b, errno := readLinux(p); errno == 0 {
			say("ESCAPED", "system call opens %s with %q", p, head(b))
		}
	}
}

func head(s string) string { return s[:min(len(s), 60)] }

func tcp(address string) {
	c, err := net.DialTimeout("tcp", address, 2*time.Second)
	if err == nil {
		c.Close()
		say("ESCAPED", "connected to %s", address)
	}
	// The same by system calls; the kernel's own time limit would be minutes,
	// so the socket is not blocking and is asked again.
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		say("address", "%v", err)
		return
	}
	fd, errno := call(sysSocket, 2, 1|0x800 /* SOCK_NONBLOCK */, 0)
	if errno != 0 {
		say("socket", "errno %d", errno)
		return
	}
	defer call(sysClose, fd)
	sa := make([]byte, 16)
	sa[0] = 2
	binary.BigEndian.PutUint16(sa[2:], ap.Port())
	ip := ap.Addr().As4()
	copy(sa[4:], ip[:])
	for range 10 {
		_, errno = call(sysConnect, fd, uintptr(unsafe.Pointer(&sa[0])), 16)
		if errno == 0 || errno == 106 /* EISCONN */ {
			say("ESCAPED", "system call connected to %s", address)
			return
		}
		if errno != 115 /* EINPROGRESS */ && errno != 114 /* EALREADY */ {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func unixSocket(path string) {
	for _, p := range []string{path, "\x00" + path} {
		fd, errno := call(sysSocket, 1, 1, 0)
		if errno != 0 {
			say("unix socket", "errno %d", errno)
			return
		}
		sa := make([]byte, 110)
		sa[0] = 1
		copy(sa[2:108], p)
		if _, errno := call(sysConnect, fd, uintptr(unsafe.Pointer(&sa[0])), uintptr(min(2+len(p), 108))); errno == 0 {
			say("ESCAPED", "connected to socket %q", p)
		}
		call(sysClose, fd)
	}
}

func identity() {
	uid, _ := call(sysGetuid)
	say("uid", "%d", uid)
	status, errno := readLinux("/proc/self/status")
	if errno != 0 {
		say("status", "errno %d", errno)
	}
	for l := range strings.SplitSeq(status, "\n") {
		for _, field := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"} {
			if v, ok := strings.CutPrefix(l, field+":"); ok {
				say(field, "%s", strings.TrimSpace(v))
			}
		}
	}
}

// surroundings tells what is to be seen.
func surroundings() {
	for _, dir := range []string{"/", "/etc", "/dev", "/sys", "/tmp", "/run", "/home", "/root", "/var"} {
		names, errno := listLinux(dir)
		say("list "+dir, "%d %q", errno, names)
	}
	names, _ := listLinux("/proc")
	for _, n := range names {
		if strings.Trim(n, "0123456789") == "" {
			cmdline, _ := readLinux("/proc/" + n + "/cmdline")
			say("process", "%s %q", n, strings.ReplaceAll(cmdline, "\x00", " "))
		}
	}
	for _, f := range []string{"/proc/self/mountinfo", "/proc/net/unix"} {
		content, errno := readLinux(f)
		say("file "+f, "%d", errno)
		for l := range strings.SplitSeq(strings.TrimSpace(content), "\n") {
			say(f, "%s", l)
		}
	}
	for c := 'A'; c <= 'Z'; c++ {
		if _, err := os.Stat(string(c) + `:\`); err == nil {
			say("drive", "%c", c)
		}
	}
}

// calls makes the system calls that lead out of containers.
func calls() {
	keepRoot, root := cstring("/")
	keepTmp, tmp := cstring("/var")
	keepFS, tmpfs := cstring("tmpfs")
	keepDev, dev := cstring("/dev/shm/disk")
	page := make([]byte, 4096)
	buf := uintptr(unsafe.Pointer(&page[0]))
	const newNS, newUser, newNet, newPID = 0x20000, 0x10000000, 0x40000000, 0x20000000
	keepProc, nsPath := cstring("/proc/1/ns/mnt")
	ns, nsErr := call(sysOpen, nsPath, 0, 0)
	if nsErr != 0 {
		ns = ^uintptr(0)
	}
	for _, tc := range []struct {
		name string
		nr   uintptr
		args []uintptr
	}{
		{"mount", sysMount, []uintptr{tmpfs, tmp, tmpfs, 0, 0}},
		{"mount bind", sysMount, []uintptr{root, tmp, 0, 4096, 0}},
		{"remount", sysMount, []uintptr{root, root, 0, 32, 0}},
		{"umount2", sysUmount2, []uintptr{root, 2}},
		{"fsopen", sysFsopen, []uintptr{tmpfs, 0}},
		{"open_tree", sysOpenTree, []uintptr{^uintptr(99), root, 1}},
		{"move_mount", sysMoveMount, []uintptr{^uintptr(99), root, ^uintptr(99), tmp, 0}},
		{"pivot_root", sysPivotRoot, []uintptr{root, tmp}},
		{"chroot", sysChroot, []uintptr{tmp}},
		{"setns", sysSetns, []uintptr{ns, 0}},
		{"unshare user", sysUnshare, []uintptr{newUser}},
		{"unshare mount", sysUnshare, []uintptr{newNS}},
		{"unshare net", sysUnshare, []uintptr{newNet}},
		{"clone user", sysClone, []uintptr{newUser | 17, 0}},
		{"clone pid", sysClone, []uintptr{newPID | 17, 0}},
		{"clone3", sysClone3, []uintptr{buf, 88}},
		{"mknod block", sysMknod, []uintptr{dev, 0o60666, 254 << 8}},
		{"mknod mem", sysMknod, []uintptr{dev, 0o20666, 1<<8 | 1}},
		{"ptrace outside", sysPtrace, []uintptr{16, 4194303, 0, 0}},
		{"process_vm_readv init", sysProcessVMReadv, []uintptr{1, buf, 0, buf, 0, 1}},
		{"bpf", sysBPF, []uintptr{5, buf, 120}},
		{"io_uring_setup", sysIoUringSetup, []uintptr{8, buf}},
		{"keyctl", sysKeyctl, []uintptr{0, ^uintptr(2), 1}},
		{"init_module", sysInitModule, []uintptr{buf, 4096, root}},
		{"kexec_load", sysKexecLoad, []uintptr{0, 0, 0, 0}},
		{"reboot", sysReboot, []uintptr{0, 0, 0, 0}}, // wrong magic: harmless even if it were let through
		{"perf_event_open", sysPerfEventOpen, []uintptr{buf, 0, ^uintptr(0), ^uintptr(0), 0}},
		{"userfaultfd", sysUserfaultfd, []uintptr{0}},
		{"open_by_handle_at", sysOpenByHandleAt, []uintptr{^uintptr(99), buf, 0}},
		{"sethostname", sysSethostname, []uintptr{root, 1}},
		{"settimeofday", sysSettimeofday, []uintptr{buf, 0}},
		{"iopl", sysIopl, []uintptr{3}},
		{"swapon", sysSwapon, []uintptr{dev, 0}},
		{"setuid 0", sysSetuid, []uintptr{0}},
		{"socket packet", sysSocket, []uintptr{17, 3, 0x300}},
		{"socket raw", sysSocket, []uintptr{2, 3, 1}},
		{"socket vsock", sysSocket, []uintptr{40, 1, 0}},
		{"socket alg", sysSocket, []uintptr{38, 5, 0}},
	} {
		r, errno := call(tc.nr, tc.args...)
		if strings.HasPrefix(tc.name, "clone ") && errno == 0 && r == 0 {
			call(60, 0) // the child that must not be
		}
		if errno == 0 && tc.name != "process_vm_readv init" { // of this container, and of the same user
			say("ESCAPED", "system call %s succeeded", tc.name)
		}
		say("call "+tc.name, "errno %d", errno)
	}
	for _, p := range []*byte{keepRoot, keepTmp, keepFS, keepDev, keepProc} {
		runtime.KeepAlive(p)
	}
	for _, f := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
		"/proc/sys/net/ipv4/ip_forward", "/proc/1/mem", "/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/nvme0n1",
		"/dev/kvm", "/dev/fuse", "/dev/net/tun", "/sys/fs/cgroup/release_agent", "/sys/kernel/uevent_helper",
		"/proc/kcore", "/proc/1/environ", "/etc/passwd-", "/.wine/system.reg-",
	} {
		keep, p := cstring(f)
		fd, errno := call(sysOpen, p, 1 /* O_WRONLY */, 0)
		runtime.KeepAlive(keep)
		if errno == 0 {
			call(sysClose, fd)
		}
		say("open for writing "+f, "errno %d", errno)
	}
}

// int80 enters the kernel by the 32-bit door, where the numbers differ; 24 is
// getuid there. A filter that knows of one door only would let it pass. The
// kernel ends the thread for it.
func int80() {
	say("trying", "32-bit system call")
	say("ESCAPED", "32-bit system call returned %d", int32(linux32(24, 0)))
}
