// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package netlab gives tests network namespaces, and programs that listen and
// connect in them, so that they send real packets. Its own tests build whole
// networks: a namespace that stands for the machine, the fabric of a cluster,
// emulated hosts with their data planes, and pods. All of it lies in separate
// namespaces; the machine on which the tests run only sees a few mounts under the
// test's temporary directory.
//
// It is for tests only and links the testing package.
package netlab

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// Namespace makes a network namespace at path for the time of the test.
func Namespace(t testing.TB, path string) string {
	t.Helper()
	if err := kernel.CreateNamespace(path, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kernel.DeleteNamespace(path); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return path
}

// Run runs commands, whose words are separated by spaces, in the namespace.
func Run(t testing.TB, netns string, commands ...string) {
	t.Helper()
	for _, c := range commands {
		argv := strings.Fields(c)
		err := kernel.Do(netns, func() error {
			if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", c, err, out)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// CheckNoMounts fails the test if something is mounted below dir.
func CheckNoMounts(t testing.TB, dir string) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, dir+"/") {
			t.Errorf("left behind: %s", line)
		}
	}
}
