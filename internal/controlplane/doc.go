// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package controlplane runs a Kubernetes control plane in this process: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler and CoreDNS, all of
// them upstream's code, linked as libraries.
//
// Run executes a plan.Plan: it locks the data directory, creates the keys, writes
// the files, and starts the components in waves. A component starts once the
// components that it needs are ready.
//
// # One for all
//
// Upstream's components keep state per process (flags, feature gates, metrics) and may
// end the process at any time, so they cannot be restarted within the same process.
// Therefore, if one component ends, by returning, by a panic in its own goroutine, or by
// klog.Fatal and the like, all others are stopped in reverse order and Run returns the
// reason. A panic in another goroutine, or a call of os.Exit that does not go through
// klog, ends the process immediately, like kill -9. The supervisor restarts the process;
// no acknowledged write is lost, because etcd syncs before it responds.
//
// This package neither restarts the process, which is the supervisor's task, nor
// sets up the network of its addresses.
package controlplane
