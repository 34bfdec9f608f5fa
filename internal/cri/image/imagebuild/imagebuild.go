// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package imagebuild makes Windows images out of files, without Windows and
// without a daemon: for `mullion load` with a folder, and for tests. Its images are
// ordinary: docker, containerd and registries take them.
package imagebuild

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Compression of a layer's blob.
type Compression int

// The compressions that registries serve.
const (
	Gzip Compression = iota
	Zstd
	None
)

// Entry is a file, directory or link in a layer.
type Entry struct {
	Path     string // below C:\, with slashes; for a whiteout, the hidden path
	Content  []byte
	Dir      bool
	Symlink  string // target, as Windows spells it
	Hardlink string // another entry's path
	Whiteout bool
	Opaque   bool // Path is a directory whose lower content is hidden
	ReadOnly bool
}

// Layer is one layer of an image.
type Layer struct {
	Entries     []Entry
	Plain       bool // without the folders Files and Hives
	Compression Compression
	CreatedBy   string // for the history
	// Raw replaces Entries by a finished tar.
	Raw []byte
	// Finished replaces Entries by the layer of Streamed.
	Finished *Blob
}

// Spec describes an image.
type Spec struct {
	Build winver.Build
	// Base puts Microsoft's base layer, as a foreign layer without content,
	// below the layers; a host puts its stand-in there. "servercore" or
	// "nanoserver"; empty means no base layer, as in FROM scratch.
	Base   string
	Layers []Layer
	Config v1.Config
	// OS is "windows" unless set.
	OS string
	// NoOSVersion leaves os.version out, as host process base images do.
	NoOSVersion bool
}

// Blob is content with its descriptor.
type Blob struct {
	Descriptor v1.Descriptor
	Data       []byte                // nil for foreign layers
	write      func(io.Writer) error // writes the content, if it is not in Data
}

// Image is a finished image.
type Image struct {
	Manifest Blob
	Config   Blob
	Layers   []Blob
	Platform v1.Platform
}

// epoch returns the timestamp of all files: the same input gives the same digests.
func epoch() time.Time { return time.Unix(1_600_000_000, 0).UTC() }

// Build creates an image. It is deterministic.
func Build(spec Spec) (*Image, error) {
	cfg := v1.ConfigFile{
		Architecture: "amd64", OS: cmp.Or(spec.OS, "windows"), OSVersion: spec.Build.OSVersion(),
		Created: v1.Time{Time: epoch()}, Config: spec.Config, RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}},
	}
	if spec.NoOSVersion || spec.Build.Number == 0 {
		cfg.OSVersion = ""
	}
	img := &Image{Platform: v1.Platform{OS: cfg.OS, Architecture: cfg.Architecture, OSVersion: cfg.OSVersion}}
	add := func(b Blob, diffID v1.Hash, createdBy string) {
		img.Layers = append(img.Layers, b)
		cfg.RootFS.DiffIDs = append(cfg.RootFS.DiffIDs, diffID)
		cfg.History = append(cfg.History, v1.History{Created: v1.Time{Time: epoch()}, CreatedBy: createdBy})
	}
	if spec.Base != "" {
		// Its digest is of the name only: the content does not exist.
		h := hash([]byte("mullion base " + spec.Base + " " + spec.Build.OSVersion()))
		add(Blob{Descriptor: v1.Descriptor{
			MediaType: types.DockerForeignLayer, Digest: h, Size: 0,
			URLs: []string{"https://mcr.microsoft.com/v2/windows/" + spec.Base + "/blobs/" + h.String()},
		}}, h, "Apply image "+spec.Base+" "+spec.Build.OSVersion())
	}
	for i, l := range spec.Layers {
		if l.Finished != nil {
			add(*l.Finished, l.Finished.Descriptor.Digest, cmp.Or(l.CreatedBy, "layer "+strconv.Itoa(i)))
			continue
		}
		raw := l.Raw
		if raw == nil {
			var err error
			if raw, err = Tar(l); err != nil {
				return nil, fmt.Errorf("build layer %d: %w", i, err)
			}
		}
		data, mt, err := compress(raw, l.Compression)
		if err != nil {
			return nil, fmt.Errorf("build layer %d: %w", i, err)
		}
		add(blob(data, mt), hash(raw), cmp.Or(l.CreatedBy, "layer "+strconv.Itoa(i)))
	}
	data, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	img.Config = blob(data, types.OCIConfigJSON)
	m := v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		Config:        img.Config.Descriptor,
		Layers:        []v1.Descriptor{},
	}
	for _, l := range img.Layers {
		m.Layers = append(m.Layers, l.Descriptor)
	}
	if data, err = json.Marshal(m); err != nil {
		return nil, err
	}
	img.Manifest = blob(data, types.OCIManifestSchema1)
	return img, nil
}

