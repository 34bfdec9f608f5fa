// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// TestUnpackRefuses: packages are signed, but a mistake or a stolen key must not reach beyond the directory.
func TestUnpackRefuses(t *testing.T) {
	spoiled := func(old, text string) []byte {
		return bytes.Replace(deb(t, ".gz"), []byte(old), []byte(text), 1)
	}
	for name, test := range map[string]struct {
		content []byte
		part    string
	}{
		"parent":         {deb(t, ".gz", file("../usr/sbin/nft", "")), "leads out"},
		"inner parent":   {deb(t, ".gz", file("usr/../../usr/sbin/nft", "")), "leads out"},
		"absolute":       {deb(t, ".gz", tar.Header{Name: "/usr/sbin/nft", Typeflag: tar.TypeReg}), "leads out"},
		"absolute link":  {deb(t, ".gz", link(tar.TypeSymlink, "usr/sbin/nft", "/etc/passwd")), "leads out"},
		"link to parent": {deb(t, ".gz", link(tar.TypeSymlink, "usr/sbin/nft", "../../../etc")), "leads out"},
		"hard link":      {deb(t, ".gz", link(tar.TypeLink, "usr/sbin/nft", "../outside")), "which is not unpacked"},
		"missing link":   {deb(t, ".gz", link(tar.TypeLink, "usr/sbin/nft", "usr/sbin/runc")), "no such file"},
		"device":         {deb(t, ".gz", link(tar.TypeBlock, "usr/sbin/nft", "")), "type '4'"},
		"pipe":           {deb(t, ".gz", link(tar.TypeFifo, "dev/initctl", "")), "type '6'"},
		"twice":          {deb(t, ".gz", file("usr/sbin/nft", "1"), file("usr/sbin/nft", "2")), "file exists"},
		"full":           {deb(t, ".gz", file("usr/sbin/nft", strings.Repeat("a", 200))), "larger than they may be"},
		"truncated":      {deb(t, ".gz", file("usr/sbin/nft", "1"))[:180], "unexpected EOF"},
		"no data":        {deb(t, ".gz")[:70], "find the member data.tar"},
		"compression":    {spoiled("data.tar.gz ", "data.tar.bz2"), "not xz, zst or gz"},
		"version":        {spoiled("2.0\n", "3.0\n"), "not a Debian package of version 2"},
		"size":           {spoiled("4         `", "-4        `"), "a bad header"},
		"text":           {[]byte("<html>Please log in</html>"), "not a Debian package"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "outside"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, "root"), 0o755); err != nil {
				t.Fatal(err)
			}
			root, err := os.OpenRoot(filepath.Join(dir, "root"))
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			left := int64(100)
			if err := unpack(t.Context(), bytes.NewReader(test.content), root, &left); err == nil ||
				!strings.Contains(err.Error(), test.part) {
				t.Errorf("error %v, want one with %q", err, test.part)
			}
		})
	}
}

// TestUnpackThroughLink: a file whose directory is a link out of the root is not written.
func TestUnpackThroughLink(t *testing.T) {
	outside := t.TempDir()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.Symlink(outside, "usr"); err != nil {
		t.Fatal(err)
	}
	left := int64(100)
	if err := unpack(t.Context(), bytes.NewReader(deb(t, ".gz", file("usr/sbin/nft", "1"))), root, &left); err == nil {
		t.Error("no error")
	}
	if files, err := os.ReadDir(outside); err != nil || len(files) > 0 {
		t.Error(files, err)
	}
}

func TestLimited(t *testing.T) {
	data, err := io.ReadAll(&limited{strings.NewReader("12345"), 4})
	if err == nil || string(data) != "1234" {
		t.Errorf("%q, %v", data, err)
	}
}

// program returns a Linux library that needs another one.
func program(t *testing.T, needs string) *fstest.MapFile {
	t.Helper()
	names := "\x00" + needs + "\x00"
	const sections, dynamic, text = 64, 64 + 3*64, 64 + 3*64 + 2*16 // offsets in bytes
	var b bytes.Buffer
	for _, part := range []any{
		elf.Header64{
			Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Shoff: sections, Ehsize: 64,
			Shentsize: 64, Shnum: 3, Shstrndx: 2,
		},
		elf.Section64{},
		elf.Section64{Type: uint32(elf.SHT_DYNAMIC), Off: dynamic, Size: 32, Link: 2},
		elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: text, Size: uint64(len(names))},
		elf.Dyn64{Tag: int64(elf.DT_NEEDED), Val: 1}, elf.Dyn64{},
		[]byte(names),
	} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return &fstest.MapFile{Data: b.Bytes()}
}

func TestCheckLibraries(t *testing.T) {
	dir := fstest.MapFS{
		"usr/sbin/nft":           program(t, "libnft.so.1"),
		libPath + "/libnft.so.1": {Data: []byte("text")},
		unixPath + "/a.so":       program(t, "b.so"),
		unixPath + "/b.so":       {},
		pePath + "/a.dll":        program(t, "c.so"),
	}
	if err := checkLibraries(dir); err != nil {
		t.Error(err)
	}
	dir["usr/bin/conmon"] = program(t, "b.so")
	if err := checkLibraries(dir); err == nil || !strings.HasPrefix(err.Error(), "usr/bin/conmon needs b.so, ") {
		t.Error(err)
	}
}

func FuzzOpenDeb(f *testing.F) {
	for _, ext := range []string{".gz", ".xz", ".zst"} {
		f.Add(deb(f, ext, file("usr/sbin/nft", "1"), link(tar.TypeSymlink, "usr/bin/nft", "../sbin/nft")))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := openDeb(bytes.NewReader(data))
		for n := 0; err == nil && n < 100; n++ {
			if _, err = files.Next(); err == nil {
				_, err = io.CopyN(io.Discard, files, 1<<20)
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
		}
	})
}
