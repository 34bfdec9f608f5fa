// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package checkout finds the root of git checkouts and the files in them that
// git ignores. lint leaves these files out and prints names relative to the root.
package checkout

import (
	"os"
	"path/filepath"
)

// Root returns the folder of the git checkout around an absolute path, or ""
// outside of a checkout.
func Root(path string) string {
	for dir := path; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// Real returns the absolute path without symbolic links; only absolute if the
// path does not exist.
func Real(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if at, err := filepath.EvalSymlinks(abs); err == nil {
		return at
	}
	return abs
}
