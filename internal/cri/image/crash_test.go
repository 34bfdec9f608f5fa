// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
	"github.com/mullion-k8s/mullion/internal/fault"
)

// crashSpec returns an image whose unpacking takes a few milliseconds in many steps.
func crashSpec(n int) imagebuild.Spec {
	spec := imagebuild.Spec{}
	for l := range 4 {
		layer := imagebuild.Layer{}
		for f := range 50 {
			layer.Entries = append(layer.Entries, imagebuild.Entry{Path: fmt.Sprintf("app/%d/file%d", l, f),
				Content: bytes.Repeat([]byte{byte(n), byte(l), byte(f)}, 5000)})
		}
		spec.Layers = append(spec.Layers, layer)
	}
	return spec
}

// checkWhole fails the test if an image of the store is not complete, byte by byte.
func checkWhole(t *testing.T, img *image.Image, n int) {
	t.Helper()
	if len(img.Layers) != 4 {
		t.Fatalf("layers %q", img.Layers)
	}
	for l, layer := range img.Layers {
		for f := range 50 {
			data, err := os.ReadFile(filepath.Join(layer, "app", fmt.Sprint(l), fmt.Sprintf("file%d", f)))
			if err != nil || !bytes.Equal(data, bytes.Repeat([]byte{byte(n), byte(l), byte(f)}, 5000)) {
				t.Fatalf("layer %d, file %d: %d bytes, %v", l, f, len(data), err)
			}
		}
	}
}

// checkStore: what the store lists is whole, and nothing is on disk that it
// does not list.
func checkStore(t *testing.T, dir string, s *image.Store, n int) {
	t.Helper()
	layers := map[string]bool{}
	for _, img := range s.List() {
		checkWhole(t, img, n)
		for _, l := range img.Layers {
			layers[l] = true
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, "l"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !layers[filepath.Join(dir, "l", e.Name())] {
			t.Errorf("layer %s belongs to no image", e.Name())
		}
	}
	if left := tree(t, filepath.Join(dir, "ingest")); len(left) > 0 {
		t.Errorf("ingest has %q", left)
	}
}

// TestFaultPoints walks every point of a load: the error surfaces, nothing is
// left, and the next attempt succeeds.
func TestFaultPoints(t *testing.T) {
	archive := layout(t, map[string]*imagebuild.Image{"example.com/a:1": build(t, crashSpec(1))}).Bytes()
	set := fault.NewSet()
	s := open(t, t.TempDir(), testConfig(t))
	if _, err := s.Load(fault.With(context.Background(), set), bytes.NewReader(archive)); err != nil {
		t.Fatal(err)
	}
	points := slices.Compact(slices.Sorted(slices.Values(set.Reached())))
	if len(points) < 4 {
		t.Errorf("only %d points: %q", len(points), points)
	}
	for _, p := range points {
		t.Run(p, func(t *testing.T) {
			dir, cfg := t.TempDir(), testConfig(t)
			s := open(t, dir, cfg)
			if _, err := s.Load(fault.With(context.Background(), fault.NewSet(p)),
				bytes.NewReader(archive)); !errors.Is(err, fault.ErrInjected) {
				t.Fatalf("error %v", err)
			}
			if len(s.List()) > 0 {
				t.Error("a half-made image is listed")
			}
			// As after a crash there.
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, cfg)
			checkStore(t, dir, s, 1)
			imgs, err := s.Load(context.Background(), bytes.NewReader(archive))
			if err != nil {
				t.Fatal(err)
			}
			checkWhole(t, imgs[0], 1)
		})
	}
}

// crashDir names the store for the process that TestKill kills.
const crashDir = "MULLION_TEST_CRASH_STORE"

// loadUntilKilled loads and removes images in the process that TestKill kills.
func loadUntilKilled(t *testing.T, dir string) {
	cfg := image.Config{HostBuild: build2019(), UID: -1, GID: -1}
	img := build(t, crashSpec(1))
	archive := layout(t, map[string]*imagebuild.Image{"example.com/a:1": img}).Bytes()
	renamed := layout(t, map[string]*imagebuild.Image{"example.com/b:1": img}).Bytes()
	s, err := image.Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		if n == 1 {
			fmt.Println("ready") // after one cycle, which tells how long they take
		}
		imgs, err := s.Load(context.Background(), bytes.NewReader(archive))
		if err != nil {
			t.Fatal(err)
		}
		// Acknowledged: from here on the image must be there, until the mark is gone.
		if err := os.WriteFile(dir+".acked", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := s.Load(context.Background(), bytes.NewReader(renamed)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Remove(dir + ".acked"); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove(context.Background(), imgs[0].ID); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKill kills a process at random moments of loading and removing: the store
// opens again, lists whole images only, and keeps what was acknowledged.
func TestKill(t *testing.T) {
	if dir := os.Getenv(crashDir); dir != "" {
		loadUntilKilled(t, dir)
		return
	}
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(t.TempDir(), "store")
	whole := 0
	for range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKill$", "-test.timeout=1m")
		cmd.Env = append(os.Environ(), crashDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 5)
		if _, err := out.Read(line); err != nil || string(line) != "ready" {
			_ = cmd.Process.Kill()
			t.Fatalf("victim says %q, %v", line, err)
		}
		time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Since(began)))))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("victim ended by itself: %v", err)
		}
		s, err := image.Open(dir, image.Config{HostBuild: build2019(), UID: -1, GID: -1})
		if err != nil {
			t.Fatal(err)
		}
		checkStore(t, dir, s, 1)
		whole += len(s.List())
		if _, err := os.Stat(dir + ".acked"); err == nil {
			if _, err := s.Get("example.com/a:1"); err != nil {
				t.Errorf("acknowledged image is gone: %v", err)
			}
			if err := os.Remove(dir + ".acked"); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of %d kills left a whole image, the others none", whole, rounds)
}

// BenchmarkUnpack compares with GNU tar on the same archive, in one run:
// MB/s are of the unpacked content.
func BenchmarkUnpack(b *testing.B) {
	const files, size = 2000, 32 << 10
	layer := imagebuild.Layer{}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range files {
		// Half random, half text, which compresses about as well as programs do.
		content := make([]byte, size)
		for j := range content {
			content[j] = "abcdefgh"[rng.IntN(8)]
			if j%2 == 0 {
				content[j] = byte(rng.Uint32())
			}
		}
		layer.Entries = append(layer.Entries, imagebuild.Entry{Path: fmt.Sprintf("app/%d/%d.dll", i%40, i),
			Content: content})
	}
	img := build(b, imagebuild.Spec{Layers: []imagebuild.Layer{layer}})
	archive := layout(b, map[string]*imagebuild.Image{"example.com/big:1": img}).Bytes()
	tarball := filepath.Join(b.TempDir(), "layer.tar.gz")
	if err := os.WriteFile(tarball, img.Layers[0].Data, 0o600); err != nil {
		b.Fatal(err)
	}
	b.Run("store", func(b *testing.B) {
		b.SetBytes(files * size)
		for b.Loop() {
			b.StopTimer()
			s := open(b, b.TempDir(), testConfig(b))
			b.StartTimer()
			if _, err := s.Load(context.Background(), bytes.NewReader(archive)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tar", func(b *testing.B) {
		if _, err := exec.LookPath("tar"); err != nil {
			b.Skip(err)
		}
		b.SetBytes(files * size)
		for b.Loop() {
			b.StopTimer()
			dir := b.TempDir()
			b.StartTimer()
			if out, err := exec.Command("tar", "-xzf", tarball, "-C", dir).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			// The store syncs what it unpacked.
			if out, err := exec.Command("sync", "-f", dir).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
}
