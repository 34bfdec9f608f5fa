// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTarThereAndBack(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(from, "d", "e"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"d/a.txt": "a\r\n", "d/e/b.txt": strings.Repeat("b", 100_000)} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, create := range [][]string{{"cf", "-", "-C", from, "d"}, {"-czf", "-", "-C", from, "d"}} {
		var archive, errs bytes.Buffer
		if code := tarTool(t.Context(), &Env{Args: create, Stdout: &archive, Stderr: &errs}); code != 0 {
			t.Fatalf("%v: %d, %s", create, code, errs.String())
		}
		if code := tarTool(t.Context(), &Env{
			Args:   []string{"-xmf", "-", "-C", to},
			Stdin:  &archive,
			Stdout: &bytes.Buffer{},
			Stderr: &errs,
		}); code != 0 {
			t.Fatalf("extract: %d, %s", code, errs.String())
		}
		if b, err := os.ReadFile(filepath.Join(to, "d/a.txt")); err != nil || string(b) != "a\r\n" {
			t.Errorf("a.txt %q, %v", b, err)
		}
		if b, err := os.ReadFile(filepath.Join(to, "d/e/b.txt")); err != nil || len(b) != 100_000 {
			t.Errorf("b.txt has %d bytes, %v", len(b), err)
		}
	}
}

func TestTarStaysInItsDirectory(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "in")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../out.txt", "a/../../out.txt", `..\out.txt`} {
		var archive, errs bytes.Buffer
		w := tar.NewWriter(&archive)
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 1, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if code := tarTool(t.Context(), &Env{Args: []string{"xf", "-", "-C", inside}, Stdin: &archive,
			Stderr: &errs}); code == 0 {
			t.Errorf("%s: extracted", name)
		}
		if _, err := os.Stat(filepath.Join(dir, "out.txt")); err == nil {
			t.Errorf("%s: written outside", name)
		}
	}
}

func TestTarArguments(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string // part of the error; "" for none
	}{
		{[]string{"cf", "-", "/x"}, ""},
		{[]string{"-x", "-m", "-f", "-", "-C", "/x"}, ""},
		{[]string{"-f"}, "requires an argument"},
		{[]string{"-J"}, "-J is not supported"},
		{nil, "Must specify"},
	} {
		_, err := parseTar(tc.args)
		if (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v", tc.args, err)
		}
	}
	if got := entryName(`C:\scratch\a.txt`); got != "scratch/a.txt" {
		t.Errorf("entry name %q", got)
	}
}
