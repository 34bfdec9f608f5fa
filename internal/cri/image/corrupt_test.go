// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
)

// layoutOf writes an OCI layout of arbitrary parts. Blobs are filed under the
// digest that names says, which need not be theirs.
func layoutOf(t testing.TB, manifest []byte, blobs map[string][]byte) *bytes.Buffer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	put := func(name string, data []byte) {
		if err := w.WriteHeader(&tar.Header{
			Name:     name,
			Typeflag: tar.TypeReg,
			Size:     int64(len(data)),
			Mode:     0o644,
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	digest, _, err := v1.SHA256(bytes.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	put("index.json",
		fmt.Appendf(nil, `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json",`+
			`"digest":%q,"size":%d}]}`, digest, len(manifest)))
	put("blobs/sha256/"+digest.Hex, manifest)
	for name, data := range blobs {
		put("blobs/sha256/"+name, data)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &buf
}

// parts takes an image apart for layoutOf.
func parts(img *imagebuild.Image) (manifest []byte, blobs map[string][]byte) {
	blobs = map[string][]byte{}
	for _, b := range append([]imagebuild.Blob{img.Config}, img.Layers...) {
		if b.Data != nil {
			blobs[b.Descriptor.Digest.Hex] = bytes.Clone(b.Data)
		}
	}
	return bytes.Clone(img.Manifest.Data), blobs
}

// edit changes a manifest as JSON.
func edit(t testing.TB, manifest []byte, change func(m *v1.Manifest)) []byte {
	t.Helper()
	var m v1.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		t.Fatal(err)
	}
	change(&m)
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// withLayer returns an image whose only layer is the given blob, with matching
// digests, so that only what is inside is wrong.
func withLayer(t testing.TB, blob, plain []byte) (manifest []byte, blobs map[string][]byte) {
	t.Helper()
	img := build(t, imagebuild.Spec{Layers: []imagebuild.Layer{{Raw: plain, Compression: imagebuild.None}}})
	manifest, blobs = parts(img)
	h, n, err := v1.SHA256(bytes.NewReader(blob))
	if err != nil {
		t.Fatal(err)
	}
	delete(blobs, img.Layers[0].Descriptor.Digest.Hex)
	blobs[h.Hex] = blob
	return edit(t, manifest, func(m *v1.Manifest) { m.Layers[0].Digest, m.Layers[0].Size = h, n }), blobs
}

func gz(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestCorruptImages is row 16 of the fault table: everything is rejected, and
// nothing of it stays.
// Length: one table of bad images; splitting it would hide what is missing.
func TestCorruptImages(t *testing.T) {
	good := build(t, appSpec())
	plain := rawTar(t, file("Files/x"))
	hugeHeader := rawTar(t, &tar.Header{Typeflag: tar.TypeReg, Name: "Files/big"})
	// 100 GB in octal, in the header's size field; the checksum is repaired.
	copy(hugeHeader[124:136], "1351035564000"[:11]+"\x00")
	repairChecksum(hugeHeader[:512])
	for _, tt := range []struct {
		name  string
		parts func(t *testing.T) ([]byte, map[string][]byte)
	}{
		{"a bit flipped in a layer", func(*testing.T) ([]byte, map[string][]byte) {
			m, b := parts(good)
			b[good.Layers[1].Descriptor.Digest.Hex][20] ^= 4
			return m, b
		}},
		{"a bit flipped in the config", func(*testing.T) ([]byte, map[string][]byte) {
			m, b := parts(good)
			b[good.Config.Descriptor.Digest.Hex][20] ^= 4
			return m, b
		}},
		{"a layer cut short", func(*testing.T) ([]byte, map[string][]byte) {
			m, b := parts(good)
			h := good.Layers[1].Descriptor.Digest.Hex
			b[h] = b[h][:len(b[h])/2]
			return m, b
		}},
		{"a layer is missing", func(*testing.T) ([]byte, map[string][]byte) {
			m, b := parts(good)
			delete(b, good.Layers[1].Descriptor.Digest.Hex)
			return m, b
		}},
		{"wrong size in the manifest", func(t *testing.T) ([]byte, map[string][]byte) {
			m, b := parts(good)
			return edit(t, m, func(m *v1.Manifest) { m.Layers[1].Size++ }), b
		}},
		{"negative size", func(t *testing.T) ([]byte, map[string][]byte) {
			m, b := parts(good)
			return edit(t, m, func(m *v1.Manifest) { m.Layers[1].Size = -1 }), b
		}},
		{"manifest is not JSON", func(*testing.T) ([]byte, map[string][]byte) {
			return []byte(`{"schemaVersion":2,`), nil
		}},
		{"manifest with something behind it", func(*testing.T) ([]byte, map[string][]byte) {
			m, b := parts(good)
			return append(m, "{}"...), b
		}},
		{"manifest of schema 1", func(*testing.T) ([]byte, map[string][]byte) {
			return []byte(`{"schemaVersion":1}`), nil
		}},
		{"manifest is null", func(*testing.T) ([]byte, map[string][]byte) { return []byte(`null`), nil }},
		{"digest of another kind", func(*testing.T) ([]byte, map[string][]byte) {
			m, b := parts(good)
			return bytes.ReplaceAll(m, []byte(good.Config.Descriptor.Digest.String()),
				[]byte("sha512:"+strings.Repeat("0", 128))), b
		}},
		{"digest that is a path", func(*testing.T) ([]byte, map[string][]byte) {
			m, b := parts(good)
			return bytes.ReplaceAll(m, []byte(good.Config.Descriptor.Digest.String()),
				[]byte("sha256:../../../../etc/passwd")), b
		}},
		{"10,000 layers", func(t *testing.T) ([]byte, map[string][]byte) {
			m, b := parts(good)
			return edit(t, m, func(m *v1.Manifest) { m.Layers = slices.Repeat(m.Layers[1:2], 10_000) }), b
		}},
		{"more layers than diff IDs", func(t *testing.T) ([]byte, map[string][]byte) {
			m, b := parts(good)
			return edit(t, m, func(m *v1.Manifest) { m.Layers = append(m.Layers, m.Layers[1]) }), b
		}},
		{"diff ID does not match", func(t *testing.T) ([]byte, map[string][]byte) {
			return withLayer(t, gz(t, rawTar(t, file("Files/other"))), plain)
		}},
		{"gzip cut short", func(t *testing.T) ([]byte, map[string][]byte) {
			z := gz(t, plain)
			return withLayer(t, z[:len(z)-9], plain)
		}},
		{"gzip header only", func(t *testing.T) ([]byte, map[string][]byte) {
			return withLayer(t, []byte{0x1f, 0x8b, 8, 0}, plain)
		}},
		{"zstd magic and garbage", func(t *testing.T) ([]byte, map[string][]byte) {
			return withLayer(t, []byte("\x28\xb5\x2f\xfdgarbage"), plain)
		}},
		{"zstd that wants too much memory", func(t *testing.T) ([]byte, map[string][]byte) {
			// A frame header with the largest window that the format can express.
			return withLayer(t, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 0x01, 0, 0}, plain)
		}},
		{"not a tar", func(t *testing.T) ([]byte, map[string][]byte) {
			junk := bytes.Repeat([]byte("junk"), 1000)
			return withLayer(t, junk, junk)
		}},
		{"tar cut short", func(t *testing.T) ([]byte, map[string][]byte) {
			cut := rawTar(t, file("Files/x"))[:514]
			return withLayer(t, cut, cut)
		}},
		{"header that declares 100 GB", func(t *testing.T) ([]byte, map[string][]byte) {
			return withLayer(t, hugeHeader, hugeHeader)
		}},
		{"zip bomb", func(t *testing.T) ([]byte, map[string][]byte) {
			big := imageTar(t, "Files/zeros", 8<<20)
			return withLayer(t, gz(t, big), big)
		}},
		{"bomb behind the end of the tar", func(t *testing.T) ([]byte, map[string][]byte) {
			big := append(bytes.Clone(plain), make([]byte, 8<<20)...)
			return withLayer(t, gz(t, big), big)
		}},
		{"too many entries", func(t *testing.T) ([]byte, map[string][]byte) {
			var headers []*tar.Header
			for i := range 200 {
				headers = append(headers, dir(fmt.Sprintf("Files/%d", i)))
			}
			raw := rawTar(t, headers...)
			return withLayer(t, raw, raw)
		}},
		{"not distributable, above ordinary layers", func(t *testing.T) ([]byte, map[string][]byte) {
			m, b := parts(good)
			return edit(t, m, func(m *v1.Manifest) { m.Layers[2].MediaType = m.Layers[0].MediaType }), b
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := testConfig(t)
			cfg.Limits = image.Limits{LayerBytes: 4 << 20, LayerEntries: 100, RatioFrom: 1 << 20, Ratio: 100}
			s := open(t, dir, cfg)
			manifest, blobs := tt.parts(t)
			_, err := s.Load(context.Background(), layoutOf(t, manifest, blobs))
			if !errors.Is(err, image.ErrInvalid) {
				t.Fatalf("error %v, want ErrInvalid", err)
			}
			t.Log(err)
			for _, sub := range []string{"images", "ingest"} {
				if left := tree(t, filepath.Join(dir, sub)); len(left) > 0 {
					t.Errorf("%s has %q", sub, left)
				}
			}
			// The store works on.
			if _, err := s.Load(context.Background(),
				layout(t,
					map[string]*imagebuild.Image{"example.com/good:1": build(t,
						imagebuild.Spec{Layers: []imagebuild.Layer{{Raw: plain}}})})); err != nil {
				t.Errorf("a good image afterwards: %v", err)
			}
		})
	}
}

func repairChecksum(header []byte) {
	copy(header[148:156], "        ")
	sum := 0
	for _, b := range header {
		sum += int(b)
	}
	copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

// imageTar returns a tar of one file of zeros.
func imageTar(t testing.TB, name string, size int) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(size)}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestCorruptArchives(t *testing.T) {
	good := layout(t, map[string]*imagebuild.Image{"example.com/a:1": build(t, appSpec())}).Bytes()
	for name, data := range map[string][]byte{
		"empty": nil, "text": []byte("hello"), "cut": good[:len(good)/2], "gzip of nothing": gz(t, nil),
		"other tar": rawTar(t, file("x")),
	} {
		s := open(t, t.TempDir(), testConfig(t))
		if _, err := s.Load(context.Background(), bytes.NewReader(data)); !errors.Is(err, image.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := open(t, t.TempDir(), testConfig(t))
	if _, err := s.Load(context.Background(), bytes.NewReader(gz(t, good))); err != nil {
		t.Errorf("compressed archive: %v", err)
	}
}

// TestDamagedStore: what does not fit together is dropped, and the rest works.
func TestDamagedStore(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, dir string, img *image.Image)
		gone   bool
	}{
		{"nothing", func(*testing.T, string, *image.Image) {}, false},
		{"leftovers of a crash", func(t *testing.T, dir string, _ *image.Image) {
			for _, d := range []string{"ingest/layer-1/x", "l/0123456789abcdef/y"} {
				if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}, false},
		{"layer without its record", func(t *testing.T, dir string, img *image.Image) {
			if err := os.Remove(filepath.Join(dir, "m", filepath.Base(img.Layers[1])+".json")); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"record without its layer", func(t *testing.T, _ string, img *image.Image) {
			if err := os.RemoveAll(img.Layers[1]); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"image record is torn", func(t *testing.T, dir string, img *image.Image) {
			if err := os.Truncate(filepath.Join(dir, "images", img.ID[7:]+".json"), 40); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"layer record is torn", func(t *testing.T, dir string, img *image.Image) {
			if err := os.Truncate(filepath.Join(dir, "m", filepath.Base(img.Layers[1])+".json"), 10); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"record under another name", func(t *testing.T, dir string, img *image.Image) {
			old := filepath.Join(dir, "images", img.ID[7:]+".json")
			if err := os.Rename(old, filepath.Join(dir, "images", strings.Repeat("0", 64)+".json")); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, cfg := t.TempDir(), testConfig(t)
			s := open(t, dir, cfg)
			archive := layout(t, map[string]*imagebuild.Image{"example.com/a:1": build(t, appSpec())}).Bytes()
			loaded, err := s.Load(context.Background(), bytes.NewReader(archive))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			tt.damage(t, dir, loaded[0])
			s = open(t, dir, cfg)
			if _, err := s.Get("example.com/a:1"); (err != nil) != tt.gone {
				t.Errorf("image: %v, want gone %v", err, tt.gone)
			}
			if left := tree(t, filepath.Join(dir, "ingest")); len(left) > 0 {
				t.Errorf("ingest has %q", left)
			}
			if _, err := s.Load(context.Background(), bytes.NewReader(archive)); err != nil {
				t.Errorf("load again: %v", err)
			}
		})
	}
}

func TestHoldsKeepLayers(t *testing.T) {
	dir, cfg := t.TempDir(), testConfig(t)
	s := open(t, dir, cfg)
	if _, err := s.Load(context.Background(),
		layout(t, map[string]*imagebuild.Image{"example.com/a:1": build(t, appSpec())})); err != nil {
		t.Fatal(err)
	}
	img, err := s.Acquire("example.com/a:1", "container/1")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(context.Background(), img.ID); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, l := range img.Layers {
			if _, err := os.Stat(l); err != nil {
				t.Error(err)
			}
		}
		if h := s.Holders(img.ID); !slices.Equal(h, []string{"container/1"}) {
			t.Errorf("holders %q", h)
		}
		// A restart changes nothing.
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, cfg)
	}
	for range 2 {
		if err := s.Release("container/1"); err != nil {
			t.Error(err)
		}
	}
	if left := tree(t, filepath.Join(dir, "l")); len(left) > 0 {
		t.Errorf("layers left: %q", left)
	}
}

func TestOneProcessPerStore(t *testing.T) {
	dir, cfg := t.TempDir(), testConfig(t)
	open(t, dir, cfg)
	if _, err := image.Open(dir, cfg); !errors.Is(err, image.ErrInUse) {
		t.Errorf("second open: %v", err)
	}
}
