// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package native is hns.API through computenetwork.dll and vmcompute.dll: HNS
// itself on Windows, the emulator's DLLs under Wine. It cannot tell which.
package native
