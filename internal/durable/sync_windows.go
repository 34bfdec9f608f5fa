// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package durable

// syncDir is a no-op: Windows cannot open a directory for flushing, and NTFS journals the
// rename.
func syncDir(string) error { return nil }
