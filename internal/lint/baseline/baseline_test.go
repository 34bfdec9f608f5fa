// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package baseline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/lint"
)

// pod has a Windows pod with a container for each name, each with a mistake.
func pod(before string, names ...string) string {
	out := before + "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  os: {name: windows}\n  containers:\n"
	for _, n := range names {
		out += fmt.Sprintf("  - name: %s\n    image: mcr.microsoft.com/windows/nanoserver:ltsc2022\n"+
			"    resources: {limits: {memory: 1Gi}}\n    securityContext: {privileged: false}\n", n)
	}
	return out
}

func results(t *testing.T, name, text string) []lint.Result {
	t.Helper()
	open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	in := lint.Input{Name: name, Open: open}
	var out []lint.Result
	_, err := lint.Run(t.Context(), lint.Config{Inputs: []lint.Input{in}}, func(r lint.Result) error {
		if r.Code == "WIN021" || strings.HasPrefix(r.Code, "WIN9") {
			out = append(out, r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// left returns how many accepted findings Known was not asked about.
func (b *Baseline) left() int {
	left := 0
	for _, n := range b.counts {
		left += n
	}
	return left
}

// TestKnown writes a baseline and lets lines move.
func TestKnown(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "baseline.json")
	b := New(file)
	yaml := filepath.Join(dir, "d", "pod.yaml")
	for _, r := range results(t, yaml, pod("", "a", "b")) {
		if !b.Add(r) {
			t.Errorf("not accepted: %+v", r)
		}
	}
	if err := b.Write(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), `"file":"d/pod.yaml"`) != 2 {
		t.Fatalf("%v:\n%s", err, text)
	}
	for _, c := range []struct {
		name, text string
		file       string
		fresh      int // findings that are not known
		left       int
	}{
		{"the same", pod("", "a", "b"), yaml, 0, 0},
		{"lines above", pod("# one\n# two\n", "a", "b"), yaml, 0, 0},
		{"a container in front", pod("", "x", "a", "b"), yaml, 1, 0},
		{"another order", pod("", "b", "a"), yaml, 0, 0},
		{"one is fixed", pod("", "b"), yaml, 0, 1},
		{"twice", pod("", "a", "b", "a"), yaml, 1, 0},
		{"another file", pod("", "a", "b"), filepath.Join(dir, "e.yaml"), 2, 2},
		{"another pod", strings.Replace(pod("", "a"), "name: p", "name: q", 1), yaml, 1, 2},
	} {
		again, err := Read(file)
		if err != nil {
			t.Fatal(err)
		}
		fresh := 0
		for _, r := range results(t, c.file, c.text) {
			if !again.Known(r) {
				fresh++
			}
		}
		if fresh != c.fresh || again.left() != c.left {
			t.Errorf("%s: %d are not known, %d are left", c.name, fresh, again.left())
		}
	}
	again, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Write(file); err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(file); err != nil || !bytes.Equal(second, text) {
		t.Errorf("%v; written again:\n%s", err, second)
	}
}

func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "b.jsonl")
	const head = "{\"mullionBaseline\": 1}\n"
	for text, want := range map[string]string{
		"":                         "not a baseline: it is empty",
		"{\"a\": 1}":               "line 1: not a baseline: json: unknown field \"a\"",
		"{\"mullionBaseline\": 2}": "line 1: not a baseline: it has version 2, but this mullion supports 1",
		head + "{\"rule\": \"WIN021\", \"x\": 2}": "line 2: not a baseline: json: unknown field \"x\"",
		head + "{}":      "line 2: not a baseline: want a rule",
		head + "\n":      "line 2: not a baseline: empty file",
		"<<<<<<< HEAD\n": "line 1: not a baseline: invalid character",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Read(filepath.Join(dir, "gone")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := New(dir).Write(dir); err == nil {
		t.Error("a folder was written")
	}
	gone := lint.File(filepath.Join(dir, "gone.yaml"))
	_, err := lint.Run(t.Context(), lint.Config{Inputs: []lint.Input{gone}}, func(r lint.Result) error {
		if New(file).Add(r) {
			t.Errorf("accepted: %+v", r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// FuzzRead: no text panics, and what is read can be written and read again.
func FuzzRead(f *testing.F) {
	f.Add([]byte("{\"mullionBaseline\": 1}\n{\"rule\": \"WIN021\", \"file\": \"a\", \"count\": 3}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		b := New("b.jsonl")
		if b.parse(text) != nil {
			return
		}
		written, err := b.encode()
		if err != nil {
			t.Fatal(err)
		}
		again := New("b.jsonl")
		if err := again.parse(written); err != nil || again.left() != b.left() {
			t.Errorf("%v: %d are left, not %d", err, again.left(), b.left())
		}
	})
}
