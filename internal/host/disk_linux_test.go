// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// diskLab is a host's disk, without the host.
type diskLab struct {
	t    *testing.T
	spec Spec
}

func newDiskLab(t *testing.T) *diskLab {
	testenv.Need(t, testenv.Root)
	l := &diskLab{t: t, spec: Spec{Config: Config{Dir: t.TempDir(), Disk: 256 << 20}}}
	t.Cleanup(func() {
		if left := loops(t, l.spec.Dir); len(left) > 0 {
			t.Errorf("loop devices are left: %v", left)
		}
	})
	return l
}

// loops lists the loop devices that have files below a directory.
func loops(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		name, _ := os.ReadFile(f) // an error means that the device has just been freed
		if strings.HasPrefix(string(name), dir+"/") {
			out = append(out, f)
		}
	}
	return out
}

// open opens the disk, and returns the path of its root.
func (l *diskLab) open() (open *os.File, root string) {
	l.t.Helper()
	open, err := openDisk(l.t.Context(), l.spec, Machine{DiskBytes: 1 << 40})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = open.Close() })
	return open, fmt.Sprintf("/proc/self/fd/%d", open.Fd())
}

// allocated returns what the file of the disk takes of the machine's.
func (l *diskLab) allocated() int64 {
	l.t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(Disk(l.spec.Dir)+".img", &st); err != nil {
		l.t.Fatal(err)
	}
	return st.Blocks * 512
}

