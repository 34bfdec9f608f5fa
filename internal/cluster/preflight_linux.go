// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// Binaries is the directory with the output of `make build`.
type Binaries string

// FindBinaries returns the directory of the running executable.
func FindBinaries() (Binaries, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find executables: %w", err)
	}
	self, err = filepath.EvalSymlinks(self)
	if err != nil {
		return "", fmt.Errorf("find executables: %w", err)
	}
	return Binaries(filepath.Dir(self)), nil
}

// mullion is this program.
func (b Binaries) mullion() string { return filepath.Join(string(b), "mullion") }

// winhost returns the program that runs an emulated host.
func (b Binaries) winhost() string { return filepath.Join(string(b), "mullion-winhost") }

// linuxhost returns the program that runs a Linux worker.
func (b Binaries) linuxhost() string { return filepath.Join(string(b), "mullion-linuxhost") }

// Kube returns the program with Kubernetes in it.
func (b Binaries) Kube() string { return filepath.Join(string(b), "mullion-kube") }

// Missing describes, for people, something that the machine lacks.
type Missing struct {
	What string
	Hint string
}

func (m *Missing) Error() string { return m.What }

// Preflight checks for everything that a cluster needs and returns an error that
// joins a *Missing for each missing part. A cluster that runs has its share of the
// machine.
func Preflight(b Binaries, c Config, running bool) error {
	mode := c.Mode()
	var errs []error
	miss := func(hint, format string, args ...any) {
		errs = append(errs, &Missing{fmt.Sprintf(format, args...), hint})
	}
	if runtime.GOARCH != "amd64" {
		miss("emulated Windows hosts need an amd64 machine", "this machine is %s", runtime.GOARCH)
	}
	if os.Geteuid() != 0 {
		miss("run it with sudo", "mullion up needs root to create network namespaces and mounts")
	}
	if release := kernelRelease(); !mapsOverlays(release) {
		miss("boot Linux 5.19 or newer", "Linux %s cannot mount layers with the user IDs of a pod", release)
	}
	programs := []struct{ program, pkg string }{{"nft", "nftables"}, {"mkfs.ext4", "e2fsprogs"}}
	if len(c.LinuxHosts()) > 0 { // a Windows host has runc of its own
		programs = append(programs, struct{ program, pkg string }{"runc", "runc"})
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p.program); err != nil {
			miss("apt-get install "+p.pkg, "%s is not installed", p.program)
		}
	}
	hs, err := cgroup.Find()
	errs = append(errs, checkCgroups(cgroup.Mount, hs, err))
	errs = append(errs, b.check("mullion-kube", "mullion-winhost", "windows/kubelet.exe", "windows/kube-proxy.exe",
		"windows/win-bridge.exe", "windows/host-local.exe", "windows/mullion.exe", "windows/powershell.exe",
		"windows/winbox.exe", "native/ws2_32.dll", "wine/usr/lib/wine/wine64")...)
	if len(c.LinuxHosts()) > 0 {
		errs = append(errs, b.checkLinux()...)
	}
	if _, err := os.Stat(filepath.Join(string(b), "windows/mullion-bridge.exe")); err != nil && c.dual() {
		miss("run `make build`", "windows/mullion-bridge.exe, which two address families need, is missing beside the "+
			"mullion executable")
	}
	if mode.Flannel() {
		for _, f := range []string{"windows/flanneld.exe", "windows/flannel.exe", "windows/win-overlay.exe",
			"linux/flanneld", "linux/flannel"} {
			if _, err := os.Stat(filepath.Join(string(b), f)); err != nil {
				miss("run `make flannel`", "%s, which the network %s needs, is missing beside the mullion "+
					"executable", f, mode)
			}
		}
	}
	if mode == agent.VXLAN && os.Geteuid() == 0 {
		if err := kernel.CheckTunnels(); err != nil {
			miss("load the kernel module vxlan (`modprobe vxlan`), or choose --network host-gw", "%v", err)
		}
	}
	if !running {
		linux := len(c.LinuxHosts())
		errs = append(errs, checkWatches(watchesOfServer+watchesOf(linux, len(c.Hosts())-linux)))
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		miss("load the kernel module loop (`modprobe loop`); a container needs --privileged",
			"there are no loop devices, which hosts need for their disks")
	}
	for _, name := range c.Hosts() {
		if err := c.size(name).fits(); err != nil {
			errs = append(errs, err)
			break // the others have the same size, or come next time
		}
	}
	return errors.Join(errs...)
}

// checkLinux returns a *Missing for each program of a Linux worker that does not exist. `make up` builds them while the
// Windows hosts of a new cluster already run.
func (b Binaries) checkLinux() []error {
	return b.check("mullion-linuxhost", "linux/kubelet", "linux/kube-proxy", "linux/containerd",
		"linux/containerd-shim-runc-v2", "linux/ctr", "linux/ptp", "linux/host-local", "linux/portmap",
		"linux/pause.tar")
}

