// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// standIns is a semantic stand-in for the catalogue of the standin package.
type standIns struct{ base string }

func (s standIns) Resolve(image.Reference, winver.Build) (image.StandIn, bool) {
	return image.StandIn{}, false
}

func (s standIns) BaseLayers(kind image.BaseKind) ([]string, bool) {
	dirs := []string{s.base + "/" + string(kind)}
	if kind == image.IIS {
		dirs = []string{s.base + "/servercore", s.base + "/iis"}
	}
	return dirs, s.base != ""
}

func build2019() winver.Build {
	b, _ := winver.Find(17763)
	return b
}

// testConfig is for a host of Windows Server 2019 with stand-in bases.
func testConfig(t testing.TB) image.Config {
	t.Helper()
	external := t.TempDir()
	for _, kind := range []string{"servercore", "nanoserver", "iis"} {
		if err := os.MkdirAll(filepath.Join(external, "base", kind, "windows", "system32"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return image.Config{HostBuild: build2019(), StandIns: standIns{"base"}, ExternalDir: external, UID: -1, GID: -1}
}

func open(t testing.TB, dir string, cfg image.Config) *image.Store {
	t.Helper()
	s, err := image.Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func build(t testing.TB, spec imagebuild.Spec) *imagebuild.Image {
	t.Helper()
	if spec.Build.Number == 0 {
		spec.Build = build2019()
	}
	img, err := imagebuild.Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func layout(t testing.TB, images map[string]*imagebuild.Image) *bytes.Buffer {
	t.Helper()
	var buf bytes.Buffer
	if err := imagebuild.WriteLayout(&buf, images); err != nil {
		t.Fatal(err)
	}
	return &buf
}

// tree lists what lies below a directory: "path", "path/" and "path -> target".
func tree(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		switch {
		case d.IsDir():
			rel += "/"
		case d.Type()&os.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			rel += " -> " + target
		case d.Type()&os.ModeCharDevice != 0:
			rel += " (whiteout)"
		}
		out = append(out, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func appSpec() imagebuild.Spec {
	return imagebuild.Spec{
		Base: "servercore",
		Layers: []imagebuild.Layer{
			{Entries: []imagebuild.Entry{
				{Path: "app/server.exe", Content: []byte("MZ one")},
				{Path: "app/old.txt", Content: []byte("old")},
				{Path: "Windows/System32/extra.dll", Content: []byte("dll")},
			}},
			{Plain: true, Compression: imagebuild.Zstd, Entries: []imagebuild.Entry{
				{Path: "APP/Config.json", Content: []byte("{}"), ReadOnly: true},
				{Path: "App/OLD.txt", Whiteout: true},
				{Path: "link", Symlink: `C:\APP\config.JSON`},
			}},
		},
		Config: v1.Config{Entrypoint: []string{`C:\app\server.exe`}, Env: []string{"A=1"}, WorkingDir: `C:\app`},
	}
}

func TestLoad(t *testing.T) {
	img := build(t, appSpec())
	var docker bytes.Buffer
	if err := imagebuild.WriteDocker(&docker, map[string]*imagebuild.Image{"example/app:1": img}); err != nil {
		t.Fatal(err)
	}
	for name, archive := range map[string]*bytes.Buffer{
		"oci layout":  layout(t, map[string]*imagebuild.Image{"docker.io/example/app:1": img}),
		"docker save": &docker,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			dir := t.TempDir()
			s := open(t, dir, cfg)
			loaded, err := s.Load(context.Background(), archive)
			if err != nil {
				t.Fatal(err)
			}
			if len(loaded) != 1 {
				t.Fatalf("%d images", len(loaded))
			}
			got := loaded[0]
			if got.ID != img.Config.Descriptor.Digest.String() ||
				!slices.Equal(got.RepoTags, []string{"docker.io/example/app:1"}) ||
				got.OSVersion != build2019().OSVersion() || got.Config.Entrypoint[0] != `C:\app\server.exe` ||
				got.StandIn || got.NoBase {
				t.Errorf("image %+v", got)
			}
			if len(got.Layers) != 3 || got.Layers[0] != filepath.Join(cfg.ExternalDir, "base", "servercore") {
				t.Fatalf("layers %q", got.Layers)
			}
			if want := []string{"app/", "app/old.txt", "app/server.exe", "windows/", "windows/system32/",
				"windows/system32/extra.dll"}; !slices.Equal(tree(t, got.Layers[1]), want) {
				t.Errorf("layer 1 %q", tree(t, got.Layers[1]))
			}
			if want := []string{"app/", "app/Config.json", "app/old.txt (whiteout)",
				"link -> app/Config.json"}; !slices.Equal(tree(t, got.Layers[2]), want) {
				t.Errorf("layer 2 %q", tree(t, got.Layers[2]))
			}
			if st, err := os.Stat(filepath.Join(got.Layers[2], "app", "Config.json")); err != nil ||
				st.Mode().Perm()&0o222 != 0 {
				t.Errorf("read-only attribute: %v, %v", st.Mode(), err)
			}
			// Everything is found again, by every name, after a restart.
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, cfg)
			for _, ref := range []string{got.ID, strings.TrimPrefix(got.ID, "sha256:"), got.ID[7:19], "example/app:1",
				"docker.io/example/app:1", got.RepoDigests[0]} {
				again, err := s.Get(ref)
				if err != nil || again.ID != got.ID || !slices.Equal(again.Layers, got.Layers) {
					t.Errorf("Get(%q) = %v, %v", ref, again, err)
				}
			}
			info, err := s.FsInfo()
			if err != nil || info.UsedBytes == 0 || info.InodesUsed < 5 {
				t.Errorf("FsInfo %+v, %v", info, err)
			}
			if err := s.Remove(context.Background(), "example/app:1"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Get(got.ID); !errors.Is(err, image.ErrNotFound) {
				t.Errorf("after Remove: %v", err)
			}
			for _, sub := range []string{"l", "m", "images", "blobs/sha256", "ingest"} {
				if left := tree(t, filepath.Join(dir, sub)); len(left) != 0 {
					t.Errorf("%s still has %q", sub, left)
				}
			}
		})
	}
}

// TestLoadFolder: a folder's files lie on the stand-in of its base, or, without a base, on
// Wine's directories alone, which the image's NoBase shows.
func TestLoadFolder(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := errors.Join(root.Mkdir("bin", 0o700), root.WriteFile("lib.js", nil, 0o600), root.Mkdir("tmp", 0o700),
		root.Symlink("../lib.js", "bin/run.js")); err != nil {
		t.Fatal(err)
	}
	layer, err := imagebuild.Streamed(func(w io.Writer) error {
		return imagebuild.TarFolder(t.Context(), w, root, "app")
	})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, t.TempDir(), testConfig(t))
	for _, base := range []string{"nanoserver", ""} {
		var images []*imagebuild.Image
		for _, b := range winver.All() {
			images = append(images, build(t, imagebuild.Spec{Build: b, Base: base,
				Layers: []imagebuild.Layer{{Finished: layer}}}))
		}
		var archive bytes.Buffer
		if err := imagebuild.WriteIndex(&archive, "app:1", images...); err != nil {
			t.Fatal(err)
		}
		loaded, err := s.Load(t.Context(), &archive)
		if err != nil || len(loaded) != 1 {
			t.Fatalf("%d images, %v", len(loaded), err)
		}
		got := loaded[0]
		if got.OSVersion != build2019().OSVersion() || got.NoBase != (base == "") ||
			(len(got.Layers) == 2) != (base != "") {
			t.Errorf("base %q: %+v", base, got)
		}
		if files := tree(t, got.Layers[len(got.Layers)-1]); !slices.Equal(files, []string{"app/", "app/bin/",
			"app/bin/run.js -> ../../app/lib.js", "app/lib.js", "app/tmp/"}) {
			t.Errorf("base %q: files %q", base, files)
		}
	}
}
