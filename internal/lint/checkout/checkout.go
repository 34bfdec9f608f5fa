// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package checkout knows git checkouts: where they begin, and which of their
// files git ignores.
package checkout

import (
	"os"
	"path/filepath"
)

// Root returns the folder of the git checkout around an absolute path; "" if
// there is none.
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
