// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hostprocess

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/engine"
	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/wine"
)

// newHost returns a host with some files on drive C, and a container with some in
// its image. At the end of the test nothing may be mounted.
func newHost(t *testing.T) (*Host, engine.HostContainer) {
	t.Helper()
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	h := &Host{
		Wine:     wine.Host{Runtime: "/runtime", Prefix: filepath.Join(dir, "prefix")},
		Drive:    filepath.Join(dir, "prefix", "drive_c"),
		Computer: "win-1",
		Views:    filepath.Join(dir, "views"),
		Sockets:  filepath.Join(dir, "sockets"),
		Shared:   []string{"/usr", "/no-such-directory"},
	}
	c := engine.HostContainer{
		ID:     "c1",
		Image:  filepath.Join(dir, "image"),
		Root:   filepath.Join(dir, "linux"),
		Status: filepath.Join(dir, "status"),
	}
	for name, content := range map[string]string{
		"prefix/drive_c/Windows/host.txt": "host",
		"prefix/drive_c/vol/in.txt":       "volume",
		"prefix/drive_c/one.txt":          "one",
		"image/app.exe":                   "image",
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	must(t, os.Mkdir(h.Views, 0o755))
	t.Cleanup(func() {
		if err := h.Remove(c.ID); err != nil {
			t.Error(err)
		}
		if mounts, err := mount.Below(dir); err != nil || len(mounts) > 0 {
			t.Errorf("left mounted: %v, %v", mounts, err)
		}
	})
	return h, c
}

// read returns the content of a file, or the error.
func read(elem ...string) string {
	data, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// TestView: a container sees the host, its image and its volumes, and the host
// sees none of the latter.
func TestView(t *testing.T) {
	h, c := newHost(t)
	c.Mounts = []*runtime.Mount{
		{HostPath: `C:\vol`, ContainerPath: `C:\mnt\v`},
		{HostPath: `C:\vol`, ContainerPath: `C:\ro`, Readonly: true},
		{HostPath: `C:\one.txt`, ContainerPath: `C:\etc\one.txt`},
		{HostPath: `C:\new`, ContainerPath: `C:\new-here`},
	}
	must(t, h.Make(c))
	drive := filepath.Join(h.Views, c.ID, "drive_c")
	for name, want := range map[string]string{
		"Windows/host.txt": "host",
		"hpc/app.exe":      "image",
		"mnt/v/in.txt":     "volume",
		"ro/in.txt":        "volume",
		"etc/one.txt":      "one",
		"hpc/mnt/v/in.txt": "volume", // hcsshim's link
	} {
		if got := read(drive, name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	must(t, os.WriteFile(filepath.Join(drive, "mnt", "v", "out.txt"), []byte("x"), 0o644))
	must(t, os.WriteFile(filepath.Join(drive, "made.txt"), []byte("x"), 0o644))
	if err := os.WriteFile(filepath.Join(drive, "ro", "x"), nil, 0o644); !errors.Is(err, unix.EROFS) {
		t.Errorf("write to the read-only volume: %v", err)
	}
	for name, want := range map[string]bool{
		"vol/out.txt": true, "made.txt": true, "hpc/app.exe": false, "mnt/v/in.txt": false,
	} {
		if _, err := os.Stat(filepath.Join(h.Drive, name)); (err == nil) != want {
			t.Errorf("on the host, %s: %v", name, err)
		}
	}
	if ids := h.Containers(); len(ids) != 1 || ids[0] != c.ID {
		t.Errorf("containers %v", ids)
	}
	must(t, h.Remove(c.ID))
	if ids := h.Containers(); len(ids) != 0 {
		t.Errorf("after the removal: %v", ids)
	}
	if got := read(h.Drive, "vol", "in.txt"); got != "volume" {
		t.Errorf("the removal took a file of the host: %s", got)
	}
	must(t, h.Remove(c.ID)) // nothing is left to do
}

// TestViewNested: volumes inside volumes, in both orders and in any spelling.
func TestViewNested(t *testing.T) {
	for _, reversed := range []bool{false, true} {
		h, c := newHost(t)
		c.Mounts = []*runtime.Mount{
			{HostPath: `C:\vol`, ContainerPath: `C:\Mnt`, Readonly: true},
			{HostPath: `C:\Windows`, ContainerPath: `c:/MNT/Deep/sub`},
			{HostPath: `C:\one.txt`, ContainerPath: `\mnt\deep\Sub\new\one.txt`, Readonly: true},
			{HostPath: `C:\one.txt`, ContainerPath: `\mnt\in.txt`, Readonly: true},
		}
		if reversed {
			slices.Reverse(c.Mounts)
		}
		must(t, h.Make(c))
		drive := filepath.Join(h.Views, c.ID, "drive_c")
		for name, want := range map[string]string{
			"Mnt/in.txt": "one", "Mnt/Deep/sub/host.txt": "host", "Mnt/Deep/sub/new/one.txt": "one",
		} {
			if got := read(drive, name); got != want {
				t.Errorf("reversed %v, %s: %s, want %s", reversed, name, got, want)
			}
		}
		must(t, os.WriteFile(filepath.Join(drive, "Mnt", "Deep", "sub", "out.txt"), nil, 0o644))
		for _, name := range []string{"Mnt/out.txt", "Mnt/Deep/sub/new/one.txt"} {
			if err := os.WriteFile(filepath.Join(drive, name), nil, 0o644); !errors.Is(err, unix.EROFS) {
				t.Errorf("reversed %v, write to %s: %v", reversed, name, err)
			}
		}
		must(t, h.Remove(c.ID))
	}
}

// TestViewRefusals: what hcsshim refuses, and what leads out of drive C.
func TestViewRefusals(t *testing.T) {
	for name, row := range map[string]struct {
		mount   *runtime.Mount
		want    string
		invalid bool
	}{
		"pipe": {
			&runtime.Mount{HostPath: `\\.\pipe\x`, ContainerPath: `\\.\pipe\x`},
			"named pipe mounts not supported for job containers - interact with the pipe directly", false,
		},
		"drive C": {
			&runtime.Mount{HostPath: `C:\vol`, ContainerPath: "c:"},
			"destination path can not be C drive", true,
		},
		"root": {
			&runtime.Mount{HostPath: `C:\vol`, ContainerPath: `C:\`},
			`mount "C:\\": destination path can not be C drive`, true,
		},
		"image": {
			&runtime.Mount{ContainerPath: `C:\x`, Image: &runtime.ImageSpec{Image: "i"}},
			`mount "C:\\x": image volumes are not supported on Windows`, true,
		},
		"file on a directory": {
			&runtime.Mount{HostPath: `C:\one.txt`, ContainerPath: `C:\vol`},
			`mount "C:\\vol": a file and a directory cannot be mounted on each other`, true,
		},
		"socket": {
			&runtime.Mount{HostPath: `C:\fifo`, ContainerPath: `C:\x`},
			`mount "C:\\fifo": only files and directories can be mounted`, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, c := newHost(t)
			must(t, unix.Mkfifo(filepath.Join(h.Drive, "fifo"), 0o600))
			c.Mounts = []*runtime.Mount{row.mount}
			err := h.Make(c)
			if err == nil || err.Error() != row.want || errors.Is(err, mount.ErrInvalid) != row.invalid {
				t.Errorf("%v, invalid: %v", err, errors.Is(err, mount.ErrInvalid))
			}
		})
	}
}

// TestViewLinks: a link that a container left on the host leads nowhere else.
func TestViewLinks(t *testing.T) {
	h, c := newHost(t)
	outside := t.TempDir()
	must(t, os.Symlink(outside, filepath.Join(h.Drive, "out")))
	c.Mounts = []*runtime.Mount{{HostPath: `C:\vol`, ContainerPath: `C:\out\place`}}
	_ = h.Make(c) // whether it is refused is not the point
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside of the host: %v, %v", entries, err)
	}
}

// TestSpec: the container sees the view, Wine and what is shared, and nothing of
// the runtime.
func TestSpec(t *testing.T) {
	h, c := newHost(t)
	spec := h.Spec(c)
	var seen []string
	for _, m := range spec.Mounts {
		if m.Source == m.Destination {
			seen = append(seen, m.Source)
		}
	}
	if !spec.HostProcess || spec.Rootfs != c.Root || len(seen) != 4 {
		t.Errorf("%+v", spec)
	}
	must(t, h.Make(c))
	if info, err := os.Lstat(filepath.Join(c.Root, "bin")); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("bin is %v", info.Mode())
	}
	p := h.Process(engine.Program{Container: c.ID, User: `NT AUTHORITY\SYSTEM`, Args: []string{"cmd"}})
	if !p.Host || p.UID != 0 {
		t.Errorf("%+v", p)
	}
}
