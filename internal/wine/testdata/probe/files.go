// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/windows"
)

// links tries the operations of programs on symbolic links.
func links(t *probe) {
	dir, err := os.MkdirTemp("", "links")
	t.must(err)
	t.must(os.Chdir(dir))
	t.must(os.Mkdir("data", 0o755))
	t.must(os.WriteFile(`data\file`, []byte("content"), 0o644))

	// Relative, to a directory and to a file below it through the first.
	t.must(os.Symlink("data", "current"))
	t.must(os.Symlink(`current\file`, "file"))
	expectContent(t, "file", "content")
	expectContent(t, `current\file`, "content")
	expectLink(t, "current", "data")
	expectLink(t, "file", `current\file`)
	if i, err := os.Stat("current"); err != nil || !i.IsDir() {
		t.errorf("Stat follows: %v %v", i, err)
	}
	if i, err := os.Lstat("data"); err != nil || i.Mode()&fs.ModeSymlink != 0 || !i.IsDir() {
		t.errorf("Lstat of a directory: %v %v", i, err)
	}
	if _, err := os.Readlink(`data\file`); !errors.Is(err, syscall.Errno(4390)) {
		t.errorf("Readlink of a file: %v", err)
	}
	if err := os.Symlink("data", "current"); !errors.Is(err, fs.ErrExist) {
		t.errorf("Symlink over another: %v", err)
	}
	if err := os.Symlink("data", `nowhere\link`); !errors.Is(err, fs.ErrNotExist) {
		t.errorf("Symlink in a missing directory: %v", err)
	}

	// Absolute.
	abs := filepath.Join(dir, "data")
	t.must(os.Symlink(abs, "absolute"))
	expectContent(t, `absolute\file`, "content")
	expectLink(t, "absolute", abs)
	if p, err := filepath.EvalSymlinks(`absolute\file`); err != nil ||
		!strings.EqualFold(filepath.Base(filepath.Dir(p)), "data") {
		t.errorf("EvalSymlinks: %q %v", p, err)
	}

	// A link that leads nowhere is still there.
	t.must(os.Symlink("missing", "dangling"))
	expectLink(t, "dangling", "missing")
	if _, err := os.Stat("dangling"); !errors.Is(err, fs.ErrNotExist) {
		t.errorf("Stat of a dangling link: %v", err)
	}
	expectEntries(t, ".", "absolute@", "current@", "dangling@", "data/", "file@")

	// Renaming and removing concern the link.
	t.must(os.Rename("current", "renamed"))
	expectLink(t, "renamed", "data")
	t.must(os.Rename("renamed", "current"))
	t.must(os.Symlink(`data\file`, "new"))
	t.must(os.Rename("new", "file")) // onto another link
	expectLink(t, "file", `data\file`)
	for _, l := range []string{"file", "current", "absolute", "dangling"} {
		if err := os.Remove(l); err != nil {
			t.errorf("Remove %s: %v", l, err)
		}
	}
	expectEntries(t, ".", "data/")
	expectContent(t, `data\file`, "content")

	mklink(t)
	t.must(os.Chdir(os.TempDir()))
	t.must(os.RemoveAll(dir))
}

// mklink is the command with which upstream makes mounts on Windows.
func mklink(t *probe) {
	abs, err := filepath.Abs("data")
	t.must(err)
	for _, args := range [][]string{{"/D", "dirlink", abs}, {"filelink", filepath.Join(abs, "file")}} {
		if out, err := exec.Command("cmd", append([]string{"/c", "mklink"}, args...)...).CombinedOutput(); err != nil {
			t.errorf("mklink %v: %v: %s", args, err, out)
		}
	}
	expectLink(t, "dirlink", abs)
	expectContent(t, "filelink", "content")
	if out, err := exec.Command("cmd", "/c", "rmdir", "dirlink").CombinedOutput(); err != nil {
		t.errorf("rmdir: %v: %s", err, out)
	}
	if out, err := exec.Command("cmd", "/c", "del", "filelink").CombinedOutput(); err != nil {
		t.errorf("del: %v: %s", err, out)
	}
	expectEntries(t, ".", "data/")
	expectContent(t, `data\file`, "content")
	junction(t)
}

// junction makes a link of the older kind, which programs can tell from the other.
func junction(t *probe) {
	abs, err := filepath.Abs("data")
	t.must(err)
	if out, err := exec.Command("cmd", "/c", "mklink", "/J", "junction", "data").CombinedOutput(); err != nil {
		t.errorf("mklink /J: %v: %s", err, out)
	}
	expectContent(t, `junction\file`, "content")
	if i, err := os.Lstat("junction"); err != nil || i.Mode()&fs.ModeIrregular == 0 || i.Mode()&fs.ModeSymlink != 0 {
		t.errorf("Lstat of a junction: %v %v", i, err)
	}
	if got, err := os.Readlink("junction"); err != nil || !strings.EqualFold(got, abs) {
		t.errorf("Readlink of a junction: %q %v, want %q", got, err, abs)
	}
	entries, err := os.ReadDir(".")
	t.must(err)
	for _, e := range entries {
		if e.Name() == "junction" && e.Type()&fs.ModeIrregular == 0 {
			t.errorf("ReadDir of a junction: %v", e.Type())
		}
	}
	t.must(os.Rename("data", "moved"))
	if i, err := os.Lstat("junction"); err != nil || i.Mode()&fs.ModeIrregular == 0 {
		t.errorf("Lstat of a junction that leads nowhere: %v %v", i, err)
	}
	t.must(os.Rename("moved", "data"))
	t.must(os.Remove("junction"))
	expectContent(t, `data\file`, "content")
}

