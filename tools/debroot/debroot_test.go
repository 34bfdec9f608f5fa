// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// packed is when the files in the tests' packages were written.
var packed = time.Date(2025, 6, 26, 12, 0, 0, 0, time.UTC)

func file(name, content string) tar.Header {
	// The content stands in Uname: the tests' packages have only small files.
	return tar.Header{Name: "./" + name, Typeflag: tar.TypeReg, Mode: 0o4755, Uname: content, Size: int64(len(content))}
}

func link(kind byte, name, target string) tar.Header {
	return tar.Header{Name: "./" + name, Typeflag: kind, Linkname: target, Mode: 0o777}
}

// deb returns a package with these files, compressed as ext says.
func deb(t testing.TB, ext string, files ...tar.Header) []byte {
	t.Helper()
	var data bytes.Buffer
	var w io.WriteCloser
	var err error
	switch ext {
	case ".gz":
		w = gzip.NewWriter(&data)
	case ".xz":
		w, err = xz.NewWriter(&data)
	case ".zst":
		w, err = zstd.NewWriter(&data)
	}
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(w)
	for _, h := range files {
		content := h.Uname
		h.Uname, h.ModTime = "", packed
		if err := archive.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(archive, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, m := range []struct{ name, content string }{
		{"debian-binary", "2.0\n"}, {"control.tar.gz", "odd"}, {"data.tar" + ext, data.String()},
	} {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", m.name, packed.Unix(), 0, 0, 0o100644, len(m.content))
		b.WriteString(m.content)
		b.WriteString(strings.Repeat("\n", len(m.content)%2))
	}
	return b.Bytes()
}

// archive is a mirror of a small archive and a builder that uses it.
type archive struct {
	*builder
	t     *testing.T
	out   bytes.Buffer
	mu    sync.Mutex
	files map[string][]byte // by path
	asked []string          // the paths of the requests
	block chan struct{}     // if there is one, requests wait until it is closed
}

func newArchive(t *testing.T) *archive {
	t.Helper()
	a := &archive{t: t, files: map[string][]byte{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		data, ok := a.files[r.URL.Path]
		a.asked = append(a.asked, path.Base(r.URL.Path))
		a.mu.Unlock()
		if a.block != nil {
			_, _ = w.Write(data[:len(data)/2])
			w.(http.Flusher).Flush()
			<-a.block
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	a.builder = &builder{
		dir: filepath.Join(dir, "root"), cache: filepath.Join(dir, "cache"), out: &a.out,
		mirror: func() (mirror, error) { return findMirror(server.URL+"/debian/", t.TempDir()) },
	}
	return a
}

func sum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// add puts a package on the mirror and returns its line of a list.
func (a *archive) add(name, version string, content []byte) pkg {
	p := pkg{
		Name: name, Version: version, arch: "all", size: int64(len(content)), SHA256: sum(content),
		path: "pool/main/" + name + "_" + version + "_all.deb",
	}
	a.files["/debian/"+p.path] = content
	return p
}

// sign puts the signed index of packages on the mirror.
func (a *archive) sign(codename string, packages ...pkg) {
	a.t.Helper()
	var index, message, keys bytes.Buffer
	w, err := xz.NewWriter(&index)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, p := range packages {
		fmt.Fprintf(w, "Package: %s\nVersion: %s\nArchitecture: %s\nDescription: a\n test\n", p.Name, p.Version, p.arch)
		fmt.Fprintf(w, "Filename: %s\nSize: %d\nSHA256: %s\n\n", p.path, p.size, p.SHA256)
	}
	key, err := openpgp.NewEntity("archive", "", "a@localhost", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
	if err := w.Close(); err != nil {
		a.t.Fatal(err)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	public, err := armor.Encode(&keys, openpgp.PublicKeyType, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := key.Serialize(public); err != nil {
		a.t.Fatal(err)
	}
	if err := public.Close(); err != nil {
		a.t.Fatal(err)
	}
	text, err := clearsign.Encode(&message, key.PrivateKey, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	fmt.Fprintf(text, "Codename: %s\nMD5Sum:\n 00 1 %s\nSHA256:\n 00 1 other\n %s %d %[2]s\n",
		codename, indexName, sum(index.Bytes()), index.Len())
	if err := text.Close(); err != nil {
		a.t.Fatal(err)
	}
	a.keys = keys.Bytes()
	a.files["/debian/dists/trixie/InRelease"] = message.Bytes()
	a.files["/debian/dists/trixie/"+indexName] = index.Bytes()
}

// fails builds and compares the error with its expected parts; neither the directory nor anything unpacked or half
// downloaded may remain.
func (a *archive) fails(ctx context.Context, parts ...string) {
	a.t.Helper()
	err := a.build(ctx)
	if err == nil {
		a.t.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			a.t.Errorf("the error %q does not have %q", err, part)
		}
	}
	if got := tree(a.t, filepath.Dir(a.dir)); strings.Contains(got, "root") || strings.Contains(got, ".part") {
		a.t.Errorf("left behind:\n%s", got)
	}
}

// tree lists a directory.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target, _ := os.Readlink(filepath.Join(dir, name))
		fmt.Fprintln(&b, strings.TrimSpace(name+" "+target+" "+strings.TrimPrefix(info.Mode().String(), "Lrwxrwxrwx")))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestBuild(t *testing.T) {
	a := newArchive(t)
	// A DOS header, the offset of the PE header, and room between them.
	zlib := "MZ" + strings.Repeat("\x00", 0x3a) + "\x80" + strings.Repeat("\x00", 0x7f)
	a.list.packages = []pkg{
		a.add("libz-mingw-w64", "1.3", deb(t, ".gz", file(zlibFrom, zlib), file("usr/share/man/man1/a.1", "man"))),
		a.add("wine64", "10.0~repack-6", deb(t, ".xz", file("usr/lib/wine/wine64", "loader"), file("lib/systemd/a", ""),
			file(pePath+"/explorer.exe", ""), file(pePath+"/ntdll.dll", "MZ"),
			link(tar.TypeLink, pePath+"/a.dll", pePath+"/ntdll.dll"),
			file("usr/share/doc/wine64/copyright", "LGPL"), file("usr/share/doc/wine64/changelog.gz", ""))),
		a.add("runc", "1.1", deb(t, ".zst", file("usr/sbin/runc", "runc"),
			link(tar.TypeSymlink, "usr/bin/runc", "../sbin/runc"))),
	}
	if err := a.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `bin usr/bin
lib usr/lib
lib64 usr/lib64
packages.json  -rw-r--r--
sbin usr/sbin
usr/bin/runc ../sbin/runc
usr/lib/wine/wine64  -rwxr-xr-x
usr/lib/x86_64-linux-gnu/wine/x86_64-windows/a.dll  -rwxr-xr-x
usr/lib/x86_64-linux-gnu/wine/x86_64-windows/ntdll.dll  -rwxr-xr-x
usr/lib/x86_64-linux-gnu/wine/x86_64-windows/zlib1.dll  -rwxr-xr-x
usr/sbin/runc  -rwxr-xr-x
usr/share/doc/wine64/copyright  -rwxr-xr-x
`
	if got := tree(t, a.dir); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	dll, err := os.ReadFile(filepath.Join(a.dir, zlibPlace))
	if err != nil || len(dll) != len(zlib) || !strings.HasPrefix(string(dll[0x40:]), "Wine builtin DLL\x00") {
		t.Errorf("zlib1.dll is not marked as a module of Wine: %q, %v", dll, err)
	}
	info, err := os.Stat(filepath.Join(a.dir, "sbin/runc"))
	if err != nil || !info.ModTime().Equal(packed) {
		t.Errorf("the time of runc is %v, not that in the package: %v", info, err)
	}
	text, err := os.ReadFile(filepath.Join(a.dir, recordName))
	if err != nil {
		t.Fatal(err)
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil || len(r.Packages) != 3 || r.Packages[0].Name != "libz-mingw-w64" ||
		r.Packages[0].Version != "1.3" || r.Packages[0].SHA256 != a.list.packages[0].SHA256 {
		t.Errorf("%s: %v", text, err)
	}
	if out := a.out.String(); strings.Count(out, "\n") != 2 || !strings.HasSuffix(out, "root has 3 packages, 0 MB\n") {
		t.Errorf("output %q", out)
	}

	// A second run does nothing; a damaged directory is made again, without downloads.
	a.asked = nil
	again := func(name string, making bool) {
		t.Helper()
		a.out.Reset()
		if err := a.build(t.Context()); err != nil {
			t.Fatal(err)
		}
		made := strings.Contains(a.out.String(), "making")
		if got := tree(t, a.dir); got != want || len(a.asked) > 0 || made != making {
			t.Errorf("%s: output %q, requests %v, tree\n%s", name, &a.out, a.asked, got)
		}
	}
	again("unchanged", false)
	if err := os.Remove(filepath.Join(a.dir, "usr/sbin/runc")); err != nil {
		t.Fatal(err)
	}
	again("a file is missing", true)
	if err := os.Mkdir(beside(a.dir, "new"), 0o755); err != nil {
		t.Fatal(err)
	}
	again("a killed run", false)
	if got := tree(t, filepath.Dir(a.dir)); strings.Contains(got, ".new") {
		t.Errorf("left behind:\n%s", got)
	}
}

func TestForeignDirectory(t *testing.T) {
	a := newArchive(t)
	if err := os.MkdirAll(filepath.Join(a.dir, "home"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := a.build(t.Context()); err == nil || !strings.Contains(err.Error(), "debroot did not make it") {
		t.Error(err)
	}
}

// TestBadDownloads: the error names the cause, and the next run goes on with what the first one verified.
func TestBadDownloads(t *testing.T) {
	good := deb(t, ".gz", file("usr/sbin/runc", "1"))
	size := fmt.Sprint(len(good))
	for name, test := range map[string]struct {
		served []byte
		parts  []string
	}{
		"checksum":  {append([]byte{0}, good[1:]...), []string{"found the SHA-256 checksum", "expected " + sum(good)}},
		"truncated": {good[:100], []string{"found 100 bytes", "expected " + size}},
		"longer":    {append([]byte{0}, good...), []string{"more than the expected " + size}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newArchive(t)
			first := a.add("first", "1", deb(t, ".gz", file("usr/sbin/nft", "1")))
			p := a.add("runc", "1", good)
			a.list.packages = []pkg{first, p}
			a.files["/debian/"+p.path] = test.served
			m, _ := a.mirror()
			a.fails(t.Context(), append(test.parts, "download runc 1: GET "+string(m)+"/"+p.path, mirrorVariable)...)
			a.files["/debian/"+p.path], a.asked = good, nil
			if err := a.build(t.Context()); err != nil || len(a.asked) != 1 {
				t.Errorf("the next run: %v, requests %v", err, a.asked)
			}
		})
	}
}

func TestCanceled(t *testing.T) {
	a := newArchive(t)
	a.list.packages = []pkg{a.add("runc", "1", deb(t, ".gz", file("usr/sbin/runc", "1")))}
	a.block = make(chan struct{})
	defer close(a.block)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	a.fails(ctx, "context canceled")
}

func TestSuccessor(t *testing.T) {
	a := newArchive(t)
	old := a.add("wine64", "10.0~repack-6", nil)
	delete(a.files, "/debian/"+old.path)
	old.size = 1
	next := a.add("wine64", "10.0~repack-7", deb(t, ".xz", file("usr/lib/wine/wine64", "7")))
	a.sign("trixie", a.add("other", "1", []byte("other")), next)
	a.list.packages = []pkg{old}
	if err := a.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	const says = "debroot: wine64 10.0~repack-6 is no longer on the mirror: using 10.0~repack-7\n"
	if !strings.Contains(a.out.String(), says) {
		t.Errorf("output %q", &a.out)
	}
	text, err := os.ReadFile(filepath.Join(a.dir, recordName))
	if err != nil || !strings.Contains(string(text), next.SHA256) {
		t.Errorf("%s: %v", text, err)
	}
	a.asked = nil
	if err := a.build(t.Context()); err != nil || len(a.asked) > 0 {
		t.Errorf("the next run: %v, requests %v", err, a.asked)
	}
}

func TestBadIndex(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(a *archive)
		part  string
	}{
		"no index": {func(a *archive) { clear(a.files) }, "InRelease: 404 Not Found"},
		"other key": {
			func(a *archive) { k := a.keys; a.sign("trixie"); a.keys = k },
			"not one of Debian 13's archive",
		},
		"changed": {
			func(a *archive) { a.change("InRelease", "MD5Sum", "MD4Sum") },
			"not one of Debian 13's archive",
		},
		"unsigned": {
			func(a *archive) { a.change("InRelease", "BEGIN PGP SIGNED", "BEGIN PGP") },
			"not a signed message",
		},
		"other release": {func(a *archive) { a.sign("bookworm") }, `the index of "bookworm", not of trixie`},
		"changed list": {
			func(a *archive) { a.change(indexName, "\xfd7zXZ", "\xfd8zXZ") },
			"found the SHA-256 checksum",
		},
		"no package":   {func(a *archive) { a.sign("trixie") }, "has no package of this name"},
		"still listed": {func(a *archive) { a.sign("trixie", a.list.packages...) }, "but it is in the index"},
		"path": {
			func(a *archive) { a.sign("trixie", pkg{Name: "wine64", Version: "1", arch: "all", path: "../a.deb"}) },
			`"../a.deb" is not the path of a package`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newArchive(t)
			a.list.packages = []pkg{a.add("wine64", "1", []byte("1"))}
			delete(a.files, "/debian/"+a.list.packages[0].path)
			a.sign("trixie", a.add("wine64", "2", []byte("2")))
			test.spoil(a)
			a.fails(t.Context(), "download wine64 1: ", test.part)
		})
	}
}

// change replaces text in a file of the index.
func (a *archive) change(name, old, text string) {
	name = "/debian/dists/trixie/" + name
	a.files[name] = bytes.Replace(a.files[name], []byte(old), []byte(text), 1)
}

func TestUpdate(t *testing.T) {
	a := newArchive(t)
	p := a.add("runc", "2", []byte("2"))
	a.sign("trixie", a.add("other", "1", []byte("other")), p)
	a.cache = ""
	name := filepath.Join(t.TempDir(), "list")
	a.list = list{"# comment\n", []pkg{{Name: "runc"}}}
	if err := a.update(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "# comment\n"+p.String()+"\n" {
		t.Errorf("%s: %v", text, err)
	}
	a.list.packages = []pkg{{Name: "nft"}}
	if err := a.update(t.Context(), name); err == nil || !strings.Contains(err.Error(), "has no package nft") {
		t.Error(err)
	}
}
