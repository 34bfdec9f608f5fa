// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package testenv checks a test's requirements of the machine. A missing capability skips
// the test on a developer's machine and fails it where MULLION_REQUIRE names it (a
// comma-separated list, or "all"), so that a green CI run cannot hide tests that never
// ran.
package testenv

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Capability is something that a machine may lack.
type Capability string

// The capabilities that tests require.
const (
	Root   Capability = "root"   // uid 0 with the right to make namespaces and mounts
	Nft    Capability = "nft"    // the nft program
	Wine   Capability = "wine"   // `make build` has unpacked Wine into bin/wine
	Runc   Capability = "runc"   // runc and conmon
	MinGW  Capability = "mingw"  // the C compiler for Windows targets
	Built  Capability = "built"  // `make build` has filled bin/
	Suites Capability = "suites" // `make suites` has filled bin/windows with other projects' suites
	Peers  Capability = "peers"  // `make peers` has filled bin/peers: other projects' own programs
	NPM    Capability = "npm"    // the npm program, and its registry
	Static Capability = "static" // a test program that runs without a loader, in a bare root
)

// Need skips (or, where required, fails) the test if a capability is missing.
func Need(t testing.TB, caps ...Capability) {
	t.Helper()
	readInputs(t, caps)
	for _, c := range caps {
		if why := missing(c); why != "" {
			if required(c) {
				t.Fatalf("needs %s, which MULLION_REQUIRE demands: %s", c, why)
			}
			t.Skipf("needs %s: %s", c, why)
		}
	}
}

func required(c Capability) bool {
	list := strings.Split(os.Getenv("MULLION_REQUIRE"), ",")
	return slices.Contains(list, string(c)) || slices.Contains(list, "all")
}

func missing(c Capability) string {
	program := func(names ...string) string {
		for _, n := range names {
			if _, err := exec.LookPath(n); err != nil {
				return n + " is not installed"
			}
		}
		return ""
	}
	switch c {
	case Root:
		if runtime.GOOS != "linux" || os.Geteuid() != 0 {
			return "not running as root on Linux"
		}
	case Nft:
		return program("nft")
	case Runc:
		return program("runc", "conmon")
	case Wine:
		if _, err := os.Stat(Bin("wine", "usr/lib/wine/wine64")); err != nil {
			return err.Error() + ": run `make build` first"
		}
	case NPM:
		return program("npm")
	case MinGW:
		return program("x86_64-w64-mingw32-gcc")
	case Built:
		if _, err := os.Stat(Bin("mullion")); err != nil {
			return "run `make build` first"
		}
	case Suites:
		for _, name := range []string{"critest.exe", "hcn.test.exe"} {
			if _, err := os.Stat(Bin("windows", name)); err != nil {
				return "run `make suites` first"
			}
		}
	case Peers:
		for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "helm"} {
			if _, err := os.Stat(Bin("peers", name)); err != nil {
				return "run `make peers` first"
			}
		}
	case Static:
		if dynamic("/proc/self/exe") {
			return "this test was built with cgo: set CGO_ENABLED=0"
		}
	default:
		return "unknown capability"
	}
	return ""
}

// dynamic reports whether a program needs a loader of shared libraries.
func dynamic(program string) bool {
	f, err := elf.Open(program)
	if err != nil {
		return false // not a program of Linux
	}
	defer func() { _ = f.Close() }() // opened for reading
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// Repo returns the absolute path of the repository's root, with elem joined to it.
// It is found upwards from the working directory, which `go test` makes the
// package's own; paths of sources are not in binaries that are built with
// -trimpath.
func Repo(elem ...string) string {
	dir, err := os.Getwd()
	if err != nil {
		panic("testenv: " + err.Error())
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if mod, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil &&
			strings.HasPrefix(string(mod), "module github.com/mullion-k8s/mullion\n") {
			return filepath.Join(append([]string{dir}, elem...)...)
		}
	}
	panic("testenv: the working directory is outside of the repository")
}

// Bin returns the path of a file that `make build` creates. MULLION_TEST_BIN can
// name another directory, to test another build.
func Bin(elem ...string) string {
	if dir := os.Getenv("MULLION_TEST_BIN"); dir != "" {
		return filepath.Join(append([]string{dir}, elem...)...)
	}
	return Repo(append([]string{"bin"}, elem...)...)
}
