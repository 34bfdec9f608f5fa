// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
)

// FuzzLoad loads archives with any index.json, manifest, config and manifest.json.
// "MANIFEST", "CONFIG" and "LAYER" in them stand for the digests and sizes of what
// else is in the archive, so that a changed document is still found by the one
// that refers to it. What is loaded is whole, and of a refused archive nothing is
// left.
func FuzzLoad(f *testing.F) {
	const (
		index = `{"schemaVersion":2,"manifests":[
			{"mediaType":"application/vnd.oci.image.manifest.v1+json",MANIFEST,
			"annotations":{"io.containerd.image.name":"example.com/a:1"}}]}`
		manifest = `{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json",CONFIG},
			"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar",LAYER}]}`
		config = `{"os":"windows","architecture":"amd64","os.version":"10.0.17763.1",
			"rootfs":{"type":"layers","diff_ids":["DIFF"]},"history":[{"created_by":"x"}]}`
		docker = `[{"Config":"config.json","RepoTags":["a:1"],"Layers":["layer.tar"]}]`
	)
	f.Add(index, manifest, config, "")
	f.Add("", "", config, docker)
	f.Add(index, manifest, config, docker)
	nested := strings.Replace(index, "MANIFEST", `"mediaType":"application/vnd.oci.image.index.v1+json",MANIFEST`, 1)
	f.Add(nested, index, config, "")
	f.Add(index, strings.Replace(manifest, "layer.v1", "layer.nondistributable.v1", 1), config, "null")
	f.Add(`{}`, `[]`, `null`, `[{}]`)
	entries := []imagebuild.Entry{{Path: "app/file", Content: []byte("x")}}
	layer, err := imagebuild.Tar(imagebuild.Layer{Entries: entries})
	if err != nil {
		f.Fatal(err)
	}
	cfg := testConfig(f)
	f.Fuzz(func(t *testing.T, index, manifest, config, docker string) {
		refer := strings.NewReplacer("LAYER", described(layer), "DIFF", digest(layer))
		config = refer.Replace(config)
		manifest = refer.Replace(strings.ReplaceAll(manifest, "CONFIG", described([]byte(config))))
		index = strings.ReplaceAll(index, "MANIFEST", described([]byte(manifest)))
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		add := func(name string, content []byte) {
			if len(content) == 0 {
				return
			}
			h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(content))}
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			_, _ = w.Write(content) // to a buffer
		}
		blob := func(content []byte) string { return "blobs/" + strings.Replace(digest(content), ":", "/", 1) }
		add("index.json", []byte(index))
		add("manifest.json", []byte(docker))
		add("config.json", []byte(config))
		add("layer.tar", layer)
		add(blob([]byte(config)), []byte(config))
		add(blob([]byte(manifest)), []byte(manifest))
		add(blob(layer), layer)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		s, err := image.Open(dir, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }() // checked below
		images, err := s.Load(context.Background(), bytes.NewReader(archive.Bytes()))
		if (err == nil) != (len(images) > 0) {
			t.Errorf("%d images, %v", len(images), err)
		}
		for _, img := range s.List() {
			for _, l := range img.Layers {
				if names := tree(t, l); strings.HasPrefix(l, dir) && len(names) == 0 {
					t.Errorf("layer %s of %s is empty", l, img.ID)
				}
			}
		}
		if left := tree(t, filepath.Join(dir, "ingest")); len(left) > 0 {
			t.Errorf("ingest has %q", left)
		}
	})
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// described is the part of a descriptor that names content.
func described(content []byte) string {
	return fmt.Sprintf(`"digest":%q,"size":%d`, digest(content), len(content))
}
