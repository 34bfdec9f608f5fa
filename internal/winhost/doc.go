// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package winhost assembles one emulated Windows Server.
//
// A host is a set of Linux namespaces (network, UTS, PID, IPC, mount, cgroup)
// with a root file system of its own. Inside of it run our servers (the Host
// Networking Service and the container runtime) and, under Wine, the very
// programs that run on Windows Server: mullion.exe, which brings up kubelet.exe
// and kube-proxy.exe.
//
//	mullion winhost             parent: namespaces, cgroup, cable, status file
//	└─ init                     PID 1: mounts, pivot_root, reaps, restarts
//	   ├─ mullion winhost serve     HNS and CRI in one process
//	   └─ wine mullion.exe agent run
//
// Files are named by the process that their code runs in: parent_, init_ and
// serve_. Those of cluster_ are what package cluster calls when no host runs, and
// those without a prefix, boot_linux.go among them, belong to several.
//
// It is not a security boundary against the programs of the host itself, which
// are as trusted as the parent; containers get their own fences from the
// container runtime. What it promises is that nothing inside can write a file
// of the machine outside of Config.Dir, and that nothing of it survives the
// parent: init gets SIGKILL when the parent dies, and with init the kernel
// kills every process of its PID namespace.
//
// See docs/internals/winhost.md.
package winhost