// Index creates an index of images.
func Index(images ...*Image) (Blob, error) {
	m := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}
	for _, img := range images {
		d := img.Manifest.Descriptor
		d.Platform = img.Platform.DeepCopy()
		m.Manifests = append(m.Manifests, d)
	}
	data, err := json.Marshal(m)
	if err != nil {
		return Blob{}, err
	}
	return blob(data, types.OCIImageIndex), nil
}

// Tar writes a layer's entries, with the directories on the way, as Windows and
// BuildKit lay them out.
func Tar(l Layer) ([]byte, error) {
	prefix := "Files/"
	if l.Plain {
		prefix = ""
	}
	var buf bytes.Buffer
	w := newLayerWriter(&buf)
	if !l.Plain {
		if err := errors.Join(w.dir("Files"), w.dir("Hives")); err != nil {
			return nil, err
		}
	}
	for _, e := range l.Entries {
		full := strings.TrimSuffix(prefix+e.Path, "/")
		if e.Dir {
			if err := w.dir(full); err != nil {
				return nil, err
			}
			continue
		}
		if err := errors.Join(w.dir(path.Dir(full)), e.write(w.tar, full, prefix)); err != nil {
			return nil, err
		}
	}
	if err := w.tar.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// layerWriter writes the tar of a layer.
type layerWriter struct {
	tar  *tar.Writer
	made map[string]bool // directories
}

func newLayerWriter(w io.Writer) layerWriter { return layerWriter{tar.NewWriter(w), map[string]bool{}} }

// dir writes a directory and those above it, unless it did before.
func (w layerWriter) dir(name string) error {
	if name == "." || w.made[name] {
		return nil
	}
	if err := w.dir(path.Dir(name)); err != nil {
		return err
	}
	w.made[name] = true
	return w.tar.WriteHeader(header(tar.TypeDir, name+"/", 0o755))
}

// header returns a header with the time of all files.
func header(kind byte, name string, mode int64) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Mode: mode, ModTime: epoch(), Format: tar.FormatPAX}
}

