// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package schema holds the JSON documents of the Host Networking Service: the
// HCN v2 documents that computenetwork.dll speaks, and the HNS v1 documents of
// vmcompute.dll's HNSCall.
//
// It is data only. Package emul interprets the fields and refuses invalid
// combinations.
//
// Reading is as lenient as HNS: keys match without regard to case, unknown keys
// are ignored. Writing produces output for the Go clients: flags and protocols are
// numbers, although Microsoft's schema page documents some as strings.
//
// Sources: https://learn.microsoft.com/virtualization/api/hcn/hns_schema (read
// 2026-11), and the Go clients, from which the tags are taken:
// github.com/Microsoft/hnslib v0.1.2 (hcn/*.go for v2, internal/hns/*.go for v1)
// and github.com/Microsoft/hcsshim v0.13.0, whose hcn package is the same code.
package schema
