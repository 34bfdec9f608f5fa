// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzMapEntry: whatever the name, a mapped path stays below the root and has
// clean components.
func FuzzMapEntry(f *testing.F) {
	for _, s := range []string{
		"Files/a/b", "Hives/System_Delta", "UtilityVM/x", "app/x", "../x", `Files\..\x`, "Files/C:/x", "Files/a:b",
		"Files/con", "Files/a.", "Files/.wh.x", "Files/.wh..wh..opq", "Files/.wh...", "/etc/passwd", "./x", "Files//a",
		"Files/a/", "Files/\xff", "", ".", "Files",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, sh := range []shape{shapeWindows, shapePlain} {
			m, err := mapEntry(sh, name)
			if err != nil {
				if !errors.Is(err, ErrInvalid) && !errors.Is(err, errMixed) {
					t.Errorf("%q: error of no kind: %v", name, err)
				}
				continue
			}
			if m.verdict != keep {
				continue
			}
			for _, p := range m.parts {
				if p == "" || p == "." || p == ".." || strings.ContainsAny(p, "/\\:\x00") || len(p) > maxNameBytes {
					t.Errorf("%q: component %q", name, p)
				}
			}
			if joined := filepath.Join(m.parts...); len(m.parts) > 0 && !filepath.IsLocal(joined) {
				t.Errorf("%q maps to %q", name, joined)
			}
		}
	})
}

// FuzzUnpack: no archive writes outside its directory, panics, or leaves a
// link that leads outside.
func FuzzUnpack(f *testing.F) {
	add := func(headers ...tar.Header) {
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		for _, h := range headers {
			if h.Typeflag == tar.TypeReg {
				h.Size = 1
			}
			if w.WriteHeader(&h) == nil && h.Size > 0 {
				_, _ = w.Write([]byte("x"))
			}
		}
		_ = w.Close()
		f.Add(buf.Bytes())
	}
	reg, sym, hard, dir := byte(tar.TypeReg), byte(tar.TypeSymlink), byte(tar.TypeLink), byte(tar.TypeDir)
	add(tar.Header{Typeflag: dir, Name: "Files/"}, tar.Header{Typeflag: reg, Name: "Files/a/b"},
		tar.Header{Typeflag: hard, Name: "Files/c", Linkname: "Files/a/b"})
	add(tar.Header{Typeflag: sym, Name: "Files/l", Linkname: `..\..\x`}, tar.Header{Typeflag: reg, Name: "Files/l/x"})
	add(tar.Header{Typeflag: sym, Name: "a/l", Linkname: "/etc"}, tar.Header{Typeflag: reg, Name: "a/.wh.l"},
		tar.Header{Typeflag: reg, Name: "a/l/passwd"})
	add(tar.Header{Typeflag: reg, Name: "Files/d/.wh..wh..opq"}, tar.Header{Typeflag: reg, Name: "Files/.wh.gone"})
	add(tar.Header{Typeflag: reg, Name: "Files/" + strings.Repeat("d/", maxDepth-1) + "x"},
		tar.Header{Typeflag: sym, Name: "Files/d/D"})
	f.Fuzz(func(t *testing.T, data []byte) {
		top := t.TempDir()
		layer := filepath.Join(top, "layer")
		if err := os.Mkdir(layer, 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(layer)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		limits := Limits{LayerBytes: 1 << 20, LayerEntries: 200}.withDefaults()
		u := newUnpacker(root, nil, &meter{limits: limits, compressed: int64(len(data))}, -1, -1)
		if err := u.run(t.Context(), bytes.NewReader(data)); err != nil {
			return
		}
		entries, err := os.ReadDir(top)
		if err != nil || len(entries) != 1 {
			t.Errorf("beside the layer: %v, %v", entries, err)
		}
		err = filepath.WalkDir(layer, func(name string, d os.DirEntry, err error) error {
			if err != nil || d.Type()&os.ModeSymlink == 0 {
				return err
			}
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(layer, filepath.Join(filepath.Dir(name), target))
			if err != nil || filepath.IsAbs(target) || !filepath.IsLocal(rel) {
				t.Errorf("link %s -> %s leads outside", name, target)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// FuzzMetadata: manifests, indexes and configs never panic, and what is
// accepted has been checked.
func FuzzMetadata(f *testing.F) {
	f.Add(
		[]byte(`{"schemaVersion":2,` +
			`"config":{"digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":0},` +
			`"layers":[]}`))
	f.Add(
		[]byte(`{"schemaVersion":2,` +
			`"manifests":[{"digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",` +
			`"platform":{"os":"windows","architecture":"amd64","os.version":"10.0.17763.1"}}]}`))
	f.Add([]byte(`{"os":"windows","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[]},` +
		`"history":[{"created_by":"Apply image x"}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		limits := Limits{}.withDefaults()
		m, err := decodeManifest(data, limits)
		if err == nil {
			if _, err := parseDigest(m.Config.Digest.String()); err != nil {
				t.Errorf("accepted config digest %q", m.Config.Digest)
			}
			if c, err := decodeConfig(data, len(m.Layers)); err == nil {
				baseLayers(m, c, "x")
			}
		}
		if c, err := decodeConfig(data, 0); err == nil {
			layerHistory(c)
		}
		if index, err := decodeIndex(data, limits); err == nil {
			for _, d := range index.Manifests {
				fits(d.Platform, Config{}.HostBuild)
			}
		}
	})
}

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"redis", "microsoft/iis", "a/b:c", "localhost:5000/x",
		"x@sha256:" + strings.Repeat("0", 64), "UPPER", "", ":", "a:b@c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseReference(s)
		if err != nil {
			return
		}
		again, err := ParseReference(r.String())
		if err != nil || again != r {
			t.Errorf("%q is %v; parses back as %v, %v", s, r, again, err)
		}
	})
}