func expectContent(t *probe, path, want string) {
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.errorf("ReadFile %s: %q %v", path, got, err)
	}
}

func expectLink(t *probe, path, target string) {
	if i, err := os.Lstat(path); err != nil || i.Mode()&fs.ModeSymlink == 0 {
		t.errorf("Lstat %s: %v %v", path, i, err)
	}
	if got, err := os.Readlink(path); err != nil || !strings.EqualFold(got, target) {
		t.errorf("Readlink %s: %q %v, want %q", path, got, err, target)
	}
}

func expectEntries(t *probe, dir string, want ...string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.errorf("ReadDir: %v", err)
	}
	var got []string
	for _, e := range entries {
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			got = append(got, e.Name()+"@")
		case e.IsDir():
			got = append(got, e.Name()+"/")
		default:
			got = append(got, e.Name())
		}
	}
	if !slices.Equal(got, want) {
		t.errorf("ReadDir %s: %v, want %v", dir, got, want)
	}
}

func removeAll(t *probe) {
	dir, err := os.MkdirTemp("", "removeall")
	t.must(err)
	deep := filepath.Join(dir, "a", "b", "c")
	t.must(os.MkdirAll(deep, 0o755))
	t.must(os.WriteFile(filepath.Join(deep, "file"), []byte("x"), 0o644))
	readonly := filepath.Join(dir, "a", "readonly")
	t.must(os.WriteFile(readonly, []byte("x"), 0o644))
	t.must(os.Chmod(readonly, 0o444))
	outside, err := os.MkdirTemp("", "outside")
	t.must(err)
	t.must(os.WriteFile(filepath.Join(outside, "kept"), []byte("x"), 0o644))
	t.must(os.Symlink(outside, filepath.Join(dir, "a", "link")))
	t.must(os.Symlink("nowhere", filepath.Join(dir, "a", "dangling")))
	if err := os.RemoveAll(dir); err != nil {
		t.errorf("RemoveAll: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.errorf("Stat after RemoveAll: %v", err)
	}
	expectContent(t, filepath.Join(outside, "kept"), "x")

	// The name of an open file goes at once, so its directory can go too.
	name, err := windows.UTF16PtrFromString(filepath.Join(outside, "kept"))
	t.must(err)
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	open, err := windows.CreateFile(name, windows.GENERIC_READ, share, nil, windows.OPEN_EXISTING, 0, 0)
	t.must(err)
	if err := os.RemoveAll(outside); err != nil {
		t.errorf("RemoveAll with an open file: %v", err)
	}
	t.must(windows.CloseHandle(open))

	// os.Root uses the same calls with a directory handle.
	dir, err = os.MkdirTemp("", "root")
	t.must(err)
	root, err := os.OpenRoot(dir)
	t.must(err)
	t.must(root.Mkdir("d", 0o755))
	t.must(root.WriteFile("d/f", []byte("y"), 0o644))
	if err := root.Rename("d/f", "d/g"); err != nil {
		t.errorf("Root.Rename: %v", err)
	}
	if err := root.Symlink("d", "s"); err != nil {
		t.errorf("Root.Symlink: %v", err)
	}
	if l, err := root.Readlink("s"); err != nil || l != "d" {
		t.errorf("Root.Readlink: %q %v", l, err)
	}
	if b, err := root.ReadFile("s/g"); err != nil || string(b) != "y" {
		t.errorf("Root.ReadFile through a link: %q %v", b, err)
	}
	if err := root.RemoveAll("d"); err != nil {
		t.errorf("Root.RemoveAll: %v", err)
	}
	t.must(root.Close())
	t.must(os.RemoveAll(dir))
}

func messages(t *probe) {
	for code, want := range map[syscall.Errno]string{
		1:     "Incorrect function.",
		2:     "The system cannot find the file specified.",
		3:     "The system cannot find the path specified.",
		5:     "Access is denied.",
		32:    "The process cannot access the file because it is being used by another process.",
		87:    "The parameter is incorrect.",
		145:   "The directory is not empty.",
		183:   "Cannot create a file when that file already exists.",
		1060:  "The specified service does not exist as an installed service.",
		10048: "Only one usage of each socket address (protocol/network address/port) is normally permitted.",
		10061: "No connection could be made because the target machine actively refused it.",
		11001: "No such host is known.",
	} {
		if got := code.Error(); got != want {
			t.errorf("%d: %q, want %q", code, got, want)
		}
	}
	if _, err := os.Open(`C:\no\such`); err == nil ||
		!strings.HasSuffix(err.Error(), "The system cannot find the path specified.") {
		t.errorf("Open: %v", err)
	}
}
