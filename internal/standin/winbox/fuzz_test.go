// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"archive/tar"
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzTar: no archive makes tar.exe write beside its directory.
func FuzzTar(f *testing.F) {
	add := func(headers ...tar.Header) {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for _, h := range headers {
			if h.Typeflag == tar.TypeReg {
				h.Size, h.Mode = 1, 0o644
			}
			if w.WriteHeader(&h) == nil && h.Size > 0 {
				_, _ = w.Write([]byte("x")) // of a buffer
			}
		}
		_ = w.Close()
		f.Add(archive.Bytes())
	}
	add(tar.Header{Typeflag: tar.TypeDir, Name: "d/"}, tar.Header{Typeflag: tar.TypeReg, Name: "d/a"})
	add(tar.Header{Typeflag: tar.TypeReg, Name: `C:\..\a`}, tar.Header{Typeflag: tar.TypeReg, Name: "../a"})
	add(tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "../.."},
		tar.Header{Typeflag: tar.TypeReg, Name: "l/a"})
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		top := t.TempDir()
		inside := filepath.Join(top, "in")
		if err := os.Mkdir(inside, 0o755); err != nil {
			t.Fatal(err)
		}
		env := &Env{
			Args:   []string{"-xmf", "-", "-C", inside},
			Stdin:  bytes.NewReader(archive),
			Stdout: io.Discard,
			Stderr: io.Discard,
		}
		tarTool(t.Context(), env)
		if entries, err := os.ReadDir(top); err != nil || len(entries) != 1 {
			t.Errorf("beside the directory: %v, %v", entries, err)
		}
	})
}

// FuzzRedis: a request is read or refused, and answered with one reply that
// redis-cli reads.
func FuzzRedis(f *testing.F) {
	for _, s := range []string{
		"*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n", "ping\r\n", "*-1\r\n", "*1\r\n$-1\r\n", "*1025\r\n", "keys *\r\n",
		"*0\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Add([]byte(strings.Repeat("x", 5000) + "\r\n"))
	f.Add([]byte("*1\r\n$3\r\na\nb\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		args, err := readRedis(bufio.NewReader(bytes.NewReader(data)))
		if err != nil || len(args) == 0 {
			return
		}
		db := &redisDB{data: map[string]string{"a": "1", "b\r\n": "2"}}
		reply := bufio.NewReader(strings.NewReader(db.do(args)))
		if _, _, err := redisReply(reply, redisMaxDepth); err != nil {
			t.Errorf("%q: the reply: %v", args, err)
		}
		if left, err := io.ReadAll(reply); err != nil || len(left) > 0 {
			t.Errorf("%q: after the reply: %q, %v", args, left, err)
		}
	})
}

// FuzzRedisReply: any server may answer redis-cli.
func FuzzRedisReply(f *testing.F) {
	for _, s := range []string{
		"+OK\r\n", "-ERR x\r\n", "$1\r\nx\r\n", "*1\r\n*1\r\n:1\r\n", "$-1\r\n", "*-1\r\n", "\r\n", "$9999999999\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Add([]byte(strings.Repeat("*1\r\n", 1_000_000)))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _, _ = redisReply(bufio.NewReader(bytes.NewReader(data)), redisMaxDepth)
	})
}

// FuzzAccounts: net.exe lists and changes what it reads, or says that the file is
// damaged.
func FuzzAccounts(f *testing.F) {
	for _, s := range []string{
		`{"users":["a"],"groups":{"g":["a"]}}`, `{"groups":{}}`, `{"groups":null}`,
		`{"users":[""],"groups":{"":null}}`, `[]`, ``,
	} {
		f.Add([]byte(s), "a")
	}
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		dir := t.TempDir()
		file := filepath.Join(dir, "mullion", "accounts.json")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"user"}, {"user", name}, {"localgroup"}, {"localgroup", name}, {"user", name, "/add"},
			{"user", name, "/delete"},
		} {
			env := &Env{
				Args:   args,
				Stdout: io.Discard,
				Stderr: io.Discard,
				System: fakeSystem{}, Host: newHost(),
				Getenv: func(string) string { return dir },
			}
			netCommand(t.Context(), env)
		}
		if _, err := loadAccounts(file); err != nil && !bytes.Equal(readAll(t, file), data) {
			t.Errorf("net.exe damaged the file: %v", err)
		}
	})
}

func readAll(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
