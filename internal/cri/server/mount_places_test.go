// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// inContainer runs a command of the guest and returns its output.
func (l *lab) inContainer(id string, args ...string) string {
	l.t.Helper()
	r, err := l.Runtime.ExecSync(l.t.Context(), &runtime.ExecSyncRequest{ContainerId: id,
		Cmd: append([]string{"/guest"}, args...)})
	must(l.t, err)
	return string(r.Stdout)
}

// hostVolume makes a volume on the host with the files, as a kubelet does, and returns its Windows path.
func (l *lab) hostVolume(name string, files ...string) string {
	l.t.Helper()
	for _, f := range files {
		at := filepath.Join(l.drive, "volumes", name, f)
		must(l.t, os.MkdirAll(filepath.Dir(at), 0o755))
		must(l.t, os.WriteFile(at, []byte(name+" "+f+"\n"), 0o644))
		must(l.t, os.Chmod(at, 0o666)) // whatever the umask
	}
	return `C:\volumes\` + name
}

// TestMountPairs mounts volumes inside volumes in both orders. The kubelet gives a path, and whether it is read-only: a
// ConfigMap, a Secret and a projected volume are read-only directories, an emptyDir, a hostPath and a claim are either,
// and a subPath may be a file.
func TestMountPairs(t *testing.T) {
	l := newLab(t)
	sb := l.runSandbox(sandboxConfig("p"))
	var kinds []innerVolume
	for i := range 8 {
		kinds = append(kinds, innerVolume{readOnly: i&1 != 0, file: i&2 != 0, exists: i&4 != 0})
	}
	spellings := []string{`C:\Data\sub`, `c:\dATA\SUB`, `/data/Sub`, `C:/DATA/.//sub/`}
	n := 0
	for _, outerReadOnly := range []bool{false, true} {
		for _, inner := range kinds {
			for _, reversed := range []bool{false, true} {
				n++
				p := mountPair{inner, outerReadOnly, reversed, spellings[n%len(spellings)]}
				t.Run(fmt.Sprintf("%d: %+v", n, p), func(t *testing.T) { testMountPair(t, l, sb, n, p) })
			}
		}
	}
}

// innerVolume is a volume inside another one. It exists if the other volume has something in its place.
type innerVolume struct{ readOnly, file, exists bool }

type mountPair struct {
	inner         innerVolume
	outerReadOnly bool
	reversed      bool
	spelling      string // of the inner volume's path
}

