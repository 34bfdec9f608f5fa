// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build !linux

package image

import "errors"

// errNoOverlay: the store needs overlayfs, which only Linux has.
var errNoOverlay = errors.New("image store works on Linux only")

func (u *unpacker) makeWhiteout(string) error { return errNoOverlay }
func (u *unpacker) opaque(string) error       { return errNoOverlay }
func syncTree(string) error                   { return errNoOverlay }
func isSpace(error) bool                      { return false }
