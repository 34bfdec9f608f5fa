// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package controlplane runs a Kubernetes control plane in this process: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler and CoreDNS, all of
// them upstream's code, linked as libraries.
//
// Run takes a plan.Plan and carries it out: it locks the data directory, makes
// the keys, writes the files, and starts the components in waves, each after
// those that it needs are ready.
//
// # One for all
//
// Upstream's components keep state per process (flags, feature gates, metrics)
// and consider ending the process a normal way out, so none can be started
// again in the same process. Therefore the end of one, by return, by panic of
// its own goroutine, or by klog.Fatal and its like, is the end of all: they stop
// in reverse order and Run returns the reason. A panic of another goroutine, or
// a call of os.Exit that does not go through klog, ends the process on the spot,
// as kill -9 does. Whoever runs the process starts it anew; nothing that was
// acknowledged is lost, because etcd syncs before it answers.
//
// # Not here
//
// Restarting, which is the supervisor's work; the network on which the
// addresses lie.
package controlplane
