// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mount

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpenSource(t *testing.T) {
	drive, outside := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(drive, "File.txt"), nil, 0o600))
	must(t, os.Symlink(outside, filepath.Join(drive, "out")))
	must(t, unix.Mkfifo(filepath.Join(drive, "fifo"), 0o600))
	for path, dir := range map[string]bool{`C:\file.TXT`: false, `C:\made\here`: true} {
		f, info, err := OpenSource(drive, path)
		if err != nil || info.IsDir() != dir {
			t.Errorf("%s: %v", path, err)
			continue
		}
		must(t, f.Close())
	}
	if _, _, err := OpenSource(drive, `C:\fifo`); !errors.Is(err, ErrInvalid) {
		t.Errorf("a pipe: %v", err)
	}
	if f, _, err := OpenSource(drive, `C:\out\made`); err == nil {
		must(t, f.Close())
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside of the drive: %v, %v", entries, err)
	}
}

func TestOpenBeneath(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
	must(t, os.Symlink("d", filepath.Join(dir, "link")))
	f, err := OpenBeneath(dir, "d")
	must(t, err)
	must(t, f.Close())
	for _, rel := range []string{"link/x", "../d", "/etc"} {
		if f, err := OpenBeneath(dir, rel); err == nil {
			t.Errorf("%s was opened", rel)
			must(t, f.Close())
		}
	}
	link, err := OpenBeneath(dir, "link")
	must(t, err)
	if info, err := link.Stat(); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("a link at the end of the path: %v, %v", info, err)
	}
	must(t, link.Close())
	if _, err := OpenBeneath(dir, "missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

// TestBelow: a long line hides no later mount, and neither does a name that begins with dots.
func TestBelow(t *testing.T) {
	line := func(point, options string) string {
		return "36 35 98:0 / " + point + " rw,noatime shared:1 - overlay none rw" + options + "\n"
	}
	got := below(line("/d", "")+line("/d/a", ",lowerdir="+strings.Repeat("/layer:", 20<<10))+line("/d/a/b", "")+
		line(`/d/..c\040d`, "")+line("/da", "")+line("/", ""), "/d")
	if want := []string{"/d/..c d", "/d/a/b", "/d/a"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestUnmountBelow: whatever the names, and however deep.
func TestUnmountBelow(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	t.Cleanup(func() { must(t, UnmountBelow(dir)) })
	for _, name := range []string{"a", "a/b", "with space", `with\backslash`} {
		at := filepath.Join(dir, name)
		must(t, os.MkdirAll(at, 0o700))
		must(t, unix.Mount("tmpfs", at, "tmpfs", 0, "size=4k"))
	}
	if mounts, err := Below(dir); err != nil || len(mounts) != 4 {
		t.Errorf("mounted: %q, %v", mounts, err)
	}
	must(t, UnmountBelow(dir))
	if mounts, err := Below(dir); err != nil || len(mounts) > 0 {
		t.Errorf("still mounted: %q, %v", mounts, err)
	}
	must(t, Unmount(dir)) // nothing is mounted there
}
