// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// volumesLab is a host's disk with Volumes, without the host.
type volumesLab struct {
	*Volumes
	t    *testing.T
	disk string
}

func newVolumesLab(t *testing.T) *volumesLab {
	t.Helper()
	l := newDiskLab(t)
	_, disk := l.open()
	sockets, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	parent := os.NewFile(uintptr(sockets[0]), "parent")
	ended := make(chan struct{})
	go func() { defer close(ended); mountVolumes(t.Context(), parent) }()
	v := &volumesLab{&Volumes{images: filepath.Join(disk, "claims"), dir: t.TempDir(), parent: sockets[1]}, t, disk}
	if err := os.Mkdir(v.images, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Close(sockets[1])
		<-ended
		places, _ := os.ReadDir(v.dir)
		for _, p := range places {
			if err := v.Close(t.Context(), p.Name(), false); err != nil {
				t.Error(err)
			}
		}
		// The disk lab sees to it that no loop device is left.
		testenv.Until(t, "the images are free", func() bool { return len(loops(t, "/claims")) == 0 })
	})
	return v
}

// makePlace makes the directory of a volume, as the driver does.
func (v *volumesLab) makePlace(id string) string {
	v.t.Helper()
	if err := os.Mkdir(v.place(id), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		v.t.Fatal(err)
	}
	return v.place(id)
}

// open opens a volume and returns its directory.
func (v *volumesLab) open(id string, bytes int64) string {
	v.t.Helper()
	at := v.makePlace(id)
	if err := v.Open(v.t.Context(), id, bytes); err != nil {
		v.t.Fatal(err)
	}
	return at
}

// free returns the free space of the host's disk in MiB.
func (v *volumesLab) free() int64 {
	v.t.Helper()
	n, err := freeBytes(v.disk)
	if err != nil {
		v.t.Fatal(err)
	}
	return n >> 20
}

