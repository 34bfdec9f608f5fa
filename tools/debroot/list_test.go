// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bytes"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// TestCommittedList: the list is as -update writes it.
func TestCommittedList(t *testing.T) {
	const name = "../../native/packages.txt"
	l, err := readList(name, false)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "list")
	if err := l.write(copied); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not sorted, or has other spaces or comments between packages: %v", name, err)
	}
}

func TestBadLists(t *testing.T) {
	line := "a 1 all pool/a.deb 5 " + strings.Repeat("0", 64)
	b := strings.Replace(line, "a ", "bc ", 1)
	for text, part := range map[string]string{
		"# empty\n":                                "no packages",
		"bc 1 all pool/a.deb 5":                    "line 1: 5 fields, not 6",
		line:                                       `"a" is not a name`,
		"#\n" + strings.Replace(b, "5", "x", 1):    "line 2: the size",
		strings.Replace(b, "5", "0", 1):            "a size of 0 bytes",
		strings.Replace(b, " 1", " v1", 1):         "not a version",
		strings.Replace(b, "all", "i386", 1):       `the architecture is "i386"`,
		strings.Replace(b, "pool", "../pool", 1):   "not the path of a package",
		strings.Replace(b, "pool", "/pool", 1):     "not the path of a package",
		strings.Replace(b, "0000", "000", 1):       "not a SHA-256 checksum",
		strings.Replace(b, "0000", "AAAA", 1):      "not a SHA-256 checksum",
		strings.Replace(b, "0000", "zzzz", 1):      "not a SHA-256 checksum",
		b + "\n" + strings.Replace(b, "1", "2", 1): "bc stands there twice",
	} {
		if _, err := parseList(text, false); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want an error with %q", text, err, part)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, p := range slices.Concat(kept(), skipped(), skippedUnix(), skippedPE()) {
		if _, err := path.Match(p, ""); err != nil || strings.Contains(p, "[!") {
			t.Errorf("bad pattern %q: %v", p, err)
		}
	}
}

func TestDebianKeys(t *testing.T) {
	ring, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(debianKeys))
	if err != nil || len(ring) != 2 {
		t.Errorf("%d keys, not 2: %v", len(ring), err)
	}
}

func TestFindMirror(t *testing.T) {
	const debian = "ID=debian\nVERSION_CODENAME=bookworm\n"
	const third = "Types: deb\nURIs: https://third.invalid/\nSuites: nodistro\nComponents: main\n"
	for name, test := range map[string]struct {
		address, system, file, text string
		want                        string // the address, or a part of the error
	}{
		"flag": {address: "https://a.invalid/debian/", system: "ID=x", want: "https://a.invalid/debian"},
		"ftp":  {address: "ftp://a.invalid/debian", want: "not http://HOST/PATH"},
		"bad":  {address: "http://a b", want: "the address of the mirror"},
		"deb822": {system: debian, file: "sources.list.d/debian.sources", text: third +
			"\n# a\nTypes: deb deb-src\n# b\nURIs:\n cdrom:a\n http://b.invalid/debian\n" +
			"Suites: bookworm bookworm-updates\nComponents: main\n",
			want: "http://b.invalid/debian"},
		"disabled": {system: debian, file: "sources.list.d/debian.sources", text: "Enabled: no\nTypes: deb\n" +
			"URIs: http://b.invalid/debian\nSuites: bookworm\nComponents: main\n", want: "set " + mirrorVariable},
		"one line": {system: debian, file: "sources.list", text: "# deb http://no.invalid bookworm main\n" +
			"deb http://security.invalid bookworm-security main\n" +
			"deb [arch=amd64 signed-by=/a] http://c.invalid/debian bookworm contrib main # comment\n",
			want: "http://c.invalid/debian"},
		"other system": {system: "ID=\"ubuntu\"\nVERSION_CODENAME=noble\n", file: "sources.list",
			text: "deb http://c.invalid/ubuntu noble main\n", want: "set " + mirrorVariable},
		"no sources": {system: debian, want: "set " + mirrorVariable},
		"no system":  {want: "set " + mirrorVariable},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range map[string]string{"os-release": test.system, "apt/" + test.file: test.text} {
				name = filepath.Join(root, "etc", name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o644); text != "" && err != nil {
					t.Fatal(err)
				}
			}
			got, err := findMirror(test.address, root)
			if err != nil && strings.Contains(err.Error(), test.want) {
				return
			}
			if err != nil || string(got) != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	for args, want := range map[string]int{
		"":                          2,
		"-list a":                   2,
		"-list a -o b -update":      2,
		"-list a -o b c":            2,
		"-wrong":                    2,
		"-h":                        0,
		"-list /dev/null -o /x/y/z": 1,
	} {
		if got := run(t.Context(), strings.Fields(args), io.Discard, nil); got != want {
			t.Errorf("debroot %s: exit code %d, want %d", args, got, want)
		}
	}
}