func (e Entry) write(tw *tar.Writer, full, prefix string) error {
	h := header(tar.TypeReg, full, 0o644)
	h.Size = int64(len(e.Content))
	switch {
	case e.Whiteout:
		h.Name = path.Join(path.Dir(full), ".wh."+path.Base(full))
	case e.Opaque:
		h.Name = full + "/.wh..wh..opq"
	case e.Symlink != "":
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Symlink
	case e.Hardlink != "":
		h.Typeflag, h.Linkname = tar.TypeLink, prefix+e.Hardlink
	}
	if e.ReadOnly {
		// FILE_ATTRIBUTE_READONLY and FILE_ATTRIBUTE_ARCHIVE, as backuptar writes them.
		h.PAXRecords = map[string]string{"MSWINDOWS.fileattr": "33"}
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err := tw.Write(e.Content)
	return err
}

// WriteLayout writes images as a tar of an OCI image layout, each under a name.
func WriteLayout(w io.Writer, images map[string]*Image) error {
	var all []Blob
	var top []v1.Descriptor
	for _, name := range sortedKeys(images) {
		img := images[name]
		d := named(img.Manifest.Descriptor, name)
		d.Platform = img.Platform.DeepCopy()
		top = append(top, d)
		all = append(all, img.blobs()...)
	}
	return writeLayout(w, top, all)
}

// WriteIndex writes one image for several platforms as a tar of an OCI image layout,
// as BuildKit does (docker buildx build --platform … --output type=oci).
func WriteIndex(w io.Writer, name string, images ...*Image) error {
	index, err := Index(images...)
	if err != nil {
		return err
	}
	all := []Blob{index}
	for _, img := range images {
		all = append(all, img.blobs()...)
	}
	return writeLayout(w, []v1.Descriptor{named(index.Descriptor, name)}, all)
}

// blobs returns all of the image's content.
func (i *Image) blobs() []Blob { return append([]Blob{i.Manifest, i.Config}, i.Layers...) }

// named returns a descriptor with the name of an image for containerd and others.
func named(d v1.Descriptor, name string) v1.Descriptor {
	d.Annotations = map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
	return d
}

// writeLayout writes a layout with the given content, whose index.json has top.
func writeLayout(w io.Writer, top []v1.Descriptor, content []Blob) error {
	files := map[string]Blob{"oci-layout": {Data: []byte(`{"imageLayoutVersion":"1.0.0"}`)}}
	for _, b := range content {
		if b.Data != nil || b.write != nil {
			files["blobs/sha256/"+b.Descriptor.Digest.Hex] = b
		}
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: top}
	if index.Manifests == nil {
		index.Manifests = []v1.Descriptor{} // not null
	}
	raw, err := json.Marshal(index)
	if err != nil {
		return err
	}
	files["index.json"] = Blob{Data: raw}
	return writeTar(w, files)
}

// WriteDocker writes images as `docker save` does.
func WriteDocker(w io.Writer, images map[string]*Image) error {
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	var entries []entry
	files := map[string]Blob{}
	for _, name := range sortedKeys(images) {
		img := images[name]
		e := entry{Config: img.Config.Descriptor.Digest.Hex + ".json", RepoTags: []string{name}}
		files[e.Config] = img.Config
		for _, l := range img.Layers {
			if l.Data == nil {
				continue // docker save leaves foreign layers out
			}
			plain, err := decompressed(l.Data)
			if err != nil {
				return err
			}
			layer := hash(plain).Hex + "/layer.tar"
			files[layer] = Blob{Data: plain}
			e.Layers = append(e.Layers, layer)
		}
		entries = append(entries, e)
	}
	raw, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	files["manifest.json"] = Blob{Data: raw}
	return writeTar(w, files)
}

func writeTar(w io.Writer, files map[string]Blob) error {
	tw := tar.NewWriter(w)
	for _, name := range sortedKeys(files) {
		b := files[name]
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, ModTime: epoch(), Size: int64(len(b.Data))}
		if b.write != nil {
			h.Size = b.Descriptor.Size
		}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if err := b.copyTo(tw); err != nil {
			return err
		}
	}
	return tw.Close()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func compress(raw []byte, c Compression) ([]byte, types.MediaType, error) {
	var buf bytes.Buffer
	var w io.WriteCloser
	var err error
	mt := types.OCILayer
	switch c {
	case None:
		return raw, types.OCIUncompressedLayer, nil
	case Zstd:
		w, err = zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1))
		mt = types.OCILayerZStd
	default:
		w = gzip.NewWriter(&buf)
	}
	if err != nil {
		return nil, "", err
	}
	if _, err := w.Write(raw); err != nil {
		return nil, "", err
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return buf.Bytes(), mt, nil
}

func decompressed(data []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(z)
	case bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(nil)
		if err != nil {
			return nil, err
		}
		defer z.Close()
		return z.DecodeAll(data, nil)
	}
	return data, nil
}

func blob(data []byte, mt types.MediaType) Blob {
	return Blob{Descriptor: v1.Descriptor{MediaType: mt, Size: int64(len(data)), Digest: hash(data)}, Data: data}
}

func hash(data []byte) v1.Hash {
	sum := sha256.Sum256(data)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}
