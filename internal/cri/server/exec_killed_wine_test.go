// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestKilledExec ends programs at random moments of their start, as a probe's
// timeout does on a busy machine. None of them lives on, and the next program in
// the container runs.
func TestKilledExec(t *testing.T) {
	l := newWineLab(t)
	sb := l.runSandbox(sandboxConfig("web"))
	id := l.run(sb, windowsContainer("a", "powershell", "-c", "ping -t localhost"))
	// The container's own, and the one that asks.
	powershells := func() string {
		const script = "(get-process powershell).count; get-process | findstr sleep; exit 0"
		r, err := l.Runtime.ExecSync(t.Context(), &runtime.ExecSyncRequest{
			ContainerId: id, Cmd: []string{"powershell", "-c", script}, Timeout: 90,
		})
		must(t, err)
		return strings.TrimSpace(string(r.Stdout) + string(r.Stderr))
	}
	testenv.Until(t, "the container's program", func() bool { return powershells() == "2" })
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	sleep := &runtime.ExecSyncRequest{ContainerId: id, Cmd: []string{"powershell", "-c", "start-sleep 4321"}}
	for range 12 {
		after := time.Duration(random.IntN(1200)) * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), after)
		_, err := l.Runtime.ExecSync(ctx, sleep)
		cancel()
		if err == nil {
			t.Fatal("the program ended by itself")
		}
		if got := powershells(); got != "2" {
			t.Errorf("after a program was killed after %s: %s processes of powershell, want 2", after, got)
		}
	}
}
