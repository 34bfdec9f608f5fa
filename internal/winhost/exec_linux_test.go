// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"slices"
	"testing"

	"github.com/mullion-k8s/mullion/internal/wine"
)

// TestDescribeExec: a program of the administrator's is confined, and sees the
// variables of Windows that an account has.
func TestDescribeExec(t *testing.T) {
	p := describeExec(wine.Host{Runtime: "/cache/wine", Prefix: "/prefix"}, "win-1", []string{"cmd", "/c", "echo a"})
	want := []string{"/cache/wine/usr/lib/mullion/init", "-confine", "--", "/cache/wine/usr/lib/mullion/init", "-host",
		"-root", "/prefix/drive_c", "-loader", "/cache/wine/usr/lib/wine/wine64", "-exec", "--", "cmd", "/c", "echo a"}
	if !slices.Equal(p.Argv, want) {
		t.Errorf("argv is %q, want %q", p.Argv, want)
	}
	for _, e := range []string{"WINEPREFIX=/prefix", "USER=Administrator", "PATH=/usr/bin"} {
		if !slices.Contains(p.Env, e) {
			t.Errorf("environment %q lacks %s", p.Env, e)
		}
	}
}
