// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import "golang.org/x/sys/unix"

// capability is a right that no process of the host has, a privileged container
// included.
type capability struct {
	number uintptr
	name   string
}

// forbidden are the rights to change parts of the machine: its kernel and the log of
// it, its hardware, its clock, its security modules. CAP_MKNOD is not among them:
// containerd gives it to every sandbox (containerd v2.4.2 pkg/oci/spec.go,
// defaultUnixCaps), and runc cannot give a right that it lacks. A device node is
// useless where the devices controller does not allow the device.
func forbidden() []capability {
	return []capability{
		{unix.CAP_SYS_MODULE, "CAP_SYS_MODULE"},
		{unix.CAP_SYS_RAWIO, "CAP_SYS_RAWIO"},
		{unix.CAP_SYS_BOOT, "CAP_SYS_BOOT"},
		{unix.CAP_SYS_TIME, "CAP_SYS_TIME"},
		{unix.CAP_SYSLOG, "CAP_SYSLOG"},
		{unix.CAP_MAC_ADMIN, "CAP_MAC_ADMIN"},
		{unix.CAP_MAC_OVERRIDE, "CAP_MAC_OVERRIDE"},
		{unix.CAP_AUDIT_CONTROL, "CAP_AUDIT_CONTROL"},
		{unix.CAP_AUDIT_READ, "CAP_AUDIT_READ"},
		{unix.CAP_WAKE_ALARM, "CAP_WAKE_ALARM"},
		{unix.CAP_BLOCK_SUSPEND, "CAP_BLOCK_SUSPEND"},
	}
}

// devices are the devices that the host's programs and containers may use, in the
// words of the devices controller (Documentation/admin-guide/cgroup-v1/devices.rst):
// the list that runc gives every container (runc 1.1.5 libcontainer/specconv,
// AllowedDevices).
func devices() []string {
	return []string{
		"c *:* m", "b *:* m",
		"c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm", "c 1:9 rwm",
		"c 5:0 rwm", "c 5:1 rwm", "c 5:2 rwm", "c 136:* rwm",
		"c 10:200 rwm",
	}
}
