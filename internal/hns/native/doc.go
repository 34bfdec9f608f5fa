// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package native implements hns.API through computenetwork.dll and
// vmcompute.dll: HNS itself on Windows, the emulator's DLLs under Wine. It cannot
// distinguish the two. The node agent, the CNI plugin and hnsdiag call HNS with it.
package native
