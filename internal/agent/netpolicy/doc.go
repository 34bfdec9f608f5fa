// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package netpolicy turns the NetworkPolicies of a cluster into the permitted traffic of
// each pod of a node.
//
// Compile is pure: policies, pods and namespaces go in, plain lists of prefixes and ports
// come out, in one order whatever the order of the input. The agent writes them into HNS
// as ACLs, a Linux worker into nftables. Neither a VFP ACL nor a set of nft can express
// exceptions, so the exceptions of an ipBlock become the prefixes that remain.
//
// The types of policies have the names and the JSON of k8s.io/api/networking/v1. They are
// separate types, because that module would make mullion.exe and mullion-linuxhost
// several times as large; a test compares the two.
//
// The semantics are documented in
// https://kubernetes.io/docs/concepts/services-networking/network-policies/ and the comments in
// k8s.io/api/networking/v1/types.go. Package watch reads the cluster.
package netpolicy
