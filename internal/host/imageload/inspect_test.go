// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package imageload

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// tarOf returns an archive of files; names that begin with "@" become the digests of
// their content, and "{NAME}" in later files is that digest.
func tarOf(t testing.TB, files ...[2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	var known []string
	for _, f := range files {
		name, content := f[0], strings.NewReplacer(known...).Replace(f[1])
		if label, ok := strings.CutPrefix(name, "@"); ok {
			sum := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
			known = append(known, "{"+label+"}", "sha256:"+sum)
			name = "blobs/sha256/" + sum
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const (
	linuxConfig   = `{"os":"linux","architecture":"amd64"}`
	windowsConfig = `{"os":"windows","architecture":"amd64","os.version":"10.0.17763.1"}`
)

// both is an image for two systems with an attestation beside them, in an OCI layout.
func both() [][2]string {
	return [][2]string{
		{"@layer", "\x00 not JSON"},
		{"@lc", linuxConfig}, {"@wc", windowsConfig}, {"@ac", `{"os":"unknown","architecture":"unknown"}`},
		{"@l", `{"config":{"digest":"{lc}"},"layers":[{"digest":"{layer}"}]}`},
		{"@w", `{"config":{"digest":"{wc}"}}`}, {"@a", `{"config":{"digest":"{ac}"}}`},
		{"@i", `{"manifests":[{"digest":"{l}"},{"digest":"{w}"},{"digest":"{a}"},{"digest":"sha256:left-out"}]}`},
		{"index.json", `{"manifests":[{"digest":"{i}","annotations":{"io.containerd.image.name":"app:1"}}]}`},
	}
}

func TestInspect(t *testing.T) {
	const name = "docker.io/library/app:1"
	linux := Image{Names: []string{name}, OS: "linux", Arch: "amd64"}
	windows := Image{Names: []string{name}, OS: "windows", Arch: "amd64", OSVersion: "10.0.17763.1"}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(tarOf(t, both()...)) // to a buffer
	_ = z.Close()
	for what, tt := range map[string]struct {
		archive []byte
		want    []Image
	}{
		"OCI layout":       {tarOf(t, both()...), []Image{linux, windows}},
		"OCI layout, gzip": {zipped.Bytes(), []Image{linux, windows}},
		"docker save": {tarOf(t, [2]string{"c.json", linuxConfig},
			[2]string{"manifest.json", `[{"Config":"c.json","RepoTags":["app:1"]}]`}), []Image{linux}},
		"docker save without a name": {tarOf(t, [2]string{"abc.json", linuxConfig},
			[2]string{"manifest.json", `[{"Config":"abc.json"}]`}),
			[]Image{{Names: []string{"sha256:abc"}, OS: "linux", Arch: "amd64"}}},
		"Docker 25": {tarOf(t, [2]string{"@c", windowsConfig}, [2]string{"@m", `{"config":{"digest":"{c}"}}`},
			[2]string{"index.json", `{"manifests":[{"digest":"{m}","annotations":{
				"org.opencontainers.image.ref.name":"1"}}]}`},
			[2]string{"manifest.json", fmt.Sprintf(`[{"Config":"blobs/sha256/%x","RepoTags":["app:1"]}]`,
				sha256.Sum256([]byte(windowsConfig)))}), []Image{windows}},
	} {
		got, err := inspect(bytes.NewReader(tt.archive))
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) {
			t.Errorf("%s: %+v, %v, want %+v", what, got, err, tt.want)
		}
	}
	if got := Systems([]Image{linux, windows, linux}); !slices.Equal(got, []string{"linux", "windows"}) {
		t.Error(got)
	}
	if got := windows.Platform(); got != "windows/amd64 10.0.17763.1" {
		t.Error(got)
	}
}

func TestInspectRefuses(t *testing.T) {
	loop := tarOf(t, [2]string{"index.json", `{"manifests":[{"digest":"x:y"}]}`},
		[2]string{"blobs/x/y", `{"manifests":[{"digest":"x:y"}]}`})
	wide := `{"manifests":[` + strings.Repeat(`{"digest":"x:z"},`, 200) + `{"digest":"x:z"}]}`
	bomb := tarOf(t, [2]string{"index.json", strings.ReplaceAll(wide, "x:z", "x:y")}, [2]string{"blobs/x/y", wide})
	for want, archive := range map[string][]byte{
		"more than 10000":        bomb,
		"neither index.json":     tarOf(t, [2]string{"a", "b"}),
		"nested more than 8":     loop,
		"manifest.json: ":        tarOf(t, [2]string{"manifest.json", `{}`}),
		"index.json: ":           tarOf(t, [2]string{"index.json", `[]`}),
		"c.json: unexpected end": tarOf(t, [2]string{"manifest.json", `[{"Config":"c.json"}]`}),
		"read archive: ":         []byte("not a tar, but as long as a block" + strings.Repeat(".", 512)),
	} {
		if images, err := inspect(bytes.NewReader(archive)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %q", images, err, want)
		}
	}
	if _, err := InspectFile("/nonexistent"); err == nil {
		t.Error("a missing file was read")
	}
}

// FuzzInspect: any documents are read without a panic, and each image has a system and a
// name.
func FuzzInspect(f *testing.F) {
	files := map[string]string{}
	for _, e := range both() {
		files[e[0]] = e[1]
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f.Add(files[name], files["@i"], `[{"Config":"blobs/x/y","RepoTags":["a:1"]}]`)
	}
	f.Fuzz(func(t *testing.T, index, blob, docker string) {
		for _, with := range [][][2]string{
			{{"index.json", index}, {"blobs/x/y", blob}, {"manifest.json", docker}},
			{{"blobs/x/y", blob}, {"manifest.json", docker}},
		} {
			images, err := inspect(bytes.NewReader(tarOf(t, with...)))
			if err != nil && len(images) > 0 {
				t.Errorf("images beside the error %v", err)
			}
			for _, i := range images {
				if len(i.Names) == 0 {
					t.Errorf("an image without a name: %+v", i)
				}
			}
		}
	})
}
