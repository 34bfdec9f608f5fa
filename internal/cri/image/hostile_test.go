// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
)

// entries of a hand-made tar.
func file(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 4} }
func dir(name string) *tar.Header  { return &tar.Header{Typeflag: tar.TypeDir, Name: name} }
func symlink(name, to string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}

func hardlink(to string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeLink, Name: "Files/p", Linkname: to}
}

func device(name string, kind byte) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Devmajor: 1, Devminor: 3}
}

func rawTar(t testing.TB, headers ...*tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		h.Mode = 0o6777 // with set-user-ID and set-group-ID
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte("evil")[:h.Size]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// hashTree fingerprints a directory: names, kinds, targets, modes and content.
func hashTree(t testing.TB, root string) string {
	t.Helper()
	h := sha256.New()
	for _, name := range tree(t, root) {
		fmt.Fprintln(h, name)
		full := filepath.Join(root, name)
		if st, err := os.Lstat(full); err == nil {
			fmt.Fprintln(h, st.Mode(), st.Size())
			if st.Mode().IsRegular() {
				f, err := os.Open(full)
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.Copy(h, f)
				if err := errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// TestHostileLayers walks through what a layer may try (row 17 of the fault
// table): it is refused as a whole, or the entry is made harmless, and nothing
// outside the layer's directory changes.
// Length: one table of attacks; splitting it would hide what is missing.
func TestHostileLayers(t *testing.T) {
	for _, tt := range []struct {
		name    string
		headers []*tar.Header
		refused bool
		want    []string // what is unpacked, if it is not refused
		note    string
	}{
		{"parent", []*tar.Header{file("Files/../../escaped")}, true, nil, ""},
		{"parent in a plain layer", []*tar.Header{file("../escaped")}, true, nil, ""},
		{"parent in the middle", []*tar.Header{file("Files/a/../../../escaped")}, true, nil, ""},
		{"parent with backslashes", []*tar.Header{file(`Files\..\..\escaped`)}, true, nil, ""},
		{"absolute", []*tar.Header{file("/escaped")}, true, nil, ""},
		{"absolute with backslashes", []*tar.Header{file(`\escaped`)}, true, nil, ""},
		{"drive", []*tar.Header{file("Files/C:/escaped")}, true, nil, ""},
		{"drive alone", []*tar.Header{dir("Files/C:")}, true, nil, ""},
		{"drive-relative", []*tar.Header{file("Files/C:escaped")}, true, nil, ""},
		{"share", []*tar.Header{file(`\\server\share\x`)}, true, nil, ""},
		{"device path", []*tar.Header{file(`Files\\?\C:\x`)}, true, nil, ""},
		{"NUL", []*tar.Header{file("Files/a\x01b")}, true, nil, ""},
		{"not UTF-8", []*tar.Header{file("Files/a\xff")}, true, nil, ""},
		{"unpaired surrogate", []*tar.Header{file("Files/a\xed\xa0\x80")}, true, nil, ""},
		{"characters that NTFS refuses", []*tar.Header{file("Files/a<b")}, true, nil, ""},
		{"name too long", []*tar.Header{file("Files/" + strings.Repeat("a", 256))}, true, nil, ""},
		{"path too long", []*tar.Header{file("Files/" + strings.Repeat("abcdefgh/", 600) + "x")}, true, nil, ""},
		{"path too deep", []*tar.Header{file("Files/" + strings.Repeat("d/", 128) + "x")}, true, nil, ""},
		{"link to a path too deep", []*tar.Header{symlink("Files/l", strings.Repeat(`d\`, 128)+"x")}, true, nil, ""},
		{"write through a link of the same layer", []*tar.Header{symlink("Files/d", "/tmp"), file("Files/d/escaped")},
			true, nil, ""},
		{"write through a link, other case", []*tar.Header{symlink("Files/dir", "/tmp"), file("Files/DIR/escaped")},
			true, nil, ""},
		{"link over a directory with content", []*tar.Header{file("Files/d/x"), symlink("Files/d", "/tmp")},
			true, nil, ""},
		{"two links at one place", []*tar.Header{symlink("Files/d", "/a"), symlink("Files/d", "/b")}, true, nil, ""},
		{"file over a link", []*tar.Header{symlink("Files/d", "/etc/passwd"), file("Files/d")}, true, nil, ""},
		{"hard link to the machine", []*tar.Header{hardlink("/etc/passwd")}, true, nil, ""},
		{"hard link to a parent", []*tar.Header{hardlink("Files/../../../etc/passwd")}, true, nil, ""},
		{"hard link through a link", []*tar.Header{symlink("Files/e", "/etc"), hardlink("Files/e/passwd")},
			true, nil, ""},
		{"hard link to nothing", []*tar.Header{hardlink("Files/none")}, true, nil, ""},
		{"hard link to a directory", []*tar.Header{dir("Files/d"), hardlink("Files/d")}, true, nil, ""},
		{"character device", []*tar.Header{device("Files/null", tar.TypeChar)}, true, nil, ""},
		{"block device", []*tar.Header{device("Files/sda", tar.TypeBlock)}, true, nil, ""},
		{"pipe", []*tar.Header{device("Files/fifo", tar.TypeFifo)}, true, nil, ""},
		{"unknown type", []*tar.Header{device("Files/x", 'Z')}, true, nil, ""},
		{"whiteout of ..", []*tar.Header{file("Files/.wh...")}, true, nil, ""},
		{"whiteout of .", []*tar.Header{file("Files/.wh..")}, true, nil, ""},
		{"whiteout of nothing", []*tar.Header{file("Files/.wh.")}, true, nil, ""},
		{"a path through a whiteout", []*tar.Header{file("Files/.wh.d/x")}, true, nil, ""},
		{"a link to another drive", []*tar.Header{symlink("Files/l", `D:\x`)}, true, nil, ""},
		{"a link to a share", []*tar.Header{symlink("Files/l", `\\?\UNC\server\share`)}, true, nil, ""},
		{"a link to a stream of a drive's name", []*tar.Header{symlink("Files/l", `C:\x:y`)}, true, nil, ""},

		{"set-user-ID is dropped", []*tar.Header{file("Files/x")}, false, []string{"x"}, ""},
		{"absolute link stays inside", []*tar.Header{symlink("Files/a/b/l", "/etc/passwd")}, false,
			[]string{"a/", "a/b/", "a/b/l -> ../../etc/passwd"}, ""},
		{"link to a drive's path stays inside", []*tar.Header{symlink("Files/a/l", `\\?\C:\Windows\x`)}, false,
			[]string{"a/", "a/l -> ../windows/x"}, ""},
		{"relative link that climbs stops at the root", []*tar.Header{symlink("Files/a/l", `..\..\..\..\etc\passwd`)},
			false, []string{"a/", "a/l -> ../etc/passwd"}, ""},
		{"stream is left out", []*tar.Header{file("Files/xx"), file("Files/xx:Zone.Identifier")}, false, []string{"xx"},
			"alternate data streams"},
		{"stream of a directory in the middle", []*tar.Header{file("Files/x:y/z")}, true, nil, ""},
		{"reserved names are left out", []*tar.Header{file("Files/con"), file("Files/AUX.txt"), file("Files/a/Lpt1.x"),
			file("Files/ok")}, false, []string{"ok"}, "reserved device names"},
		{"trailing dot and blank are left out", []*tar.Header{file("Files/a."), file("Files/b "), file("Files/.. /x")},
			false, nil, "end in a dot or a blank"},
		{"case collision: the later wins", []*tar.Header{file("Files/Name"), file("Files/NAME")}, false,
			[]string{"Name"}, ""},
		{"case collision of directories", []*tar.Header{file("Files/Dir/x"), file("Files/DIR/y")}, false,
			[]string{"Dir/", "Dir/x", "Dir/y"}, ""},
		{"case collision beyond ASCII", []*tar.Header{file("Files/Größe"), file("Files/GRÖßE")}, false,
			[]string{"Größe"}, ""},
		{"existing spelling of the base", []*tar.Header{file("Files/WINDOWS/SYSTEM32/x")}, false,
			[]string{"windows/", "windows/system32/", "windows/system32/x"}, ""},
		{"hives and utility VM", []*tar.Header{dir("Files"), file("Hives/System_Delta"), file("UtilityVM/Files/x"),
			file("Files/y")}, false, []string{"y"}, "registry hives are not applied"},
		{"mixed: not a Windows layer after all", []*tar.Header{file("Files/x"), file("app/y")}, false,
			[]string{"Files/", "Files/x", "app/", "app/y"}, ""},
		{"plain", []*tar.Header{file("./app/y")}, false, []string{"app/", "app/y"}, ""},
		{"whiteout wins over what came before", []*tar.Header{file("Files/d/x"), file("Files/.wh.d")}, false,
			[]string{"d (whiteout)"}, ""},
		{"aufs' own entries", []*tar.Header{file("Files/.wh..wh.plnk"), file("Files/x")}, false, []string{"x"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := t.TempDir()
			cfg := testConfig(t)
			store := filepath.Join(host, "nodes", "store")
			s := open(t, store, cfg)
			for _, name := range []string{"escaped", "nodes/escaped"} {
				if err := os.WriteFile(filepath.Join(host, name), []byte("untouched"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			before, outside := hashTree(t, cfg.ExternalDir), func() []string {
				return slices.DeleteFunc(tree(t, host), func(n string) bool {
					return strings.HasPrefix(n, "nodes/store/")
				})
			}
			beforeOutside := outside()
			img := build(t,
				imagebuild.Spec{Base: "servercore", Layers: []imagebuild.Layer{{Raw: rawTar(t, tt.headers...)}}})
			loaded, err := s.Load(context.Background(),
				layout(t, map[string]*imagebuild.Image{"example.com/evil:1": img}))
			if after := hashTree(t, cfg.ExternalDir); after != before || !slices.Equal(outside(), beforeOutside) {
				t.Error("something outside of the layer has changed")
			}
			if tt.refused {
				if !errors.Is(err, image.ErrInvalid) {
					t.Fatalf("error %v, want ErrInvalid", err)
				}
				for _, sub := range []string{"l", "m", "images", "ingest"} {
					if left := tree(t, filepath.Join(store, sub)); len(left) > 0 {
						t.Errorf("%s has %q", sub, left)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			layer := loaded[0].Layers[1]
			if got := tree(t, layer); !slices.Equal(got, tt.want) {
				t.Errorf("unpacked %q, want %q", got, tt.want)
			}
			if tt.note != "" && !strings.Contains(strings.Join(loaded[0].Notes, "\n"), tt.note) {
				t.Errorf("notes %q, want %q", loaded[0].Notes, tt.note)
			}
			for _, name := range tree(t, layer) {
				if st, err := os.Lstat(filepath.Join(layer, name)); err == nil &&
					st.Mode()&(os.ModeSetuid|os.ModeSetgid|0o022) != 0 && st.Mode().Type() == 0 {
					t.Errorf("%s has mode %v", name, st.Mode())
				}
			}
		})
	}
}
