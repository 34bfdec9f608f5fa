// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Confine executes a program of an emulated host, wineserver or any that talks
// to it, with the rights of the host's Windows side. It returns only if it fails.
//
// HostProcess containers control every Windows program of the host: they can start
// services, put other DLLs into the system's directory, and make wineserver open
// any file. So these programs may not have a way out of the emulated host that the
// container runtime, which has all rights of root, would leave open: its directory,
// its state and the kernel's own settings are out of sight, no capability is left
// that leads out, and the system calls that would make namespaces and mounts are
// refused.
//
// Preconditions: the process is root in a mount namespace of the host.
func Confine(argv, env []string) error {
	if len(argv) == 0 {
		return errors.New("confine: no program given")
	}
	// Namespaces, capabilities and filters are a thread's; the thread that
	// executes a program gives its own to it.
	runtime.LockOSThread()
	if err := blockAlarm(); err != nil {
		return fmt.Errorf("confine: %w", err)
	}
	if err := hide(); err != nil {
		return fmt.Errorf("confine: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("confine: %w", err)
	}
	if err := filterCalls(); err != nil {
		return fmt.Errorf("confine: %w", err)
	}
	return fmt.Errorf("confine: execute %s: %w", argv[0], unix.Exec(argv[0], argv, env))
}

// concealed are directories and files that the Windows side has no business
// with: the host's directory on the machine with containers, images and HNS,
// runc's state, network namespaces, the machine's name servers, and the kernel's
// information about the machine. Missing ones are made, so that a later one is
// hidden too.
func concealed() (dirs, files []string) {
	return []string{"/node", "/run/cri", "/run/netns", "/run/machine", "/proc/acpi", "/proc/scsi"},
		[]string{"/run/boot.json", "/proc/kcore", "/proc/keys", "/proc/sysrq-trigger", "/proc/timer_list",
			"/proc/sched_debug"}
}

// fixed stay readable.
func fixed() []string {
	return []string{"/proc/sys", "/proc/bus", "/proc/fs", "/proc/irq", "/sys"}
}

func hide() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make mount namespace: %w", err)
	}
	// Later mounts of the host, for HostProcess containers, show here; mounts made
	// here do not show there.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("separate mounts: %w", err)
	}
	dirs, files := concealed()
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o700); err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
				continue // of a kernel without it
			}
			return fmt.Errorf("hide %s: %w", d, err)
		}
		if err := unix.Mount("tmpfs", d, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
			"size=0"); err != nil {
			return fmt.Errorf("hide %s: %w", d, err)
		}
	}
	for _, f := range files {
		err := unix.Mount("/dev/null", f, "", unix.MS_BIND, "")
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("hide %s: %w", f, err)
		}
	}
	for _, d := range fixed() {
		err := unix.Mount(d, d, "", unix.MS_BIND|unix.MS_REC, "")
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err == nil {
			// MS_REMOUNT would leave mounts below writable (mount_setattr(2), Linux
			// 5.12).
			err = unix.MountSetattr(unix.AT_FDCWD, d, unix.AT_RECURSIVE,
				&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
		}
		if err != nil {
			return fmt.Errorf("fix %s: %w", d, err)
		}
	}
	return nil
}

// Capability is a capability that confined programs keep.
type Capability struct {
	Name   string
	number uint
}

// Capabilities returns the same list as package oci's HostCapabilities, which this
// small program does not link.
func Capabilities() []Capability {
	return []Capability{
		{"CAP_CHOWN", unix.CAP_CHOWN}, {"CAP_DAC_OVERRIDE", unix.CAP_DAC_OVERRIDE}, {"CAP_FOWNER", unix.CAP_FOWNER},
		{"CAP_FSETID", unix.CAP_FSETID}, {"CAP_KILL", unix.CAP_KILL},
		{"CAP_NET_BIND_SERVICE", unix.CAP_NET_BIND_SERVICE},
	}
}

func dropCapabilities() error {
	var mask uint64
	for _, c := range Capabilities() {
		mask |= 1 << c.number
	}
	for c := range uintptr(64) {
		if mask&(1<<c) != 0 {
			continue
		}
		// beyond the last
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{
		{Effective: uint32(mask), Permitted: uint32(mask)},
		{Effective: uint32(mask >> 32), Permitted: uint32(mask >> 32)},
	}
	if err := unix.Capset(&hdr, &data[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	return nil
}

// refusedCalls returns the system calls that a program without capabilities can
// still make to get some (in a user namespace), or that reach the kernel itself.
func refusedCalls() []uint32 {
	return []uint32{
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
		unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_FSCONFIG, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
		unix.SYS_MOUNT_SETATTR, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP,
		unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD,
		unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_SETHOSTNAME,
		unix.SYS_SETDOMAINNAME, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_SYSLOG,
	}
}

// newNamespaces are the flags of clone(2) that make namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// Offsets in struct seccomp_data, <linux/seccomp.h>.
const (
	dataNumber = 0
	dataArch   = 4
	dataArg0   = 16
)

// callFilter returns the program of refusedCalls for the kernel (seccomp(2)).
func callFilter() []unix.SockFilter {
	const (
		load          = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		eq            = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		set           = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ge            = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		ret           = unix.BPF_RET | unix.BPF_K
		eperm, enosys = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM), unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	)
	refused := refusedCalls()
	p := []unix.SockFilter{
		{Code: load, K: dataArch},
		{Code: eq, Jt: 1, K: unix.AUDIT_ARCH_X86_64},
		{Code: ret, K: unix.SECCOMP_RET_KILL_PROCESS}, // the 32-bit door
		{Code: load, K: dataNumber},
		{Code: ge, Jf: 1, K: 0x40000000}, // __X32_SYSCALL_BIT
		{Code: ret, K: enosys},
		// Its flags lie in memory, where a filter cannot look; glibc and Go use clone then.
		{Code: eq, Jf: 1, K: unix.SYS_CLONE3},
		{Code: ret, K: enosys},
		{Code: eq, Jf: 3, K: unix.SYS_CLONE},
		{Code: load, K: dataArg0},
		{Code: set, Jf: 1, K: newNamespaces},
		{Code: ret, K: eperm},
		{Code: load, K: dataNumber},
	}
	for _, nr := range refused {
		p = append(p, unix.SockFilter{Code: eq, Jf: 1, K: nr}, unix.SockFilter{Code: ret, K: eperm})
	}
	return append(p, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
}

func filterCalls() error { return setFilter(callFilter()) }

// setFilter filters the system calls of this thread, and of its children.
func setFilter(p []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
	runtime.KeepAlive(p)
	if err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return nil
}

// closeDoor makes the kernel kill a process that makes a 32-bit system call. The
// container's own filter (package oci) kills only the thread, and the rest of a
// Windows program then waits for it forever; of two filters the stricter applies.
func closeDoor() error {
	// A container has it already; a filter needs it.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	return setFilter([]unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: dataArch},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.AUDIT_ARCH_X86_64},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	})
}
