// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build !linux

package image

import (
	"errors"
	"os"
)

// errNoOverlay: the store needs overlayfs, which only Linux has.
var errNoOverlay = errors.New("image store works on Linux only")

func makeWhiteout(*os.Root, string) error { return errNoOverlay }
func opaque(*os.Root) error               { return errNoOverlay }
func isSpace(error) bool                  { return false }

// SyncTree returns an error.
func SyncTree(string) error { return errNoOverlay }
