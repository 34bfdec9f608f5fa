// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package agent turns a Windows Server into a node of a Kubernetes cluster and
// keeps it one.
//
// It reads one file, agent.json, and brings about what follows from it: the
// kubelet's and kube-proxy's configuration, the HNS network of the pods, the
// CNI configuration, and the Windows services that run kubelet.exe and
// kube-proxy.exe. Describe says as plain values what shall be there; Agent.pass
// compares and changes, over and over, so that whatever is damaged is mended.
//
// A pass goes as far as the node has come:
//
//	files ─▶ kubelet up ─▶ joined ─▶ pod range known ─▶ HNS network, CNI ─▶ kube-proxy up
//
// Everything foreign is behind an interface with a semantic fake (service
// control manager, HNS, API server), so the whole package runs on Linux in
// plain `go test`. Nothing in it asks what kind of Windows it runs on.
//
// See docs/internals/agent.md.
package agent