// fill writes until there is no room.
func fill(t *testing.T, file string) (written int64) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for piece := make([]byte, 1<<20); ; {
		n, err := f.Write(piece)
		written += int64(n)
		if errors.Is(err, unix.ENOSPC) {
			return written
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestDisk: a disk has the size that it should have, keeps its files, and gives the machine back
// what was deleted.
func TestDisk(t *testing.T) {
	l := newDiskLab(t)
	open, root := l.open()
	if size, err := sizeOfDisk(open); err != nil || size != l.spec.Disk {
		t.Errorf("%d bytes, %v, want %d", size, err, l.spec.Disk)
	}
	if n := l.allocated(); n > 32<<20 {
		t.Errorf("an empty disk takes %d MiB", n>>20)
	}
	if err := os.WriteFile(filepath.Join(root, "kept"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(root, "filler")
	if n := fill(t, filler); n < l.spec.Disk*3/4 || n > l.spec.Disk {
		t.Errorf("a disk of %d MiB takes %d MiB", l.spec.Disk>>20, n>>20)
	}
	sync := func() {
		dir, err := os.Open(root)
		if err == nil {
			err = errors.Join(unix.Syncfs(int(dir.Fd())), dir.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	sync()
	full := l.allocated()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	sync()
	if err := trim(root); err != nil {
		t.Fatal(err)
	}
	if left := l.allocated(); left >= full/4 {
		t.Errorf("of %d MiB, %d are left", full>>20, left>>20)
	}
	_ = open.Close()
	_, root = l.open()
	if _, err := os.Stat(filepath.Join(root, "kept")); err != nil {
		t.Errorf("opened again: %v", err)
	}
}

// TestFullMachineKeepsFiles replaces a file when the machine's disk has no room for its new content: the host finds the
// old content or the new one when it starts again.
func TestFullMachineKeepsFiles(t *testing.T) {
	l := newDiskLab(t)
	const size = "size=64m,mode=0700"
	if err := unix.Mount("machine", l.spec.Dir, "tmpfs", 0, size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(l.spec.Dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	open, root := l.open()
	file, before, after := "system.reg", bytes.Repeat([]byte("old\n"), 1<<20), bytes.Repeat([]byte("new\n"), 1<<21)
	if err := durable.WriteFile(filepath.Join(root, file), before, 0o600); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(l.spec.Dir, "ballast")
	fill(t, ballast)
	// As Wine saves a registry, without fsync.
	unfinished := filepath.Join(root, file+".new")
	if err := os.WriteFile(unfinished, after, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(unfinished, filepath.Join(root, file)); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("write to a full machine: %v", unix.Syncfs(int(dir.Fd()))) // the kernel may have reported it before
	testenv.Until(t, "the disk refuses to be written", func() bool {
		_ = unix.Syncfs(int(dir.Fd()))
		return errors.Is(tryWrite(root), unix.EROFS)
	})
	if err := errors.Join(dir.Close(), open.Close(), os.Remove(ballast)); err != nil {
		t.Fatal(err)
	}
	open, root = l.open()
	got, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, before) && !bytes.Equal(got, after) {
		t.Errorf("%d bytes, which begin with %q", len(got), got[:min(len(got), 8)])
	}
	if err := os.WriteFile(filepath.Join(root, "more"), after, 0o600); err != nil {
		t.Errorf("with room again: %v", err)
	}
	_ = open.Close()
}

// TestDiskSizes: a disk grows with its files, and does not shrink.
func TestDiskSizes(t *testing.T) {
	l := newDiskLab(t)
	open, root := l.open()
	if err := os.WriteFile(filepath.Join(root, "kept"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = open.Close()
	l.spec.Disk *= 2
	open, root = l.open()
	if size, err := sizeOfDisk(open); err != nil || size != l.spec.Disk {
		t.Errorf("%d bytes, %v, want %d", size, err, l.spec.Disk)
	}
	if _, err := os.Stat(filepath.Join(root, "kept")); err != nil {
		t.Error(err)
	}
	_ = open.Close()
	l.spec.Disk = 0
	open, _ = l.open()
	if size, err := sizeOfDisk(open); err != nil || size != 512<<20 {
		t.Errorf("without a size: %d bytes, %v", size, err)
	}
	_ = open.Close()
	l.spec.Disk = 64 << 20
	if _, err := openDisk(t.Context(), l.spec, Machine{}); err == nil || !strings.Contains(err.Error(),
		"has 512 MiB and cannot shrink to 64 MiB: choose --disk 512Mi or more") {
		t.Errorf("smaller: %v", err)
	}
}

// TestOneMountOfADisk: two would destroy it.
func TestOneMountOfADisk(t *testing.T) {
	l := newDiskLab(t)
	open, _ := l.open()
	ctx, cancel := context.WithTimeout(t.Context(), 3*freeEvery)
	defer cancel()
	if _, err := openDisk(ctx, l.spec, Machine{}); err == nil ||
		!strings.Contains(err.Error(), "a former run of the host still has it") {
		t.Errorf("opened twice: %v", err)
	}
	_ = open.Close()
}

// TestNoRoomForADisk: nothing of a disk is left whose making failed, and it is made when there
// is room.
func TestNoRoomForADisk(t *testing.T) {
	l := newDiskLab(t)
	if err := unix.Mount("small", l.spec.Dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(l.spec.Dir, 0); err != nil {
			t.Error(err)
		}
	})
	if _, err := openDisk(t.Context(), l.spec, Machine{}); err == nil || !strings.Contains(err.Error(), "disk.img") {
		t.Errorf("without room: %v", err)
	}
	if _, err := os.Stat(filepath.Join(l.spec.Dir, "disk.img")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a disk is left: %v", err)
	}
	if err := unix.Mount("", l.spec.Dir, "", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	open, _ := l.open()
	_ = open.Close()
	testenv.Until(t, "the loop devices are free", func() bool { return len(loops(t, l.spec.Dir)) == 0 })
}

// TestMoveIn: data of an earlier version is moved once, and an interrupted move begins again.
func TestMoveIn(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "lib"), filepath.Join(Disk(dir), "lib")
	put := func(name, content string) {
		t.Helper()
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = os.WriteFile(name, []byte(content), 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	move := func() {
		t.Helper()
		if err := MoveIn(t.Context(), dir, "lib"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(from); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the old place is there: %v", err)
		}
	}
	move() // a new host has nothing
	put(filepath.Join(from, "d", "file"), "whole")
	put(filepath.Join(to+".new", "d", "file"), "half")
	move()
	file := filepath.Join(to, "d", "file")
	if content, err := os.ReadFile(file); err != nil || string(content) != "whole" {
		t.Errorf("%q, %v", content, err)
	}
	put(filepath.Join(from, "d", "file"), "stale") // removing it was interrupted
	move()
	if content, err := os.ReadFile(file); err != nil || string(content) != "whole" {
		t.Errorf("after an interruption: %q, %v", content, err)
	}
}

func TestDiskSize(t *testing.T) {
	for _, tc := range []struct {
		free  int64
		hosts int
		want  int64
	}{
		{64 << 30, 4, 12 << 30}, {8 << 30, 4, 2 << 30}, {64 << 30, 0, 48 << 30}, {8 << 40, 1, 100 << 30},
	} {
		if got := diskSize(Machine{DiskBytes: tc.free}, tc.hosts); got != tc.want {
			t.Errorf("%d GiB, %d hosts: %d GiB, want %d", tc.free>>30, tc.hosts, got>>30, tc.want>>30)
		}
	}
}

// TestCheckSpace: a host does not run where the machine's disk is full, and says what to do.
func TestCheckSpace(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	if err := unix.Mount("small", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	err := CheckSpace(dir)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "free 192 MiB") {
		t.Errorf("%v", err)
	}
	if got := <-shortOfSpace(t.Context(), dir); got == nil || got.Error() != err.Error() {
		t.Errorf("watched: %v, want %v", got, err)
	}
}
