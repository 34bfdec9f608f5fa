// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestStopped stops the process for longer than etcd waits for a leader, as a laptop
// that sleeps does: it goes on as if nothing had been.
func TestStopped(t *testing.T) {
	s := controlplanetest.Run(t, nil)
	s.Signal(syscall.SIGSTOP)
	time.Sleep(5 * time.Second) // how long it is stopped is the point of the test
	s.Signal(syscall.SIGCONT)
	testenv.Eventually(t, "a write", func() error { return createMap(t, s, "after", "") })
	s.Ready()
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
