// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, bad, err := Open(dir)
	if err != nil || len(bad) > 0 {
		t.Fatalf("open: %v, %v", bad, err)
	}
	return s
}

func TestRecordsSurviveReopening(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	want := Container{
		ID: "abc123", Name: "c_pod_ns_uid_0", SandboxID: "sb", Created: 5, Made: 6, ExitCode: -1073741510,
		Config: &runtime.ContainerConfig{
			Metadata: &runtime.ContainerMetadata{Name: "c", Attempt: 1}, Args: []string{`C:\x`, "ü"},
			Windows: &runtime.WindowsContainerConfig{Resources: &runtime.WindowsContainerResources{CpuMaximum: 500}},
		},
	}
	if err := s.Containers.Put(want); err != nil {
		t.Fatal(err)
	}
	sandbox := Sandbox{
		ID:     "sb",
		Name:   "p_ns_uid_0",
		Config: &runtime.PodSandboxConfig{Hostname: "h"},
		IPs:    []string{"10.0.0.1"},
	}
	if err := s.Sandboxes.Put(sandbox); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	got, err := s.Containers.Get("abc")
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got.Config, want.Config) {
		t.Errorf("configuration %v, want %v", got.Config, want.Config)
	}
	got.Config, want.Config = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("record %+v, want %+v", got, want)
	}
	if sb, err := s.Sandboxes.Get("sb"); err != nil || sb.Config.Hostname != "h" || len(sb.IPs) != 1 {
		t.Errorf("sandbox %+v, %v", sb, err)
	}
	if err := s.Containers.Reserve("other", "c_pod_ns_uid_0"); !errors.Is(err, ErrReserved) {
		t.Errorf("name after reopening: %v", err)
	}
	if err := s.Containers.Delete("abc123"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Containers.Dir("abc123")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory after removal: %v", err)
	}
	if err := s.Containers.Reserve("other", "c_pod_ns_uid_0"); err != nil {
		t.Errorf("name after removal: %v", err)
	}
}

func TestBadRecordsAreReportedAndKept(t *testing.T) {
	dir := t.TempDir()
	for id, content := range map[string]string{
		"half": `{"version":1,"record":{"id":"ha`, "later": `{"version":2,"record":{"id":"later"},"config":{}}`,
		"moved": `{"version":1,"record":{"id":"else"},"config":{}}`,
		"field": `{"version":1,"record":{"id":"field"},"config":{"nonsense":1}}`,
	} {
		if err := os.MkdirAll(filepath.Join(dir, "containers", id), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "containers", id, recordName), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "containers", "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, bad, err := Open(dir)
	if err != nil || len(bad) != 4 {
		t.Fatalf("bad %v, %v", bad, err)
	}
	if left, err := s.Containers.Leftovers(); err != nil || len(left) != 1 || left[0] != "empty" {
		t.Errorf("leftovers %v, %v", left, err)
	}
	if n := len(s.Containers.List()); n != 0 {
		t.Errorf("%d records", n)
	}
}

func TestState(t *testing.T) {
	for _, tt := range []struct {
		c    Container
		want runtime.ContainerState
	}{
		{Container{}, runtime.ContainerState_CONTAINER_UNKNOWN},
		{Container{Made: 1}, runtime.ContainerState_CONTAINER_CREATED},
		{Container{Made: 1, Started: 2}, runtime.ContainerState_CONTAINER_RUNNING},
		{Container{Made: 1, Started: 2, Finished: 3}, runtime.ContainerState_CONTAINER_EXITED},
		{Container{Made: 1, Finished: 3}, runtime.ContainerState_CONTAINER_EXITED},
	} {
		if got := tt.c.State(); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.c, got, tt.want)
		}
	}
	if !(Sandbox{Made: 1}).Ready() || (Sandbox{Made: 1, Stopped: 2}).Ready() || (Sandbox{}).Ready() ||
		(Sandbox{Made: 1, Removing: true}).Ready() {
		t.Error("a sandbox is ready between its making and its end")
	}
}

func TestLock(t *testing.T) {
	s := open(t, t.TempDir())
	unlock, err := s.Containers.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Containers.Lock(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("second lock: %v", err)
	}
	other, err := s.Containers.Lock(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	unlock()
	again, err := s.Containers.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// TestHold: a caller that waited for an object sees its latest record.
func TestHold(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.Containers.Put(Container{ID: "abc", Name: "n"}); err != nil {
		t.Fatal(err)
	}
	c, unlock, err := s.Containers.Hold(t.Context(), "ab")
	if err != nil || c.ID != "abc" {
		t.Fatalf("%+v, %v", c, err)
	}
	waited := make(chan error)
	go func() {
		_, _, err := s.Containers.Hold(t.Context(), "abc")
		waited <- err
	}()
	if err := s.Containers.Delete("abc"); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := <-waited; !errors.Is(err, ErrNotFound) {
		t.Errorf("a removed container: %v", err)
	}
	if unlock, err = s.Containers.Lock(t.Context(), "abc"); err != nil {
		t.Fatal(err)
	}
	unlock()
}
