// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package imagebuild_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

func spec(t testing.TB, c imagebuild.Compression) imagebuild.Spec {
	t.Helper()
	b, err := winver.Parse("ltsc2019")
	if err != nil {
		t.Fatal(err)
	}
	return imagebuild.Spec{
		Build: b, Base: "servercore", Config: v1.Config{Entrypoint: []string{`C:\app.exe`}},
		Layers: []imagebuild.Layer{{Compression: c,
			Entries: []imagebuild.Entry{{Path: "dir/app.exe", Content: []byte("MZ")}}}},
	}
}

func TestBuildIsDeterministic(t *testing.T) {
	for _, c := range []imagebuild.Compression{imagebuild.Gzip, imagebuild.Zstd, imagebuild.None} {
		var digests []string
		for range 2 {
			img, err := imagebuild.Build(spec(t, c))
			if err != nil {
				t.Fatal(err)
			}
			digests = append(digests, img.Manifest.Descriptor.Digest.String())
		}
		if digests[0] != digests[1] {
			t.Errorf("compression %d: %q", c, digests)
		}
	}
}

func TestTarIsAWindowsLayer(t *testing.T) {
	raw, err := imagebuild.Tar(spec(t, imagebuild.None).Layers[0])
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	if got := fmt.Sprint(names); got != "[Files/ Hives/ Files/dir/ Files/dir/app.exe]" {
		t.Errorf("entries %s", got)
	}
}

// TestOthersReadDockerArchives: the library's own reader accepts what is written.
func TestOthersReadDockerArchives(t *testing.T) {
	s := spec(t, imagebuild.Zstd)
	s.Base = "" // docker save leaves foreign layers out, which the library does not expect
	img, err := imagebuild.Build(s)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := imagebuild.WriteDocker(&buf, map[string]*imagebuild.Image{"example.com/app:1": img}); err != nil {
		t.Fatal(err)
	}
	read, err := tarball.Image(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buf.Bytes())), nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if name, err := read.ConfigName(); err != nil || name != img.Config.Descriptor.Digest {
		t.Errorf("config %v, %v; want %v", name, err, img.Config.Descriptor.Digest)
	}
	if layers, err := read.Layers(); err != nil || len(layers) != 1 {
		t.Errorf("layers %v, %v", layers, err)
	}
}

// Example makes an archive that `mullion load`, docker and containerd read.
func Example() {
	build, err := winver.Parse("ltsc2022")
	if err != nil {
		panic(err)
	}
	img, err := imagebuild.Build(imagebuild.Spec{
		Build: build,
		Base:  "nanoserver",
		Layers: []imagebuild.Layer{{Entries: []imagebuild.Entry{
			{Path: "app/hello.txt", Content: []byte("hello")},
		}}},
		Config: v1.Config{Cmd: []string{"cmd", "/c", `type C:\app\hello.txt`}},
	})
	if err != nil {
		panic(err)
	}
	f, err := os.CreateTemp("", "image-*.tar")
	if err != nil {
		panic(err)
	}
	defer os.Remove(f.Name())
	if err := imagebuild.WriteLayout(f, map[string]*imagebuild.Image{"example.com/hello:1": img}); err != nil {
		panic(err)
	}
	fmt.Println(img.Platform.OS, img.Platform.Architecture, len(img.Layers), "layers")
	// Output: windows amd64 2 layers
}
