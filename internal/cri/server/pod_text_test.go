// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/mount"
)

// driveEngine is an Engine whose drive C is not the root directory.
type driveEngine struct{ linuxEngine }

func (driveEngine) Drive() string { return "/.wine/drive_c" }

func TestPodText(t *testing.T) {
	s := &Server{cfg: Config{Engine: driveEngine{}, StateDir: "/node/cri/state", RunDir: "/run/cri", Drive: "/node/c"}}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "open", Path: "/var/lib/x/f", Err: unix.ENOENT}, "open …: no such file or directory"},
		{&fs.PathError{Op: "open", Path: "/node/c/Users/f", Err: unix.ENOENT},
			`open C:\Users\f: no such file or directory`},
		{fmt.Errorf("a: %w", errors.Join(errors.New("b"), &os.LinkError{Op: "rename", Old: "/x/1", New: "/x/12",
			Err: unix.EXDEV})), "a: b\nrename … …: invalid cross-device link"},
		{errors.New(`error mounting "/node/cri/state/containers/1/mounts/0" to rootfs at "/.wine/drive_c/a b": EOF`),
			`error mounting "…" to rootfs at "C:\a b": EOF`},
		{errors.New("read /run/cri/runc/1: EOF; read /node/c: EOF"), `read …: EOF; read C:\: EOF`},
		// What the pod wrote stays.
		{errors.New(`hcs::System::CreateProcess: sh -c "/node/cat /etc/x /node/cri/stateful" 1: no`),
			`hcs::System::CreateProcess: sh -c "/node/cat /etc/x /node/cri/stateful" 1: no`},
		{&fs.PathError{Op: "mkdirat", Path: "volumes/x", Err: unix.ENOTDIR}, "mkdirat volumes/x: not a directory"},
	} {
		if got := s.podText(tt.err); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestNoMachinePaths: whatever fails, a pod shows no path of the machine.
func TestNoMachinePaths(t *testing.T) {
	l := newLab(t)
	sb := l.runSandbox(sandboxConfig("p"))
	for name, breakIt := range map[string]func(id string){
		"bundle": func(id string) { must(t, os.Remove(l.dir(id, bundleDir, "config.json"))) },
		"volume": func(id string) {
			must(t, mount.Unmount(l.dir(id, mountsDir, "0")))
			must(t, os.Remove(l.dir(id, mountsDir, "0")))
		},
		"program": func(id string) { must(t, os.Remove(l.dir(id, rootDir, "guest"))) },
	} {
		t.Run(name, func(t *testing.T) {
			c := containerConfig(name, "sleep")
			c.Mounts = []*runtime.Mount{{HostPath: l.hostVolume("v", "f"), ContainerPath: `C:\a`}}
			id := l.create(sb, c)
			breakIt(id)
			_, err := l.Runtime.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: id})
			if err == nil {
				t.Fatal("the container was started")
			}
			for _, text := range []string{err.Error(), l.status(id).Message} {
				for _, never := range []string{l.cfg.StateDir, l.cfg.RunDir, l.cfg.Drive, os.TempDir()} {
					if strings.Contains(text, never) {
						t.Errorf("%s: %s", never, text)
					}
				}
			}
			if got := l.status(id); got.Reason != "StartError" || got.ExitCode != 128 {
				t.Errorf("%v", got)
			}
		})
	}
}
