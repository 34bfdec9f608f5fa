// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package agent turns a Windows Server into a node of a Kubernetes cluster and
// keeps it one.
//
// It reads one file, agent.json, and sets up the node accordingly: the kubelet's and
// kube-proxy's configuration, the HNS network of the pods, the CNI configuration, and the
// Windows services that run kubelet.exe and kube-proxy.exe. describe returns the desired
// state as plain values; Agent.pass repeatedly compares the node with it and repairs
// differences.
//
// A pass performs these steps until one is incomplete:
//
//	files ─▶ kubelet up ─▶ joined ─▶ pod range known ─▶ HNS network, CNI ─▶ kube-proxy up
//
// External systems (service control manager, HNS, API server) are behind interfaces with
// fakes, so the whole package can be tested on Linux with plain `go test`. No code in it
// depends on the kind of Windows it runs on.
//
// See docs/internals/agent.md.
package agent
