// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestBooted(t *testing.T) {
	type process struct {
		pid, parent int
		cmdline     string
	}
	init := process{1, 0, "/usr/lib/mullion/init\x00-status\x00main\x00"}
	exec := process{20, 0, "/usr/lib/mullion/init\x00-exec\x00"}
	services := process{12, 1, `C:\windows\system32\services.exe`}
	starting := process{9, 1, "/usr/lib/wine/wine64\x00C:\\app.exe\x00"}
	for _, tc := range []struct {
		name string
		list []process
		want bool
	}{
		{"before the program is started", []process{init, exec}, false},
		{"forked", []process{init, exec, {9, 1, "/usr/lib/mullion/init\x00-status\x00"}}, false},
		{"starting", []process{init, exec, starting}, false},
		{"services run", []process{init, exec, starting, services}, false},
		{"running", []process{init, exec, {9, 1, "C:\\app.exe\x00"}, services}, true},
		{"running as the manifest calls it", []process{init, exec, {9, 1, "./app\x00"}}, true},
		{"started after a program of exec", []process{init, {5, 0, "C:\\probe.exe\x00"}, starting}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			proc := t.TempDir()
			for _, p := range tc.list {
				dir := filepath.Join(proc, fmt.Sprint(p.pid))
				stat := fmt.Appendf(nil, "%d (a) b) S %d 1 1 0", p.pid, p.parent)
				err := errors.Join(
					os.Mkdir(dir, 0o755),
					os.WriteFile(filepath.Join(dir, "stat"), stat, 0o600),
					os.WriteFile(filepath.Join(dir, "cmdline"), []byte(p.cmdline), 0o600),
				)
				if err != nil {
					t.Fatal(err)
				}
			}
			if got := booted(proc); got != tc.want {
				t.Errorf("booted is %t, want %t", got, tc.want)
			}
		})
	}
}
