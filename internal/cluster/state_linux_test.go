// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"os"
	"testing"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// TestReadState: what counts is who holds the lock, not what status.json says.
func TestReadState(t *testing.T) {
	l := Layout{DataDir: t.TempDir(), Name: "x"}
	for _, dir := range []string{l.Dir(), l.run()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	left := State{PID: os.Getpid() + 1}
	if err := left.write(l); err != nil {
		t.Fatal(err)
	}
	if _, running, err := ReadState(l); running || err != nil {
		t.Errorf("a status without a lock: running %v, %v", running, err)
	}
	lock, err := durable.TryLock(l.lock(), durable.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	component := []supervise.Status{{Name: "server"}}
	for _, tt := range []struct {
		name  string
		write func() error
		want  int // components
	}{
		{"no status", func() error { return os.Remove(l.status()) }, 0},
		{"of an earlier supervisor", func() error {
			return State{PID: os.Getpid() + 1, Components: component}.write(l)
		}, 0},
		{"damaged", func() error { return os.WriteFile(l.status(), []byte("{"), 0o600) }, 0},
		{"of this supervisor", func() error { return State{PID: os.Getpid(), Components: component}.write(l) }, 1},
	} {
		if err := tt.write(); err != nil {
			t.Fatal(err)
		}
		s, running, err := ReadState(l)
		if err != nil || !running || s.PID != os.Getpid() || len(s.Components) != tt.want {
			t.Errorf("%s: %+v, running %v, %v", tt.name, s, running, err)
		}
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
		"docker.io/library/redis:3.0-nanoserver": 1, "registry.k8s.io/pause:3.10.2": 3,
		"mcr.microsoft.com/windows/servercore:ltsc2019": 0,
	} {
		if got[ref] != want {
			t.Errorf("%s is recorded %d times, want %d", ref, got[ref], want)
		}
	}
}
