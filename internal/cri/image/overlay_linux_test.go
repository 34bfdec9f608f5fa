// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestOverlay mounts an image's layers: overlayfs understands its whiteouts and
// opaque directories.
func TestOverlay(t *testing.T) {
	testenv.Need(t, testenv.Root)
	cfg := testConfig(t)
	cfg.UID, cfg.GID = image.DefaultID, image.DefaultID
	s := open(t, t.TempDir(), cfg)
	img := build(t, imagebuild.Spec{Layers: []imagebuild.Layer{
		{Entries: []imagebuild.Entry{
			{Path: "keep.txt", Content: []byte("1")}, {Path: "gone.txt", Content: []byte("1")},
			{Path: "dir/old.txt", Content: []byte("1")}, {Path: "one", Content: []byte("linked")},
			{Path: "windir/sub/x", Content: []byte("1")},
		}},
		{Entries: []imagebuild.Entry{
			{Path: "GONE.TXT", Whiteout: true}, {Path: "Dir", Opaque: true},
			{Path: "dir/new.txt", Content: []byte("2")}, {Path: "two", Hardlink: "one"},
			{Path: "three", Hardlink: "two"}, {Path: "windir/sub", Whiteout: true},
		}},
	}})
	loaded, err := s.Load(context.Background(), layout(t, map[string]*imagebuild.Image{"example.com/o:1": img}))
	if err != nil {
		t.Fatal(err)
	}
	layers := slices.Clone(loaded[0].Layers)
	slices.Reverse(layers)
	work := t.TempDir()
	merged := mountOverlay(t, strings.Join(layers, ":"), work)
	if want := []string{"dir/", "dir/new.txt", "keep.txt", "one", "three", "two",
		"windir/"}; !slices.Equal(tree(t, merged), want) {
		t.Errorf("merged %q, want %q", tree(t, merged), want)
	}
	if data, err := os.ReadFile(filepath.Join(merged, "three")); err != nil || string(data) != "linked" {
		t.Errorf("hard link into a lower layer: %q, %v", data, err)
	}
	if uid := ownerOf(t, filepath.Join(merged, "keep.txt")); uid != image.DefaultID {
		t.Errorf("owner %d", uid)
	}
}

// TestDiskFull: the error says so, nothing stays, and the store works again
// once there is room.
func TestDiskFull(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	mountTmpfs(t, dir, "size=2m")
	s := open(t, dir, testConfig(t))
	big := imageTar(t, "Files/big", 4<<20)
	spec := func(raw []byte) *imagebuild.Image {
		return build(t, imagebuild.Spec{Layers: []imagebuild.Layer{{Raw: raw}}})
	}
	if _, err := s.Load(context.Background(),
		layout(t, map[string]*imagebuild.Image{"example.com/big:1": spec(big)})); err == nil ||
		!strings.Contains(err.Error(), "no space left on device") {
		t.Fatalf("error %v", err)
	}
	srv := newServer(t, false)
	srv.push(t, "big", "1",
		build(t, imagebuild.Spec{Layers: []imagebuild.Layer{{Raw: big, Compression: imagebuild.None}}}))
	if _, err := s.Pull(context.Background(), srv.host()+"/big:1", nil); err == nil ||
		!strings.Contains(err.Error(), "no space left on device") {
		t.Fatalf("error %v", err)
	}
	for _, sub := range []string{"l", "m", "images", "ingest"} {
		if left := tree(t, filepath.Join(dir, sub)); len(left) > 0 {
			t.Errorf("%s has %q", sub, left)
		}
	}
	if _, err := s.Load(context.Background(),
		layout(t, map[string]*imagebuild.Image{"example.com/small:1": spec(rawTar(t, file("Files/x")))})); err != nil {
		t.Errorf("a small image afterwards: %v", err)
	}
}

// TestOwner: unpacked files belong to the user that containers run as.
func TestOwner(t *testing.T) {
	testenv.Need(t, testenv.Root)
	cfg := testConfig(t)
	cfg.UID, cfg.GID = 0, 0 // the default
	s := open(t, t.TempDir(), cfg)
	imgs, err := s.Load(context.Background(),
		layout(t, map[string]*imagebuild.Image{"example.com/a:1": build(t, appSpec())}))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range imgs[0].Layers[1:] {
		for _, name := range append(tree(t, l), ".") {
			name, _, _ = strings.Cut(name, " ")
			if uid := ownerOf(t, filepath.Join(l, name)); uid != image.DefaultID &&
				!strings.HasSuffix(name, "old.txt") {
				t.Errorf("%s belongs to %d", name, uid)
			}
		}
	}
}

// mountOverlay mounts lower directories below a writable one until the test ends.
func mountOverlay(t *testing.T, lower, work string) string {
	t.Helper()
	merged := filepath.Join(work, "merged")
	for _, d := range []string{"upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(work, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	options := "lowerdir=" + lower + ",upperdir=" + filepath.Join(work, "upper") + ",workdir=" +
		filepath.Join(work, "work")
	if err := syscall.Mount("overlay", merged, "overlay", 0, options); err != nil {
		t.Fatalf("mount overlay: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(merged, 0); err != nil {
			t.Error(err)
		}
	})
	return merged
}

func mountTmpfs(t *testing.T, dir, options string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatalf("mount tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

func ownerOf(t *testing.T, name string) int {
	t.Helper()
	st, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return int(st.Sys().(*syscall.Stat_t).Uid)
}
