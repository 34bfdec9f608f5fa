// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package layout checks what the build does to Windows programs after the
// linker: see docs/adr/0004-page-aligned-programs.md.
package layout

import (
	"bytes"
	"debug/pe"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// page is the smallest page of x86-64, in bytes.
const page = 4096

// TestPageAlignmentKeepsEverySection links a program, aligns it as the Makefile
// does and compares what both put into memory.
func TestPageAlignmentKeepsEverySection(t *testing.T) {
	testenv.Need(t, testenv.MinGW)
	testenv.Compiles(t, "cmd/winbox", "internal/standin/winbox")
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before.exe"), filepath.Join(dir, "after.exe")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", before, "./cmd/winbox")
	build.Dir = testenv.Repo()
	build.Env = append(build.Environ(), "GOOS=windows", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("x86_64-w64-mingw32-objcopy", "--file-alignment", "4096", before,
		after).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	a, b := open(t, before), open(t, after)
	if len(a.Sections) != len(b.Sections) {
		t.Fatalf("%d sections, then %d", len(a.Sections), len(b.Sections))
	}
	for i, s := range a.Sections {
		u := b.Sections[i]
		if s.Name != u.Name || s.VirtualAddress != u.VirtualAddress || s.VirtualSize != u.VirtualSize {
			t.Errorf("section %s at %#x (%#x) became %s at %#x (%#x)", s.Name, s.VirtualAddress, s.VirtualSize, u.Name,
				u.VirtualAddress, u.VirtualSize)
		}
		if u.Offset%page != 0 {
			t.Errorf("section %s begins at %#x of the file", u.Name, u.Offset)
		}
		x, y := data(t, s), data(t, u)
		n := min(len(x), len(y))
		if !bytes.Equal(x[:n], y[:n]) || len(bytes.Trim(x[n:], "\x00"))+len(bytes.Trim(y[n:], "\x00")) > 0 {
			t.Errorf("section %s changed", s.Name)
		}
	}
	x, y := a.OptionalHeader.(*pe.OptionalHeader64), b.OptionalHeader.(*pe.OptionalHeader64)
	if x.ImageBase != y.ImageBase || x.AddressOfEntryPoint != y.AddressOfEntryPoint ||
		x.DllCharacteristics != y.DllCharacteristics ||
		x.SizeOfStackReserve != y.SizeOfStackReserve || x.Subsystem != y.Subsystem ||
		x.DataDirectory != y.DataDirectory {
		t.Errorf("header %+v became %+v", x, y)
	}
}

// TestBuiltProgramsAreAligned looks at what `make build` made.
func TestBuiltProgramsAreAligned(t *testing.T) {
	testenv.Need(t, testenv.Built)
	for _, name := range []string{"kubelet", "kube-proxy", "win-bridge", "host-local", "mullion", "powershell",
		"winbox"} {
		for _, s := range open(t, testenv.Bin("windows", name+".exe")).Sections {
			if s.Size > 0 && s.Offset%page != 0 {
				t.Errorf("%s.exe: section %s begins at %#x of the file", name, s.Name, s.Offset)
			}
		}
	}
}

func open(t *testing.T, path string) *pe.File {
	t.Helper()
	f, err := pe.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // opened for reading
	return f
}

func data(t *testing.T, s *pe.Section) []byte {
	t.Helper()
	if s.Size == 0 {
		return nil
	}
	b, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	return b[:min(uint32(len(b)), s.VirtualSize)]
}
