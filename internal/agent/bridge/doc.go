// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package bridge is a CNI plugin for Windows nodes: win-bridge
// (github.com/containernetworking/plugins v1.9.1, plugins/main/windows/win-bridge and pkg/hns) with more than one
// address for a pod. Upstream's sends the first address of the IPAM plugin's result to HNS, so that a cluster with two
// address families gives its Windows pods one.
//
// The configuration has win-bridge's keys. An endpoint gets an IpConfiguration for each address, a default route for
// each family, and a port mapping for each family, as Microsoft's sdnbridge with enableDualStack
// (github.com/microsoft/windows-container-networking, common/core and cni).
//
// Differences from win-bridge: apiVersion 1, which is for containers that Docker made, is refused. A policy that
// cannot be read is an error instead of left out. CHECK and GC, which upstream lacks, follow the CNI specification.
// An endpoint is removed before its addresses are given back, so that no two pods have one.
package bridge
