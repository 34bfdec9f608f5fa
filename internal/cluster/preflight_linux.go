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

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// Binaries is the directory with what `make build` made.
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
// joins a *Missing for each missing part.
func Preflight(b Binaries, c Config) error {
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
	for _, p := range []struct{ program, pkg string }{{"runc", "runc"}, {"conmon", "conmon"}, {"nft", "nftables"}} {
		if _, err := exec.LookPath(p.program); err != nil {
			miss("apt-get install "+p.pkg, "%s is not installed", p.program)
		}
	}
	if _, err := os.Stat("/usr/lib/wine/wine64"); err != nil {
		miss("apt-get install --no-install-recommends wine wine64", "Wine is not installed")
	}
	for _, f := range []string{"mullion-kube", "mullion-winhost", "windows/kubelet.exe", "windows/kube-proxy.exe",
		"windows/win-bridge.exe", "windows/host-local.exe", "windows/mullion.exe", "windows/powershell.exe",
		"windows/winbox.exe", "native/ws2_32.dll", "mullion-linuxhost", "linux/kubelet", "linux/kube-proxy",
		"linux/containerd", "linux/containerd-shim-runc-v2", "linux/ctr", "linux/ptp", "linux/host-local",
		"linux/portmap", "linux/pause.tar"} {
		if _, err := os.Stat(filepath.Join(string(b), f)); err != nil {
			miss("run `make build`", "%s is missing beside the mullion executable", f)
		}
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
	for _, name := range c.Hosts() {
		if err := c.size(name).Fits(); err != nil {
			errs = append(errs, err)
			break // the others have the same size, or come next time
		}
	}
	return errors.Join(errs...)
}

// Fits returns a *Missing if the machine is smaller than a host of this size.
func (s Size) Fits() error {
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
