// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build !linux

package standin

import "errors"

// errNoOverlay: stand-ins are layers of overlayfs, which only Linux has.
var errNoOverlay = errors.New("stand-in images are made on Linux only")

func writeTree(string, map[string]file) error { return errNoOverlay }
