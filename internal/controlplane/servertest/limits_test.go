// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// createMap writes an object through the API server.
func createMap(t *testing.T, s *controlplanetest.Server, name string) error {
	t.Helper()
	_, err := s.Admin().CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

// TestStopped stops the process for longer than etcd waits for a leader, as a laptop
// that sleeps does: it goes on as if nothing had been.
func TestStopped(t *testing.T) {
	s := controlplanetest.Run(t, nil)
	s.Signal(syscall.SIGSTOP)
	time.Sleep(5 * time.Second) // how long it is stopped is the point of the test
	s.Signal(syscall.SIGCONT)
	testenv.Eventually(t, "a write", func() error { return createMap(t, s, "after") })
	s.Ready()
}

// TestOutOfInodes uses up the files of a file system: a control plane that runs goes
// on, one that starts says why it cannot, and with room again all data are there.
func TestOutOfInodes(t *testing.T) {
	testenv.Need(t, testenv.Root)
	s := controlplanetest.New(t, nil)
	if err := os.MkdirAll(s.Config.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("mullion-test", s.Config.DataDir, "tmpfs", 0, "nr_inodes=200,mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(s.Config.DataDir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s.Start()
	s.Ready()
	if err := createMap(t, s, "before"); err != nil {
		t.Fatal(err)
	}
	var err error
	var fill []string
	for i := 0; err == nil; i++ {
		path := filepath.Join(s.Config.DataDir, fmt.Sprintf("fill-%d", i))
		if err = os.WriteFile(path, nil, 0o600); err == nil {
			fill = append(fill, path)
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := createMap(t, s, "during"); err != nil {
		t.Errorf("a control plane that runs: %v", err)
	}
	s.Stop()
	s.Start()
	if code := s.Exit(); code != 1 || !strings.Contains(s.Log.String(), "no space left on device") {
		t.Errorf("exit code %d\n%s", code, s.Tail(5))
	}
	for _, path := range fill {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	s.Start()
	s.Ready()
	for _, name := range []string{"before", "during"} {
		if _, err := s.Admin().CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	s.Stop()
}

// TestFewDescriptors starts a control plane that may not open enough files: it ends
// and says so.
func TestFewDescriptors(t *testing.T) {
	s := controlplanetest.New(t, nil)
	s.Wrap = []string{"prlimit", "--nofile=100:100"}
	s.Start()
	if code := s.Exit(); code != 1 ||
		!strings.Contains(s.Log.String(), "file descriptor limit of etcd process is too low") {
		t.Errorf("exit code %d\n%s", code, s.Tail(5))
	}
	s.Wrap = nil
	s.Start()
	s.Ready()
	s.Stop()
}
