// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package paged_test

import (
	"bytes"
	"debug/pe"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mullion-k8s/mullion/internal/winhost/paged"
)

// program builds a small Windows program.
func program(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte("package main\n\nfunc main() { println(\"paged\") }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", "x.exe", "x.go")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	content, err := os.ReadFile(filepath.Join(dir, "x.exe"))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func parse(t *testing.T, content []byte) *pe.File {
	t.Helper()
	f, err := pe.NewFile(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestConvertKeepsTheImage compares what the loader would put into memory.
func TestConvertKeepsTheImage(t *testing.T) {
	before := program(t)
	after, err := paged.Convert(before)
	if err != nil {
		t.Fatal(err)
	}
	old, now := parse(t, before), parse(t, after)
	if len(old.Sections) != len(now.Sections) {
		t.Fatalf("%d sections, want %d", len(now.Sections), len(old.Sections))
	}
	aligned := 0
	for i, o := range old.Sections {
		n := now.Sections[i]
		if n.Name != o.Name || n.VirtualAddress != o.VirtualAddress || n.VirtualSize != o.VirtualSize || n.Characteristics != o.Characteristics {
			t.Errorf("section %s changed: %+v, was %+v", o.Name, n.SectionHeader, o.SectionHeader)
		}
		if n.Offset%4096 != 0 || n.Size%4096 != 0 {
			t.Errorf("section %s at %#x with %#x bytes", n.Name, n.Offset, n.Size)
		}
		if o.Offset%4096 == 0 {
			aligned++
		}
		want, err := o.Data()
		if err != nil {
			t.Fatal(err)
		}
		got, err := n.Data()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(got, want) || len(bytes.Trim(got[len(want):], "\x00")) != 0 {
			t.Errorf("section %s has other content", o.Name)
		}
	}
	if aligned == len(old.Sections) {
		t.Error("the test's program is paged already: it proves nothing")
	}
	oh, nh := old.OptionalHeader.(*pe.OptionalHeader64), now.OptionalHeader.(*pe.OptionalHeader64)
	nh.FileAlignment, nh.SizeOfHeaders = oh.FileAlignment, oh.SizeOfHeaders
	if *oh != *nh {
		t.Errorf("header %+v, was %+v", nh, oh)
	}
	again, err := paged.Convert(after)
	if err != nil || !bytes.Equal(again, after) {
		t.Errorf("a second conversion changes something: %v", err)
	}
}

func TestConvertRefuses(t *testing.T) {
	good := program(t)
	for name, content := range map[string][]byte{
		"nothing": nil, "a shell script": []byte("#!/bin/sh\n" + string(make([]byte, 100))), "half a header": good[:100], "half a program": good[:len(good)/2],
	} {
		if _, err := paged.Convert(content); !errors.Is(err, paged.ErrUnsuitable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzConvert(f *testing.F) {
	good := program(f)
	f.Add(good[:4096], 0)
	f.Add(good[:1024], 300)
	f.Fuzz(func(t *testing.T, content []byte, cut int) {
		if cut > 0 && cut < len(content) {
			content = content[:cut]
		}
		if out, err := paged.Convert(content); err == nil && len(out)%4096 != 0 {
			t.Errorf("%d bytes", len(out))
		}
	})
}
