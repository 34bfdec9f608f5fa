// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test binary be the other process that holds a lock: record
// locks do not exclude their own process.
func TestMain(m *testing.M) {
	if path := os.Getenv("HOLD_LOCK"); path != "" {
		if _, ok, err := lock(path); err != nil || !ok {
			os.Exit(1)
		}
		os.Stdout.WriteString("held\n")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent closes it
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestLockTellsItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if pid, err := holder(path); pid != 0 || err != nil {
		t.Fatalf("no file: %d, %v", pid, err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HOLD_LOCK="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := out.Read(b); err != nil || !strings.HasPrefix(string(b), "held") {
		t.Fatalf("child: %q, %v", b, err)
	}
	if pid, err := holder(path); pid != cmd.Process.Pid || err != nil {
		t.Errorf("holder %d, %v; want %d", pid, err, cmd.Process.Pid)
	}
	if _, ok, err := lock(path); ok || err != nil {
		t.Errorf("taken twice: %v, %v", ok, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if pid, err := holder(path); pid != 0 || err != nil {
		t.Errorf("after kill -9: %d, %v; want a free lock", pid, err)
	}
}

// TestStandInRecords: an image that every host has in a build of its own is
// recorded with all of them, one whose tag names its build not at all.
func TestStandInRecords(t *testing.T) {
	images, err := standInRecords(Config{Windows: []string{"2019", "2019", "2016", "2022"}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, l := range images {
		got[l.Reference]++
	}
	for ref, want := range map[string]int{
		"docker.io/library/redis:3.0-nanoserver": 1, "registry.k8s.io/pause:3.10.2": 3, "mcr.microsoft.com/windows/servercore:ltsc2019": 0,
	} {
		if got[ref] != want {
			t.Errorf("%s is recorded %d times, want %d", ref, got[ref], want)
		}
	}
}
