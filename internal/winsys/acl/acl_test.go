// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package acl_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mullion-k8s/mullion/internal/winsys/acl"
)

func TestMakePrivate(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b")
	for range 2 { // the second time it exists
		if err := acl.MakePrivate(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o600); err != nil {
		t.Errorf("write into it: %v", err)
	}
	open := filepath.Join(top, "open")
	if err := os.Mkdir(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := acl.MakePrivate(open); err != nil {
		t.Errorf("close an open directory: %v", err)
	}
	if err := acl.Verify(open); err != nil {
		t.Error(err)
	}
	link := filepath.Join(top, "link")
	if err := os.Symlink(open, link); err != nil {
		t.Skip(err) // Windows wants a privilege for it
	}
	if err := acl.MakePrivate(link); err == nil {
		t.Error("a link was accepted")
	}
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := acl.MakePrivate(file); err == nil {
		t.Error("a file was accepted")
	}
}

func TestMakeShared(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "private", "pods")
	if err := acl.MakePrivate(filepath.Dir(dir)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it exists
		if err := acl.MakeShared(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := acl.Verify(dir); err == nil {
		t.Error("ordinary users cannot use it")
	}
	if err := acl.Verify(filepath.Dir(dir)); err != nil {
		t.Error(err)
	}
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := acl.MakeShared(file); err == nil {
		t.Error("a file was accepted")
	}
}