func testMountPair(t *testing.T, l *lab, sb string, n int, p mountPair) {
	files := []string{"outer.txt"}
	if p.inner.exists && p.inner.file {
		files = append(files, "Sub")
	} else if p.inner.exists {
		files = append(files, "Sub/hidden.txt")
	}
	outer := l.hostVolume(fmt.Sprint("outer", n), files...)
	inner := l.hostVolume(fmt.Sprint("inner", n), "file.txt")
	read := ""
	if p.inner.file {
		inner += `\file.txt`
	} else {
		read = "/file.txt"
	}
	c := containerConfig(fmt.Sprint("c", n), "sleep")
	c.Mounts = []*runtime.Mount{
		{HostPath: outer, ContainerPath: `C:\data`, Readonly: p.outerReadOnly},
		{HostPath: inner, ContainerPath: p.spelling, Readonly: p.inner.readOnly},
	}
	if p.reversed {
		slices.Reverse(c.Mounts)
	}
	id := l.run(sb, c)
	place := "/data/Sub"
	if !p.inner.exists { // the pod's spelling then
		place = "/data/" + filepath.Base(strings.ReplaceAll(p.spelling, `\`, "/"))
	}
	got := l.inContainer(id, "read", "/data/outer.txt", place+read)
	if want := fmt.Sprintf("outer%d outer.txt\ninner%d file.txt\n", n, n); got != want {
		t.Errorf("read %q, want %q", got, want)
	}
	if got := l.inContainer(id, "write", place+read, "new"); (got == "") == p.inner.readOnly {
		t.Errorf("write to the inner volume: %q", got)
	}
	if got := l.inContainer(id, "write", "/data/new.txt", "new"); (got == "") == p.outerReadOnly {
		t.Errorf("write to the outer volume: %q", got)
	}
}

// TestMountThree: any number of volumes, in any order.
func TestMountThree(t *testing.T) {
	l := newLab(t)
	sb := l.runSandbox(sandboxConfig("p"))
	must(t, os.Symlink("/a", filepath.Join(l.images.layer, "link")))
	c := containerConfig("c", "read", "/a/f", "/a/B/f", "/a/B/c/d/f", "/x/y", "/a/e/f")
	c.Mounts = []*runtime.Mount{
		{HostPath: l.hostVolume("three", "f"), ContainerPath: `C:\A\b\c\d`, Readonly: true},
		{HostPath: l.hostVolume("two", "f"), ContainerPath: `\a\B`, Readonly: true},
		{HostPath: l.hostVolume("one", "f"), ContainerPath: `C:/a`, Readonly: true},
		{HostPath: l.hostVolume("four", "f") + `\f`, ContainerPath: `C:\x\y`},
		{HostPath: l.hostVolume("five", "f"), ContainerPath: `C:\Link\e`},
	}
	config := sandboxConfig("p")
	l.wait(l.run(sb, c))
	var log strings.Builder
	for line := range strings.Lines(l.logText(config, "c")) {
		log.WriteString(strings.SplitN(line, " ", 4)[3])
	}
	if got := log.String(); got != "one f\ntwo f\nthree f\nfour f\nfive f\n" {
		t.Errorf("%q", got)
	}
}

// TestMountOtherKind: a volume hides what the image has in its place, even if one is a file and the other a directory.
func TestMountOtherKind(t *testing.T) {
	l := newLab(t)
	sb := l.runSandbox(sandboxConfig("p"))
	c := containerConfig("c", "read", "/windows/System32/drivers", "/etc/hosts")
	c.Mounts = []*runtime.Mount{{HostPath: l.hostVolume("v", "f") + `\f`, ContainerPath: `C:\windows\system32\drivers`}}
	if st := l.wait(l.run(sb, c)); st.ExitCode != 0 {
		t.Errorf("%v\n%s", st, l.logText(sandboxConfig("p"), "c"))
	}
}

// TestMountRefusals: a mistake is refused when the container is made, with the pod's paths.
func TestMountRefusals(t *testing.T) {
	l := newLab(t)
	sb := l.runSandbox(sandboxConfig("p"))
	v := l.hostVolume("v", "f", "d/f")
	for name, tt := range map[string]struct {
		mounts []*runtime.Mount
		want   string
	}{
		"in a file": {
			[]*runtime.Mount{{HostPath: v, ContainerPath: `C:\a\b`}, {HostPath: v + `\f`, ContainerPath: `C:\a`}},
			`mount at "C:\\a\\b": "C:\\a" is a file`,
		},
		"at one place": {
			[]*runtime.Mount{{HostPath: v, ContainerPath: `C:\a`}, {HostPath: v + `\d`, ContainerPath: `c:/A/`}},
			`mount at "c:/A/": another volume is mounted at "C:\\a"`,
		},
		"file on a directory of a volume": {
			[]*runtime.Mount{{HostPath: v, ContainerPath: `C:\a`}, {HostPath: v + `\f`, ContainerPath: `C:\a\d`}},
			`create mount point "C:\\a\\d": a file and a directory cannot be mounted on each other`,
		},
		"directory on a file of a volume": {
			[]*runtime.Mount{{HostPath: v, ContainerPath: `C:\a`}, {HostPath: v, ContainerPath: `C:\a\f`}},
			`create mount point "C:\\a\\f": a file and a directory cannot be mounted on each other`,
		},
		"below a file of a volume": {
			[]*runtime.Mount{{HostPath: v, ContainerPath: `C:\a`}, {HostPath: v, ContainerPath: `C:\a\f\x`}},
			`mount at "C:\\a\\f\\x" in the volume at "C:\\a": resolve \f\x: f: not a directory`,
		},
		"source below a file": {
			[]*runtime.Mount{{HostPath: v + `\f\x`, ContainerPath: `C:\a`}},
			`failed to stat "C:\\volumes\\v\\f\\x": resolve C:\volumes\v\f\x: volumes/v/f: not a directory`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := containerConfig("c", "sleep")
			c.Mounts = tt.mounts
			_, err := l.Runtime.CreateContainer(t.Context(),
				&runtime.CreateContainerRequest{PodSandboxId: sb, Config: c})
			if err == nil || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("%v\nwant %s", err, tt.want)
			}
		})
	}
}
