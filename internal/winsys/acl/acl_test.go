// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package acl_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mullion-k8s/mullion/internal/winsys/acl"
)

func TestPrivate(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b")
	for range 2 { // the second time it exists
		if err := acl.Make(dir, acl.Private()); err != nil {
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
	if err := acl.Make(open, acl.Private()); err != nil {
		t.Errorf("close an open directory: %v", err)
	}
	if err := acl.Verify(open, acl.Private()); err != nil {
		t.Error(err)
	}
	link := filepath.Join(top, "link")
	if err := os.Symlink(open, link); err != nil {
		t.Skip(err) // Windows wants a privilege for it
	}
	if err := acl.Make(link, acl.Private()); err == nil {
		t.Error("a link was accepted")
	}
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := acl.Make(file, acl.Private()); err == nil {
		t.Error("a file was accepted")
	}
}

func TestVolumes(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "private", "pods")
	if err := acl.Make(filepath.Dir(dir), acl.Private()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it exists
		if err := acl.Make(dir, acl.Volumes()); err != nil {
			t.Fatal(err)
		}
	}
	if err := acl.Verify(dir, acl.Private()); err == nil {
		t.Error("ordinary users cannot use it")
	}
	if err := acl.Verify(filepath.Dir(dir), acl.Private()); err != nil {
		t.Error(err)
	}
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := acl.Make(file, acl.Volumes()); err == nil {
		t.Error("a file was accepted")
	}
}

func TestString(t *testing.T) {
	for _, tt := range []struct {
		list acl.List
		want string
	}{
		{acl.Private(), "O:BAD:P(A;OICI;0x1f01ff;;;SY)(A;OICI;0x1f01ff;;;BA)"},
		{acl.Volumes(), "O:BAD:P(A;OICI;0x1f01ff;;;SY)(A;OICI;0x1f01ff;;;BA)(A;OICI;0x1200a9;;;BU)" +
			"(A;CI;0x4;;;BU)(A;CIIO;0x2;;;BU)(A;OICIIO;0x10000000;;;CO)"},
	} {
		if got := tt.list.String(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}
