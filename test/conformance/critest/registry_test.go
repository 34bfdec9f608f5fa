// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package critest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// newRegistry holds images under the names that the suite pulls: equal content
// where it expects one image, different where it expects several.
func newRegistry(t *testing.T) http.Handler {
	h := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(h)
	defer s.Close()
	for ref, content := range map[string]string{
		"win-test-image-latest:latest": "latest", "win-test-image-tag:test": "tag", "win-test-image-tag:all": "all",
		"win-test-image-1:latest": "one", "win-test-image-2:latest": "two", "win-test-image-3:latest": "three",
		"win-test-image-tags:1": "tags", "win-test-image-tags:2": "tags", "win-test-image-tags:3": "tags",
	} {
		full, err := name.ParseReference(strings.TrimPrefix(s.URL, "http://")+"/k8s-staging-cri-tools/"+ref, name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(full, windowsImage(t, content)); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// windowsImage is an image for Windows Server 2019 with one file in it.
func windowsImage(t *testing.T, content string) v1.Image {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, h := range []*tar.Header{
		{Typeflag: tar.TypeDir, Name: "Files/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: "Files/" + content, Mode: 0o644, Size: int64(len(content))},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := fmt.Fprint(w, content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, static.NewLayer(layer.Bytes(), types.OCIUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.OSVersion = "windows", "amd64", "10.0.17763.1"
	config.Config.User = "ContainerAdministrator"
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}
