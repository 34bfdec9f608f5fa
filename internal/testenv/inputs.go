// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package testenv

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The go command repeats a result from its cache unless the test program, a variable that
// the test has read, or a file or directory of the module that the test has opened or
// examined has changed. It does not see files opened by programs that a test starts, nor
// files outside of the module. So tests examine those files; of a directory that is
// opened, the names, sizes and times of its files count.

// inputs names a variable that hack/test sets to a hash of the machine's programs that
// the tests use: the distribution's Wine, runc, conmon, nft, and the kernel.
const inputs = "MULLION_TEST_INPUTS"

// readInputs makes the files behind the capabilities a part of the cache's key.
func readInputs(t testing.TB, caps []Capability) {
	t.Helper()
	_ = os.Getenv(inputs)
	look := func(dirs ...string) {
		for _, d := range dirs {
			// One that is missing is not a part of a key, but then it is of the failure.
			_, _ = os.ReadDir(Bin(d))
		}
	}
	if slices.Contains(caps, Built) {
		// bin/ itself has a cache that changes all the time.
		for _, program := range []string{"mullion", "mullion-kube", "mullion-winhost", "mullion-linuxhost"} {
			_, _ = os.Stat(Bin(program)) // missing reports it if it is not there
		}
		look("native", "windows", "linux")
	}
	if slices.Contains(caps, Suites) {
		look("windows")
	}
	if slices.Contains(caps, Peers) {
		look("peers")
	}
}

// Compiles declares that the test has a compiler read directories of the repository,
// recursively: their files become a part of the key of Go's cache of test results.
func Compiles(t testing.TB, dirs ...string) {
	t.Helper()
	for _, d := range dirs {
		err := filepath.WalkDir(Repo(d), func(path string, e os.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				_, err = os.ReadDir(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
