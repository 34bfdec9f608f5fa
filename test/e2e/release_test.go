// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// unpacked returns mullion as a release has it, in a directory of its own, far from
// the sources, and a function that unpacks the release there once more.
func unpacked(t *testing.T) (program string, unpack func()) {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Dir(testenv.Bin())
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", cmd.Args, err, out)
		}
	}
	const version = "v0.0.0-gtest"
	run("go", "run", "-C", filepath.Join(root, "tools", "release"), ".", "-bin", testenv.Bin(), "-root", root,
		"-o", dir, "-version", version, "-date", "1790000000", "-level", "1", "-only", "archive")
	unpack = func() { run("tar", "-xzf", filepath.Join(dir, "mullion_"+version+"_linux_amd64.tar.gz"), "-C", dir) }
	unpack()
	return filepath.Join(dir, "mullion", "mullion"), unpack
}
