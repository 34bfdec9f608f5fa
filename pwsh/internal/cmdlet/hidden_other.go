// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build !windows

package cmdlet

import "io/fs"

// isHidden reports whether a file has the attribute "hidden", which only Windows has.
func isHidden(fs.FileInfo) bool { return false }
