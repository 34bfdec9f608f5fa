// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spdx/tools-golang/json"
)

// newRelease is a release of programs that are all this test.
func newRelease(t *testing.T) release {
	t.Helper()
	r := release{
		bin:      t.TempDir(),
		root:     t.TempDir(),
		version:  "v1.2.3",
		date:     time.Unix(1790000000, 0).UTC(),
		level:    1,
		packages: []string{"base-files", "bash"},
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mullion", "windows/kubelet.exe", "windows/critest.exe", "tools/x", ".cache/x",
		"a.cover"} {
		write(t, filepath.Join(r.bin, name), string(program))
	}
	write(t, filepath.Join(r.bin, "native/winemend.dll"), "MZ")
	write(t, filepath.Join(r.bin, "linux/pause.tar"), "an image")
	write(t, filepath.Join(r.bin, "wine/usr/lib/wine/wine64"), "\x7fELF")
	write(t, filepath.Join(r.bin, "wine/usr/lib/libc.so.6"), "\x7fELF")
	write(t, filepath.Join(r.bin, "wine/usr/share/doc/wine64/copyright"), "terms of Wine")
	write(t, filepath.Join(r.bin, "wine/packages.json"),
		`{"packages": [{"name": "wine64", "version": "1:10.0+b2", "sha256": "0123abcd"}], "list": "4567"}`)
	if err := errors.Join(os.Chmod(filepath.Join(r.bin, "wine/usr/lib/libc.so.6"), 0o600),
		os.Symlink("usr/lib", filepath.Join(r.bin, "wine/lib"))); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.root, "native/packages.txt"),
		"# A comment.\n\nwine64 1:10.0+b2 amd64 pool/main/w/wine/wine64_10.0+b2_amd64.deb 4 0123abcd\n")
	write(t, filepath.Join(r.root, "LICENSE"), "terms")
	write(t, filepath.Join(r.root, "README.md"), "read me")
	write(t, filepath.Join(r.root, "CHANGELOG.md"), "# Changelog\n\n## v1.2.3\n\n## v1.2.2\n")
	write(t, filepath.Join(r.root, "examples/a.yaml"), "kind: Pod")
	return r
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o755)); err != nil {
		t.Fatal(err)
	}
}