// check returns a *Missing for each of the files that does not exist.
func (b Binaries) check(files ...string) (errs []error) {
	for _, f := range files {
		if _, err := os.Stat(filepath.Join(string(b), f)); err != nil {
			errs = append(errs, &Missing{f + " is missing beside the mullion executable", "run `make build`"})
		}
	}
	return errs
}

// fits returns a *Missing if the machine is smaller than a host of this size.
func (s Size) fits() error {
	if have := runtime.NumCPU(); s.CPUs > have {
		return &Missing{fmt.Sprintf("a host is to have %d processors, and this machine has %d", s.CPUs, have),
			fmt.Sprintf("choose --cpus %d or fewer", have)}
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return fmt.Errorf("read size of memory: %w", err)
	}
	if have := int64(info.Totalram) * int64(info.Unit); s.bytes() > have {
		return &Missing{fmt.Sprintf("a host is to have %s of memory, and this machine has %d MiB", s.Memory, have>>20),
			fmt.Sprintf("choose --memory %dMi or less", have>>20)}
	}
	return nil
}

// checkCgroups returns a *Missing if the cgroups mounted below mount cannot keep hosts and pods within their limits.
func checkCgroups(mount string, hs cgroup.Hierarchies, err error) error {
	const container = "in a container, give it all rights (--privileged)"
	if err != nil {
		return &Missing{err.Error(), "boot with systemd, which mounts them; " + container}
	}
	for _, h := range hs.List {
		dir := filepath.Join(mount, h.Dir)
		if err := unix.Access(dir, unix.W_OK); errors.Is(err, unix.EROFS) {
			return &Missing{dir + " is read-only", container + "; on a machine, run `mount -o remount,rw " + dir + "`"}
		}
	}
	lacks, err := hs.Lacking(mount)
	return errors.Join(err, checkControllers(lacks, hs.Unified))
}

// checkControllers returns a *Missing unless the list of missing controllers is empty.
func checkControllers(lacks []string, unified bool) error {
	if len(lacks) == 0 {
		return nil
	}
	hint := "take cgroup_disable=… out of the kernel's parameters (/proc/cmdline), and boot"
	if unified {
		hint = "in a container or a service, delegate them: --privileged, or Delegate=yes of systemd; on a machine, " +
			hint
	}
	return &Missing{"cgroups have no controller for " + strings.Join(lacks, ", ") + ", to limit pods", hint}
}

// The inotify instances of a cluster's processes, as counted in clusters.
const (
	watchesOfServer  = 14
	watchesOfLinux   = 8 // kubelet 5, containerd 2, kube-proxy 1
	watchesOfWindows = 2 // wineserver, the CRI server
	// watchesToSpare stay free, for programs of Linux pods and the user's own programs.
	watchesToSpare = 16
)

// watchesOf returns the number of inotify instances of some hosts.
func watchesOf(linux, windows int) int { return watchesOfLinux*linux + watchesOfWindows*windows }

// FitsOneMore checks for everything that another host of a running cluster needs, a Linux worker or a Windows host. It
// returns an error that joins a *Missing for each missing part.
func FitsOneMore(b Binaries, size Size, linux bool) error {
	errs := []error{size.fits()}
	if linux {
		errs = append(append(errs, b.checkLinux()...), checkWatches(watchesOf(1, 0)))
	} else {
		errs = append(errs, checkWatches(watchesOf(0, 1)))
	}
	return errors.Join(errs...)
}

// checkWatches returns a *Missing if the user has fewer inotify instances left than needed and to spare. All clusters
// of a machine and their pods share root's instances. It takes instances for a moment: the instances in use cannot be
// counted, because processes share them.
func checkWatches(need int) error {
	need += watchesToSpare
	for left := range need {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			const limit = "fs.inotify.max_user_instances"
			return &Missing{
				fmt.Sprintf("this user can have %d more inotify instances (%s), and %d are needed, with %d to spare",
					left, limit, need, watchesToSpare),
				"run `sysctl -w " + limit + "=1024`; to keep it, write the setting to /etc/sysctl.d/",
			}
		}
		defer unix.Close(fd)
	}
	return nil
}

// kernelRelease returns the version of the running kernel: "6.1.0-44-amd64".
func kernelRelease() string {
	var name unix.Utsname
	_ = unix.Uname(&name) // it fails only for a bad pointer
	return unix.ByteSliceToString(name.Release[:])
}

// mapsOverlays reports whether overlayfs of a kernel takes layers with mapped ids: since 5.19.
// A version that cannot be read may.
func mapsOverlays(release string) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n < 2 {
		return true
	}
	return major > 5 || major == 5 && minor >= 19
}
