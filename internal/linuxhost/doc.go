// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package linuxhost assembles a Linux worker: a host as package host makes them,
// with upstream's kubelet, kube-proxy and containerd and the distribution's runc
// in it. It is not the machine, whose sysctls, firewall, cgroups, /var and /etc
// stay as they are.
//
//	mullion-linuxhost      parent: namespaces, cgroup, cable, status file, proxy for image pulls
//	└─ init                PID 1: mounts, pivot_root, reaps, supervises, loads images
//	   ├─ containerd       → containerd-shim-runc-v2 → runc
//	   ├─ kubelet
//	   └─ kube-proxy
//
// The programs and their settings are described first (root, containerd, kubelet,
// proxy, rules, rights: values with golden tests) and done by parent_linux.go and
// the files whose names begin with init_ and parent_.
//
// See docs/internals/linuxhost.md.
package linuxhost
