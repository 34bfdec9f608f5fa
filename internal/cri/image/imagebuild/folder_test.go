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
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
)

// folder makes a directory of files, and of links if the content begins with "-> ".
func folder(t *testing.T, files map[string]string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		name = filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if target, link := strings.CutPrefix(content, "-> "); link {
			err = errors.Join(err, os.Symlink(target, name))
		} else {
			err = errors.Join(err, os.WriteFile(name, []byte(content), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func listing(t *testing.T, r io.Reader) string {
	t.Helper()
	var out []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(out, " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, h.Name+strings.TrimSuffix("="+string(content)+h.Linkname, "="))
	}
}

func TestTarFolder(t *testing.T) {
	files := map[string]string{"b.js": "1", "a/x.exe": "MZ", "a/current": "-> ../b.js", "Z": "", "all": "-> a"}
	for at, want := range map[string]string{
		"app/v1": "Files/ Hives/ Files/app/ Files/app/v1/ Files/app/v1/Z Files/app/v1/a/ " +
			"Files/app/v1/a/current=../b.js Files/app/v1/a/x.exe=MZ Files/app/v1/all=a Files/app/v1/b.js=1",
		"": "Files/ Hives/ Files/Z Files/a/ Files/a/current=../b.js Files/a/x.exe=MZ Files/all=a Files/b.js=1",
	} {
		var tars [2]bytes.Buffer
		for i := range tars {
			// Neither times nor permissions matter.
			root := folder(t, files)
			if err := errors.Join(root.Chmod("b.js", os.FileMode(0o600+i)),
				root.Chtimes("b.js", time.Now(), time.Unix(int64(i), 0))); err != nil {
				t.Fatal(err)
			}
			if err := imagebuild.TarFolder(t.Context(), &tars[i], root, at); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(tars[0].Bytes(), tars[1].Bytes()) {
			t.Error("two tars of the same content differ")
		}
		if got := listing(t, &tars[0]); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestTarFolderRefuses(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"the folder is empty": {},
		"up is a link to ../../etc, which is not a relative path within the folder": {"up": "-> ../../etc"},
		"root is a link to /etc/passwd, which is not a relative path":               {"root": "-> /etc/passwd"},
		"d/loop is a link to loop, which":                                           {"d/loop": "-> loop"},
		"gone is a link to x, which does not exist: remove it":                      {"gone": "-> x"},
		`"README" and "readme" are the same name on Windows`:                        {"README": "", "readme": ""},
		`"Lib" and "lib" are the same name on Windows`:                              {"lib/a": "", "Lib/x": ""},
		`"d/a?b" cannot be a name on Windows: the character '?'`:                    {"d/a?b": ""},
		`"a:b" cannot be a name on Windows: alternate data streams`:                 {"a:b": ""},
		`"aux.js" cannot be a name on Windows: files with reserved`:                 {"aux.js": ""},
		`"x\\y" cannot be a name on Windows: \ separates directories there`:         {`x\y`: ""},
		`".wh.x" cannot be a name on Windows: layers use the prefix .wh. for`:       {".wh.x": ""},
		`"bad\xff" cannot be a name on Windows: not UTF-8`:                          {"bad\xff": ""},
	} {
		err := imagebuild.TarFolder(t.Context(), io.Discard, folder(t, files), "app")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	root := folder(t, map[string]string{"a": ""})
	if err := syscall.Mkfifo(filepath.Join(root.Name(), "queue"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "queue is a pipe, a socket or a device"
	err := imagebuild.TarFolder(t.Context(), io.Discard, root, "app")
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestStreamed: images of several builds share the layer, and a folder that changes
// before the archive is written is an error.
func TestStreamed(t *testing.T) {
	root := folder(t, map[string]string{"app.exe": "MZ"})
	layer, err := imagebuild.Streamed(func(w io.Writer) error {
		return imagebuild.TarFolder(t.Context(), w, root, "app")
	})
	if err != nil {
		t.Fatal(err)
	}
	s := spec(t, imagebuild.None)
	s.Layers = []imagebuild.Layer{{Finished: layer}}
	img, err := imagebuild.Build(s)
	if err != nil {
		t.Fatal(err)
	}
	write := func(w io.Writer) error {
		return imagebuild.WriteLayout(w, map[string]*imagebuild.Image{"example.com/app:1": img})
	}
	var archive, again bytes.Buffer
	if err := errors.Join(write(&archive), write(&again)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(archive.Bytes(), again.Bytes()) {
		t.Error("two archives of the same folder differ")
	}
	blob := fmt.Sprintf("blobs/sha256/%s=Files/", layer.Descriptor.Digest.Hex)
	if got := listing(t, &archive); !strings.Contains(got, blob) {
		t.Errorf("%q lacks %q", got, blob)
	}
	for _, content := range []string{"ZM", strings.Repeat("MZ", 1000)} {
		if err := root.WriteFile("app.exe", []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		err := write(io.Discard)
		if err == nil || !strings.Contains(err.Error(), "changed while it was read: try again") {
			t.Errorf("with %d other bytes: %v", len(content), err)
		}
	}
}
