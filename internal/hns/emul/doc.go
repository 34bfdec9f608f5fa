// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package emul is an emulated Host Networking Service: the objects, rules and
// error codes of HNS, over an abstract data plane.
//
// There is one store of objects and two views of it, HCN v2 and HNS v1, because
// the clients mix them: flannel makes a network through v1, win-bridge attaches
// to it through v2, the kubelet lists its endpoints through v1.
//
// Mutations are serialised. Each goes through these steps:
//
//	check ─► change a copy ─► compile it to an intent ─► data plane ─► journal ─► publish
//	             of the state     (pure)                    Apply
//
// An error at any step leaves the published state unchanged and reverts the data
// plane to it. Every mutation that was answered with success is in the journal. A
// mutation that a crash interrupted before that is undone when the store is opened
// again, because Open applies the state that it finds. Namespaces are the
// exception: they are recorded before their compartment is created, so that every
// compartment has a record.
//
// Reads take no lock: they see the last published state.
//
// Fidelity: which parts of HNS are emulated, stored only, or refused is in
// docs/fidelity/hns.md. The HRESULTs and texts follow
// https://learn.microsoft.com/virtualization/api/hcn/reference/hcnhresult and
// the checks of the Go clients (github.com/Microsoft/hnslib v0.1.2,
// hcn/hcnerrors.go).
package emul
