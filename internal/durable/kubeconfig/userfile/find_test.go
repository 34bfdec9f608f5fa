// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package userfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	exists := filepath.Join(dir, "exists")
	if err := os.WriteFile(exists, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	home := func(uid int) (string, error) {
		if uid == 1000 {
			return "/home/ann", nil
		}
		return "", errors.New("unknown user")
	}
	for _, c := range []struct {
		name  string
		named string
		uid   int
		env   map[string]string
		want  File
		fails bool
	}{
		{name: "home", env: map[string]string{"HOME": "/root"}, want: File{Path: "/root/.kube/config"}},
		{name: "named", named: "/a", env: map[string]string{"KUBECONFIG": "/b"}, want: File{Path: "/a"}},
		{name: "KUBECONFIG", env: map[string]string{"KUBECONFIG": "/b", "HOME": "/root"}, want: File{Path: "/b"}},
		{name: "the first that exists", env: map[string]string{"KUBECONFIG": "/b:" + exists}, want: File{Path: exists}},
		{name: "the first of none", env: map[string]string{"KUBECONFIG": "/b:/c"}, want: File{Path: "/b"}},
		{name: "sudo", env: map[string]string{"HOME": "/root", "SUDO_UID": "1000", "SUDO_GID": "1001"},
			want: File{Path: "/home/ann/.kube/config", UID: 1000, GID: 1001}},
		{name: "sudo with KUBECONFIG",
			env:  map[string]string{"KUBECONFIG": "/b", "SUDO_UID": "1000", "SUDO_GID": "1001"},
			want: File{Path: "/b", UID: 1000, GID: 1001}},
		{name: "SUDO_UID without root", uid: 1000, env: map[string]string{"HOME": "/h", "SUDO_UID": "0"},
			want: File{Path: "/h/.kube/config", UID: 1000}},
		{name: "no HOME", uid: 1000, want: File{Path: "/home/ann/.kube/config", UID: 1000}},
		{name: "no home at all", uid: 7, fails: true},
		{name: "SUDO_UID is not a number", env: map[string]string{"SUDO_UID": "x"}, fails: true},
		{name: "SUDO_GID is missing", env: map[string]string{"SUDO_UID": "1000"}, fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Find(c.named, Environment{
				Getenv: func(name string) string { return c.env[name] },
				UID:    c.uid,
				Home:   home,
			})
			if (err != nil) != c.fails || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}
