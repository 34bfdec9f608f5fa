// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/host"
)

// Where things lie inside of a host, after pivot_root.
const (
	nodeDir     = "/node"        // Config.Dir, writable
	binDir      = "/opt/mullion" // Config.Bin, read-only
	programsDir = binDir + "/linux"
	hostProgram = binDir + "/mullion-linuxhost"
	podsCgroup  = "/kubepods" // the kubelet's parent of all pods
)

// kernelSetting is a file below /proc/sys.
type kernelSetting struct{ name, value string }

// machineSettings are the settings that the kubelet writes at its start if they
// differ, and that apply to the whole machine (kubernetes v1.36.3
// pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables). Files with the
// values that it wants lie over them, so that it does not write.
func machineSettings() []kernelSetting {
	return []kernelSetting{
		{"vm/overcommit_memory", "1"},
		{"vm/panic_on_oom", "0"},
		{"kernel/panic", "10"},
		{"kernel/panic_on_oops", "1"},
		{"kernel/keys/root_maxkeys", "1000000"},
		{"kernel/keys/root_maxbytes", "25000000"},
	}
}

// ownSettings are settings of the host's network namespace. Strict reverse path
// filtering keeps a pod from sending with the address of another; for IPv6, which has no
// such setting, rules does.
//
// A router sends no router solicitations, and makes no address of an advertisement
// (Documentation/networking/ip-sysctl.rst, accept_ra).
func ownSettings(dual bool) []kernelSetting {
	list := []kernelSetting{
		{"net/ipv4/ip_forward", "1"},
		{"net/ipv4/conf/all/rp_filter", "1"},
		{"net/ipv4/conf/default/rp_filter", "1"},
		{"net/ipv4/conf/all/send_redirects", "0"},
		{"net/ipv4/conf/default/send_redirects", "0"},
	}
	if dual {
		return append(list, kernelSetting{"net/ipv6/conf/default/disable_ipv6", "0"},
			kernelSetting{"net/ipv6/conf/all/forwarding", "1"},
			kernelSetting{"net/ipv6/conf/default/accept_redirects", "0"})
	}
	return append(list, kernelSetting{"net/ipv6/conf/all/disable_ipv6", "1"},
		kernelSetting{"net/ipv6/conf/default/disable_ipv6", "1"})
}

// describeRoot lists the mounts of a host's root, in order. Only directories below
// Config.Dir are both of the machine and writable.
func describeRoot(c Config, cgroups cgroup.Hierarchies) []host.Mount {
	list := append(host.Base(host.MachineUsr, cgroups),
		host.Mount{Source: c.Bin, Target: binDir, ReadOnly: true},
		// Alone, because the new root itself is mounted below it.
		host.Mount{Source: c.Dir, Target: nodeDir, Alone: true},
		host.Mount{Source: filepath.Join(host.Disk(c.Dir), "lib"), Target: "/var/lib"},
		host.Mount{Source: filepath.Join(host.Disk(c.Dir), "podlogs"), Target: "/var/log"},
		host.Mount{Source: filepath.Join(host.Disk(c.Dir), "claims"), Target: imagesDir},
		// The machine's kernel log is not the host's: a file without lines.
		host.Mount{Source: filepath.Join(c.Dir, "kernel", "kmsg"), Target: "/dev/kmsg"},
		// Where administrators of containerd put the settings of their registries.
		host.Mount{
			Source:   "/etc/containerd/certs.d",
			Target:   "/etc/containerd/certs.d",
			ReadOnly: true,
			Optional: true,
		},
	)
	for _, s := range machineSettings() {
		list = append(list, host.Mount{
			Source:   settingFile(c.Dir, s.name),
			Target:   "/proc/sys/" + s.name,
			ReadOnly: true,
		})
	}
	return list
}

// settingFile is the file, in the host's directory, that lies over a setting.
func settingFile(dir, name string) string {
	return filepath.Join(dir, "kernel", filepath.FromSlash(name))
}

// settled is a change of a mount once the root is built and the host's own settings
// are written.
type settled struct {
	path  string
	flags uintptr
	// bind binds the path onto itself first, with all below it.
	bind bool
	// optional paths may be missing.
	optional bool
}

// describeSettled lists the paths that become read-only in the end: kernel settings
// except the network namespace's. All mounts are shared with the containers' mount
// namespaces, as systemd makes them: mountPropagation depends on it.
func describeSettled() []settled {
	const fixed = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | host.Inert
	return []settled{
		{path: "/proc/sys/net", bind: true},
		{path: "/proc/sys", bind: true, flags: fixed},
		{path: "/proc/sysrq-trigger", bind: true, flags: fixed, optional: true},
		{path: "/", flags: unix.MS_SHARED | unix.MS_REC},
	}
}

// etcFiles are the host's files in /etc and their contents, by path.
func etcFiles(c Config) map[string]string {
	return map[string]string{
		"/etc/hostname":      c.Name + "\n",
		"/etc/hosts":         fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", c.Address.Addr(), c.Name),
		"/etc/resolv.conf":   fmt.Sprintf("nameserver %s\n", c.Nameserver),
		"/etc/nsswitch.conf": "hosts: files dns\n",
		"/etc/os-release":    "NAME=mullion\nID=mullion\nPRETTY_NAME=\"mullion Linux worker\"\n",
		// nft takes names of protocols from it: without, kube-proxy reads back numbers
		// when it starts again, and deletes the rules that it has just added.
		"/etc/protocols": "icmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nsctp 132 SCTP\n",
		"/etc/passwd":    "root:x:0:0:root:/root:/usr/sbin/nologin\n",
		"/etc/group":     "root:x:0:\n",
	}
}
