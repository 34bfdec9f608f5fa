// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// holder is another process that holds the lock of the directory, until it is killed.
func holder(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("flock", "--no-fork", dir, "sh", "-c", "echo locked; exec sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd
}

// TestTwoRuns: the second run on a directory says that it waits. It can be canceled meanwhile, and goes on when the
// first was killed.
func TestTwoRuns(t *testing.T) {
	a := newArchive(t)
	a.list.packages = []pkg{a.add("runc", "1", deb(t, ".gz", file("usr/sbin/runc", "1")))}
	first := holder(t, filepath.Dir(a.dir))
	wait := func(ctx context.Context) chan error {
		t.Helper()
		r, w := io.Pipe()
		a.builder.out = w
		done := make(chan error, 1)
		go func() { done <- a.build(ctx) }()
		lines := bufio.NewReader(r)
		line, err := lines.ReadString('\n')
		if want := "another run is unpacking packages in " + filepath.Dir(a.dir) + "; "; !strings.Contains(line, want) {
			t.Fatalf("%q, %v; want %q", line, err, want)
		}
		go func() { _, _ = io.Copy(io.Discard, lines) }()
		return done
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := wait(ctx)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if got := tree(t, filepath.Dir(a.dir)); got != "" {
		t.Errorf("made in spite of the lock:\n%s", got)
	}
	done = wait(t.Context())
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := tree(t, a.dir); !strings.Contains(got, "usr/sbin/runc") {
		t.Errorf("made:\n%s", got)
	}
}
