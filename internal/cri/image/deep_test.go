// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// deepLayer is a layer of n files, each in a tree of the given depth of its own or of
// one for all.
func deepLayer(t testing.TB, n, depth int, apart bool) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for i := range n {
		top := "top"
		if apart {
			top = fmt.Sprintf("top%d", i%2)
		}
		name := "Files/" + top + "/" + strings.Repeat("d/", depth-2) + fmt.Sprintf("file%d", i)
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func unpackInto(ctx context.Context, t testing.TB, limits Limits, r io.Reader) (*unpacker, error) {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	u := newUnpacker(root, nil, &meter{limits: limits.withDefaults(), compressed: 1 << 20}, -1, -1)
	return u, u.run(ctx, r)
}

// TestDepth: the deepest path unpacks, one that is deeper is refused before anything of
// it is made, and directories without entries of their own count as entries.
func TestDepth(t *testing.T) {
	if _, err := unpackInto(t.Context(), t, Limits{}, bytes.NewReader(deepLayer(t, 3, maxDepth, true))); err != nil {
		t.Errorf("depth %d: %v", maxDepth, err)
	}
	u, err := unpackInto(t.Context(), t, Limits{}, bytes.NewReader(deepLayer(t, 1, maxDepth+1, false)))
	if !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), fmt.Sprintf("%d directories deep, at most %d", maxDepth+1, maxDepth)) {
		t.Errorf("depth %d: %v", maxDepth+1, err)
	}
	if len(u.made) > 0 {
		t.Errorf("made %d directories", len(u.made))
	}
	for name, l := range map[string]Limits{"more than 100 entries": {LayerEntries: 100},
		"paths of more than 1000 bytes": {NameBytes: 1000}} {
		_, err := unpackInto(t.Context(), t, l, bytes.NewReader(deepLayer(t, 1, maxDepth, false)))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestParentsStayOpen: entries of one directory open the directories above it once, and
// no directory stays open afterwards.
func TestParentsStayOpen(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	u := newUnpacker(root, []string{t.TempDir(), "/does/not/exist"}, &meter{limits: Limits{}.withDefaults()}, -1, -1)
	defer u.spelling.close()
	parts := strings.Split("a/B/c", "/")
	first, err := u.enter(parts)
	if err != nil {
		t.Fatal(err)
	}
	again, err := u.enter([]string{"A", "b", "C"})
	if err != nil || again.root != first.root || again.name != "a/B/c" {
		t.Errorf("the same directory: %+v, %v; want %+v", again, err, first)
	}
	side, err := u.enter([]string{"a", "d"})
	if err != nil || side.name != "a/d" || len(u.path.dirs) != 3 {
		t.Errorf("beside it: %+v, %v; %d are open", side, err, len(u.path.dirs))
	}
	if _, err := first.root.Stat("."); err == nil {
		t.Error("a directory that was left is still open")
	}
	u.path.close()
	if _, err := side.root.Stat("."); err == nil {
		t.Error("a directory is still open at the end")
	}
	if _, err := root.Stat("a/B/c"); err != nil {
		t.Errorf("the layer's own root: %v", err)
	}
}

// TestUnpackObeysContext: unpacking ends at the next entry.
func TestUnpackObeysContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u, err := unpackInto(ctx, t, Limits{}, bytes.NewReader(deepLayer(t, 100, 3, false)))
	if !errors.Is(err, context.Canceled) || len(u.made) > 0 {
		t.Errorf("%v, %d directories made", err, len(u.made))
	}
}

// TestLoadsDoNotWait: while one layer is being unpacked, other images load; a call that
// needs the same layer waits, until its context ends.
func TestLoadsDoNotWait(t *testing.T) {
	s, err := Open(t.TempDir(), Config{UID: -1, GID: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	unlock, err := s.lockLayer(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.lockLayer(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.lockLayer(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("the same layer: %v", err)
	}
	got := make(chan error)
	go func() {
		again, err := s.lockLayer(t.Context(), "a")
		if err == nil {
			again()
		}
		got <- err
	}()
	unlock()
	if err := <-got; err != nil {
		t.Errorf("after the first: %v", err)
	}
	if len(s.unpacking) > 0 {
		t.Errorf("still locked: %v", s.unpacking)
	}
}

// TestSpoolReadsToTheEnd: a server learns that a client has left only after it has read
// the whole request.
func TestSpoolReadsToTheEnd(t *testing.T) {
	s, err := Open(t.TempDir(), Config{UID: -1, GID: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rest := strings.NewReader(strings.Repeat("x", 1<<20))
	ar, err := s.spool(t.Context(), io.MultiReader(bytes.NewReader(deepLayer(t, 1, 3, false)), rest))
	if err != nil {
		t.Fatal(err)
	}
	ar.remove()
	if rest.Len() > 0 {
		t.Errorf("%d bytes were not read", rest.Len())
	}
	left := errors.New("the client has left")
	if _, err := s.spool(t.Context(), io.MultiReader(bytes.NewReader(deepLayer(t, 1, 3, false)),
		iotest.ErrReader(left))); !errors.Is(err, left) {
		t.Errorf("error %v", err)
	}
}

// BenchmarkDeepLayer unpacks files whose directories alternate, the worst order.
func BenchmarkDeepLayer(b *testing.B) {
	for _, depth := range []int{8, maxDepth} {
		layer := deepLayer(b, 1000, depth, true)
		b.Run(fmt.Sprint(depth), func(b *testing.B) {
			for b.Loop() {
				if _, err := unpackInto(b.Context(), b, Limits{}, bytes.NewReader(layer)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
