// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package server is the container runtime of an emulated Windows host: the
// services RuntimeService and ImageService of CRI v1, one file per call. It
// answers as containerd does on Windows, down to the text of its errors, and
// carries out the calls on Linux.
//
// # Terms
//
//	sandbox     an HCN namespace with addresses from the node's CNI plugins; no
//	            process and no pause image
//	container   an overlay of the Wine runtime, the Windows root of the node's
//	            build and the image's layers, under runc and conmon, with PID 1
//	            (mullion-init) as the parent of the Windows program
//	paths       requests contain Windows paths of the emulated host; they are
//	            resolved below the directory that is its drive C
//
// # State
//
// Package store has the records. Each call updates a record before the effect
// that it describes, so that New, after a kill at any moment, can complete or undo
// unfinished work (recover.go). Running containers do not depend on this process.
//
// # Concurrency
//
// Calls for different objects run concurrently; calls for one object are
// serialised, except that StopContainer holds no lock while it waits for the end
// of a container. A sandbox's lock is always taken before its containers'.
//
// # Fidelity
//
// docs/fidelity/cri.md lists the differences from containerd on Windows.
//
// # Sources
//
// k8s.io/cri-api v0.36 api.proto; github.com/containerd/containerd v2,
// internal/cri/server and internal/cri/opts (messages, reasons, defaults).
package server
