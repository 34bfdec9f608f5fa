// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package winhost assembles one emulated Windows Server.
//
// Package host makes a host: a set of Linux namespaces with its own root file
// system. Inside it run our servers (the Host Networking Service and the
// container runtime) and, under Wine, the same programs as on Windows Server:
// mullion.exe, which starts kubelet.exe and kube-proxy.exe.
//
//	mullion-winhost             parent: namespaces, cgroup, cable, status file
//	└─ init                     PID 1: mounts, pivot_root, reaps, restarts
//	   ├─ mullion-winhost serve     HNS and CRI in one process
//	   └─ wine mullion.exe agent run
//
// Files are named after the process in which their code runs: parent_, init_ and
// serve_. Package cluster calls the code in cluster_ files when no host runs.
// Several processes use files without a prefix, such as boot_linux.go.
//
// A host is not a security boundary against its own programs, which are as
// trusted as the parent; the container runtime confines the containers. Package
// host lists the remaining guarantees.
//
// See docs/internals/winhost.md.
package winhost
