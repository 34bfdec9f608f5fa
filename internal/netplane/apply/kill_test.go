// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/netplane/apply"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/netplane/intent/intenttest"
)

// applyForever is the variable that turns the test binary into a program that changes
// the network of the host whose directory it names, until it is killed.
const applyForever = "MULLION_TEST_APPLY_FOREVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(applyForever); dir != "" {
		fmt.Fprintln(os.Stderr, changeForever(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// changes are the intents between which the program goes back and forth.
func changes() []intent.Host {
	few, many := withPods(intenttest.Services(3, 2), 1), withPods(intenttest.Services(200, 2), 3)
	few.LoadBalancers = few.LoadBalancers[:1]
	return []intent.Host{few, many}
}

func changeForever(dir string) error {
	p, err := apply.New(apply.Config{NetnsDir: filepath.Join(dir, "namespaces"), Netns: filepath.Join(dir, "host")})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := p.Apply(context.Background(), changes()[i%2]); err != nil {
			return err
		}
	}
}

// TestKill kills a process with -9 in the middle of changes: the next one leads the
// host to what it wants, whatever the first had done, and nothing of the first goes on.
func TestKill(t *testing.T) {
	h := newHost(t)
	want := small()
	defer h.removeNamespaces(h.plane, append(changes(), want)...)
	if err := h.plane.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	complete := h.state()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // when to kill, not a secret
	for range 25 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), applyForever+"="+h.dir)
		cmd.Stderr = t.Output()
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// It starts within some 20 ms, and a change takes as long.
		time.Sleep(time.Duration(10+random.IntN(120)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() >= 0 {
			t.Fatalf("the process ended by itself: %v", err)
		}
		if err := h.open().Apply(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		if got := h.state(); got != complete {
			t.Fatalf("after a kill\n%s\nwant\n%s", got, complete)
		}
	}
}