// TestWrite: the same input gives the same files, with what users need in them.
func TestWrite(t *testing.T) {
	r := newRelease(t)
	first, second := t.TempDir(), t.TempDir()
	names, err := r.write(first)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // a time that went into a file would differ
	if _, err := r.write(second); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		a, b := read(t, filepath.Join(first, name)), read(t, filepath.Join(second, name))
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs from one time to the next", name)
		}
	}
	if left, err := os.ReadDir(first); err != nil || len(left) != len(names) {
		t.Errorf("beside %v there is something else: %v, %v", names, left, err)
	}
	check := exec.Command("sha256sum", "-c", "--strict", "SHA256SUMS")
	check.Dir = first
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	got := list(t, filepath.Join(first, names[1]))
	own := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return strings.Contains(s, "/licenses/") })
	if want := []string{"mullion/", "mullion/CHANGELOG.md", "mullion/LICENSE", "mullion/README.md",
		"mullion/SOURCES.txt", "mullion/examples/", "mullion/examples/a.yaml", "mullion/linux/",
		"mullion/linux/pause.tar",
		"mullion/mullion", "mullion/mullion.spdx.json",
		"mullion/native/", "mullion/native/winemend.dll", "mullion/windows/",
		"mullion/windows/kubelet.exe", "mullion/wine/", "mullion/wine/lib", "mullion/wine/packages.json",
		"mullion/wine/usr/", "mullion/wine/usr/lib/", "mullion/wine/usr/lib/libc.so.6", "mullion/wine/usr/lib/wine/",
		"mullion/wine/usr/lib/wine/wine64", "mullion/wine/usr/share/", "mullion/wine/usr/share/doc/",
		"mullion/wine/usr/share/doc/wine64/",
		"mullion/wine/usr/share/doc/wine64/copyright"}; !slices.Equal(own, want) {
		t.Errorf("the archive has %q", own)
	}
	for _, want := range []string{"mullion/licenses/github.com/spdx/tools-golang@", "mullion/licenses/go@go"} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("the archive lacks %s…: %q", want, got)
		}
	}
	doc, err := json.Read(bytes.NewReader(read(t, filepath.Join(first, names[0]))))
	if err != nil || len(doc.Packages) < 5 {
		t.Errorf("bill of materials: %v, %+v", err, doc)
	}
	contents, err := exec.Command("dpkg-deb", "--contents", filepath.Join(first, names[2])).CombinedOutput()
	for _, want := range []string{"root/root", "./usr/bin/mullion -> ../lib/mullion/mullion",
		"./usr/lib/mullion/wine/lib -> usr/lib", "./usr/lib/mullion/wine/usr/share/doc/wine64/copyright",
		"./usr/lib/mullion/wine/packages.json", "./usr/share/doc/mullion/SOURCES.txt",
		"./usr/lib/mullion/native/winemend.dll", "./usr/lib/mullion/linux/pause.tar",
		"./usr/share/doc/mullion/copyright"} {
		if err != nil || !strings.Contains(string(contents), want) {
			t.Errorf("the package lacks %q: %v, %s", want, err, contents)
		}
	}
	for line := range strings.Lines(string(contents)) {
		if strings.HasSuffix(line, "libc.so.6\n") && !strings.HasPrefix(line, "-rw-r--r-- ") {
			t.Errorf("the mode of a library is %s", line)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// list returns the names in a .tar.gz.
func list(t *testing.T, name string) (names []string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(read(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

// TestVersion: a tag needs a heading in the changelog, a commit does not.
func TestVersion(t *testing.T) {
	r := newRelease(t)
	for version, want := range map[string]string{
		"v1.2.3":              "",
		"v1.2.4":              `no heading "## v1.2.4"`,
		"v1.2.4-2-g0123abc":   "",
		"v0.0.0-g0123abc":     "",
		"1.2.3":               "is not semantic",
		"v1.2.3/../../../etc": "is not semantic",
	} {
		r.version = version
		err := r.checkVersion()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", version, err, want)
		}
	}
}

// TestDebVersion compares with dpkg itself: each version is older than the next.
func TestDebVersion(t *testing.T) {
	versions := []string{"v0.0.0-g0123abc", "v1.0.0-rc.1", "v1.0.0-rc.1-3-g0123abc", "v1.0.0-rc.2", "v1.0.0",
		"v1.0.0-2-gd200a9d", "v1.0.0-10-gd200a9d-dirty", "v1.0.1"}
	for i := range versions[1:] {
		a, b := debVersion(versions[i]), debVersion(versions[i+1])
		if out, err := exec.Command("dpkg", "--compare-versions", a, "lt", b).CombinedOutput(); err != nil {
			t.Errorf("%s is not before %s: %v %s", a, b, err, out)
		}
	}
}

// TestMissing: what is missing is named, with what to do.
func TestMissing(t *testing.T) {
	r := newRelease(t)
	if err := os.Remove(filepath.Join(r.bin, "mullion")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.write(t.TempDir()); err == nil || !strings.Contains(err.Error(), "run 'make build'") {
		t.Errorf("without programs: %v", err)
	}
	for name, want := range map[string]string{
		"wine/packages.json":                  "run 'make build'",
		"wine/usr/share/doc/wine64/copyright": "find the licence of wine64",
	} {
		r = newRelease(t)
		if err := os.Remove(filepath.Join(r.bin, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.write(t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	r = newRelease(t)
	write(t, filepath.Join(r.root, "native/packages.txt"), "")
	if _, err := r.write(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has wine64") {
		t.Errorf("with a package that is not in the list: %v", err)
	}
	r = newRelease(t)
	write(t, filepath.Join(r.bin, "windows/other.exe"), "MZ")
	if _, err := r.write(t.TempDir()); err == nil || !strings.Contains(err.Error(), "other.exe") {
		t.Errorf("with a program that is not Go's: %v", err)
	}
}