func write(t *testing.T, name string, content []byte) {
	t.Helper()
	f, err := os.Create(name)
	if err == nil {
		_, err = f.Write(content)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestVolumes: a full volume takes nothing from the disk and its other volumes, and a full disk nothing from volumes.
func TestVolumes(t *testing.T) {
	v := newVolumesLab(t)
	v.makePlace("a")
	if err := errors.Join(os.Chown(v.place("a"), 7, 8), os.Chmod(v.place("a"), 0o751)); err != nil {
		t.Fatal(err)
	}
	a, b := v.open("a", 48<<20), v.open("b", 32<<20)
	var st unix.Stat_t
	if err := unix.Stat(a, &st); err != nil || st.Uid != 7 || st.Gid != 8 || st.Mode&0o7777 != 0o751 {
		t.Errorf("the root has mode %o, owner %d:%d, %v", st.Mode, st.Uid, st.Gid, err)
	}
	if entries, err := os.ReadDir(a); err != nil || len(entries) > 0 {
		t.Errorf("a new volume has %v, %v", entries, err)
	}
	before := v.free()
	if n := fill(t, filepath.Join(a, "filler")); n < 36<<20 || n > 48<<20 {
		t.Errorf("a volume of 48 MiB takes %d MiB", n>>20)
	}
	if after := v.free(); after < before-1 {
		t.Errorf("a full volume takes %d MiB of the disk", before-after)
	}
	write(t, filepath.Join(b, "first"), bytes.Repeat([]byte("b"), 8<<20))
	fill(t, filepath.Join(v.disk, "filler"))
	content := bytes.Repeat([]byte("c"), 12<<20)
	write(t, filepath.Join(b, "second"), content)
	if err := os.Remove(filepath.Join(v.disk, "filler")); err != nil {
		t.Fatal(err)
	}
	if err := v.Close(t.Context(), "b", false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(b, "second")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("closed: %v", err)
	}
	v.open("b", 0)
	v.open("b", 0)
	if got, err := os.ReadFile(filepath.Join(b, "second")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("opened again: %d bytes, %v", len(got), err)
	}
	if err := errors.Join(v.Close(t.Context(), "a", true), v.Close(t.Context(), "a", true)); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the room of a removed volume is the disk's", func() bool { return v.free() >= 40 })
	if err := v.Open(t.Context(), "a", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
}

// TestNoRoomForAVolume: nothing is left of a volume that could not be made, and it is made when there is room.
func TestNoRoomForAVolume(t *testing.T) {
	v := newVolumesLab(t)
	at := v.makePlace("a")
	untouched := func(when string) {
		t.Helper()
		entries, err := os.ReadDir(v.images)
		if err != nil || len(entries) > 0 {
			t.Errorf("%s: images %v, %v", when, entries, err)
		}
		if err := os.Remove(at); err != nil { // it fails if something is mounted or in it
			t.Errorf("%s: %v", when, err)
		}
		v.makePlace("a")
	}
	before := v.free()
	err := v.Open(t.Context(), "a", 1<<30)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "1024 MiB") ||
		!strings.Contains(err.Error(), "`mullion up --disk SIZE`") {
		t.Errorf("too large: %v", err)
	}
	untouched("too large")
	// What is left is the pods'.
	if err := v.Open(t.Context(), "a", before<<20); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("as large as the free space: %v", err)
	}
	untouched("as large as the free space")
	path := os.Getenv("PATH")
	t.Setenv("PATH", "/none")
	if err := v.Open(t.Context(), "a", 32<<20); err == nil || !strings.Contains(err.Error(), "mkfs.ext4") {
		t.Errorf("without mkfs: %v", err)
	}
	untouched("without mkfs")
	t.Setenv("PATH", path)
	if after := v.free(); after < before-1 {
		t.Errorf("failures take %d MiB", before-after)
	}
	write(t, filepath.Join(v.open("a", 32<<20), "file"), nil)
}

// TestClosedVolume: a closed volume takes the room of its data only. Without room for the rest it does not open, and
// nothing of it is lost.
func TestClosedVolume(t *testing.T) {
	v := newVolumesLab(t)
	all := v.free()
	content := bytes.Repeat([]byte("x"), 4<<20)
	write(t, filepath.Join(v.open("a", 64<<20), "file"), content)
	if err := v.Close(t.Context(), "a", false); err != nil {
		t.Fatal(err)
	}
	if n := all - v.free(); n < 4 || n > 12 {
		t.Errorf("closed, it takes %d MiB", n)
	}
	rest := v.free() - 256/5 - 32
	v.open("b", rest<<20)
	if err := v.Open(t.Context(), "a", 0); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("without room: %v", err)
	}
	if err := v.Close(t.Context(), "b", true); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "there is room", func() error { return v.Open(t.Context(), "a", 0) })
	if n := all - v.free(); n < 64 {
		t.Errorf("open, it takes %d MiB", n)
	}
	if got, err := os.ReadFile(filepath.Join(v.place("a"), "file")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestDamagedVolume: an image that cannot be mounted stays as it is, and so does the directory.
func TestDamagedVolume(t *testing.T) {
	v := newVolumesLab(t)
	v.open("a", 32<<20)
	if err := v.Close(t.Context(), "a", false); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the image is free", func() bool { return len(loops(t, "/claims")) == 0 })
	f, err := os.OpenFile(v.image("a"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	superblock := make([]byte, 1024)
	_, err = f.ReadAt(superblock, 1024)
	if _, e := f.WriteAt(make([]byte, 1024), 1024); errors.Join(err, e) != nil {
		t.Fatal(err, e)
	}
	if err := v.Open(t.Context(), "a", 32<<20); err == nil || !strings.Contains(err.Error(), "e2fsck") {
		t.Errorf("damaged: %v", err)
	}
	if _, err := f.WriteAt(superblock, 1024); errors.Join(err, f.Close()) != nil {
		t.Fatal(err)
	}
	v.open("a", 0)
}

// TestVolumeInUse: a second mount of an image would destroy it.
func TestVolumeInUse(t *testing.T) {
	v := newVolumesLab(t)
	f, err := os.Create(filepath.Join(v.open("a", 32<<20), "open"))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Close(t.Context(), "a", false); err != nil {
		t.Fatal(err)
	}
	if err := v.Open(t.Context(), "a", 0); err == nil || !strings.Contains(err.Error(), "still has a file") {
		t.Errorf("with a file open: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "it opens", func() error { return v.Open(t.Context(), "a", 0) })
}

// TestVolumeNames: names of volumes are not paths.
func TestVolumeNames(t *testing.T) {
	v := &Volumes{images: "/none", dir: "/none", parent: -1}
	for _, id := range []string{"", "..", "../a", "a/b", "a" + making} {
		for _, err := range []error{v.Open(t.Context(), id, 1), v.Close(t.Context(), id, true)} {
			if err == nil || !strings.Contains(err.Error(), "volume") || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q: %v", id, err)
			}
		}
	}
}
