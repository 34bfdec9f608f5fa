// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"bytes"
	"context"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func TestOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache", "thing")
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			err := once(t.Context(), dir, func(tmp string) error {
				made.Add(1)
				return os.WriteFile(filepath.Join(tmp, "file"), []byte("x"), 0o644)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Errorf("made %d times", made.Load())
	}
	if _, err := os.Stat(filepath.Join(dir, "file")); err != nil {
		t.Error(err)
	}
}

// TestOnceFails: nothing is left, and what an earlier process left when it was
// killed does no harm.
func TestOnceFails(t *testing.T) {
	cache := t.TempDir()
	dir := filepath.Join(cache, "thing")
	wrong := errors.New("wrong")
	if err := once(t.Context(), dir, func(string) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("error %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "*thing")); len(left) != 1 { // the lock
		t.Errorf("left %v", left)
	}
	if err := os.MkdirAll(filepath.Join(cache, ".tmp-thing", "half"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := once(t.Context(), dir, func(string) error { return nil }); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "half")); err == nil {
		t.Error("a half-made directory was used")
	}
	ctx, cancel := context.WithCancel(t.Context())
	building, err := durable.TryLock(filepath.Join(cache, ".lock-other"), durable.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	err = once(ctx, filepath.Join(cache, "other"), func(string) error {
		return errors.New("made in spite of the lock")
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a lock: %v", err)
	}
	building.Unlock()
}

func TestNamedRuntime(t *testing.T) {
	cache := t.TempDir()
	if r, err := NamedRuntime(cache, "wine-0123", nil); err == nil {
		t.Errorf("%+v of a runtime that is not there", r)
	}
	if err := os.Mkdir(filepath.Join(cache, "wine-0123"), 0o755); err != nil {
		t.Fatal(err)
	}
	if r, err := NamedRuntime(cache, "wine-0123", nil); err != nil || r.hash != "0123" ||
		r.Dir != filepath.Join(cache, "wine-0123") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestFindDistributionMissing(t *testing.T) {
	root := t.TempDir()
	missing := func() error {
		d, err := findDistribution(root)
		if err == nil {
			_, err = d.hash(nil)
		}
		return err
	}
	if err := missing(); err == nil || !strings.Contains(err.Error(), unixPath) {
		t.Errorf("error %v", err)
	}
	for _, dir := range []string{unixPath, pePath, dataPath + "/nls", libPath} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const want = "wine64: no such file or directory (run `make build`)"
	if err := missing(); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v", err)
	}
}

func TestWithImport(t *testing.T) {
	testenv.Need(t, testenv.Wine)
	data, err := os.ReadFile("/" + pePath + "/" + patchedModule)
	if err != nil {
		t.Fatal(err)
	}
	out, err := withImport(data, winemendDLL)
	if err != nil {
		t.Fatal(err)
	}
	f, err := pe.NewFile(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	s := f.Section(".winmend")
	if s == nil || s.Characteristics != sectionFlags {
		t.Fatalf("section %+v", s)
	}
	opt := f.OptionalHeader.(*pe.OptionalHeader64)
	if dir := opt.DataDirectory[1]; dir.VirtualAddress != s.VirtualAddress || opt.SizeOfImage < s.VirtualAddress+
		s.VirtualSize {
		t.Errorf("import directory %+v, image %#x", dir, opt.SizeOfImage)
	}
	body, err := s.Data()
	if err != nil || !bytes.Contains(body, []byte(winemendDLL+"\x00")) {
		t.Errorf("section's content: %v", err)
	}
	before, after := descriptors(t, data), descriptors(t, out)
	if len(after) != len(before)+importDescriptor || !bytes.HasPrefix(after, before) {
		t.Errorf("%d bytes of imports became %d", len(before), len(after))
	}
}

func descriptors(t *testing.T, data []byte) []byte {
	t.Helper()
	head, err := peHeaderOffset(data)
	if err != nil {
		t.Fatal(err)
	}
	count := int(binary.LittleEndian.Uint16(data[head+6:]))
	table := head + fileHeaderSize + int(binary.LittleEndian.Uint16(data[head+20:]))
	d, err := importDescriptors(data, head, table, count)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// FuzzWithImport: damaged modules give an error, never a panic.
func FuzzWithImport(f *testing.F) {
	f.Add([]byte("MZ"))
	if data, err := os.ReadFile(testenv.Bin("native", winemendDLL)); err == nil {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = withImport(data, winemendDLL) // only that it returns matters
	})
}

func TestMarkBuiltin(t *testing.T) {
	if err := markBuiltin([]byte("not a module")); err == nil {
		t.Error("no error")
	}
}

func TestContainerProcess(t *testing.T) {
	var b strings.Builder
	for _, row := range []struct {
		name string
		p    Process
	}{
		{"shell form", Process{CommandLine: `cmd /S /C "echo %PATH%"`, Status: "main"}},
		{"exec form", Process{Args: []string{"app.exe", "-v", "two words"}, Dir: `C:\app`, Status: "main"}},
		{"environment", Process{Args: []string{"app"}, Env: []string{
			`Path=C:\app`, "NAME=a=b", "EMPTY=", "novalue", "TMP=C:\\t", "WINEPREFIX=/evil", "LD_PRELOAD=/evil",
			"LC_ALL=x", "=C:=C:\\",
		}}},
		{"exec", Process{Args: []string{"cmd", "/c", "dir"}, Exec: true, Status: "exec-1"}},
	} {
		argv, env, cwd := ContainerProcess(row.p)
		fmt.Fprintf(&b, "== %s\nargv %q\ncwd %s\n", row.name, argv, cwd)
		for _, e := range env {
			fmt.Fprintf(&b, "env %s\n", e)
		}
	}
	testenv.Golden(t, "process.txt", []byte(b.String()))
}

func ExampleHost() {
	h := Host{Runtime: "/opt/wine", Prefix: "/prefix"}
	fmt.Println(h.Argv(`C:\kubelet.exe`, "--version"))
	// Output: [/opt/wine/usr/lib/wine/wine64 C:\kubelet.exe --version]
}
