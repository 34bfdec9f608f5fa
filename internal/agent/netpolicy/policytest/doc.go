// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package policytest has the truth tables of upstream's tests of network plugins, by which everything that enforces
// NetworkPolicies is judged: the engine, the ACLs of Windows hosts, the rules of Linux hosts.
package policytest
