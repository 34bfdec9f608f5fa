// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"math/rand/v2"
	"testing"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestStopWhileStarting stops containers at random moments of their program's start. None lives on until the grace
// period is over.
func TestStopWhileStarting(t *testing.T) {
	l := newWineLab(t)
	sb := l.runSandbox(sandboxConfig("web"))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const controlCExit = 0xC000013A
	for i := range 8 {
		c := windowsContainer("a", "ping", "-t", "localhost")
		c.Metadata.Attempt = uint32(i)
		id := l.run(sb, c)
		after := time.Duration(random.IntN(500)) * time.Millisecond
		time.Sleep(after)
		_, err := l.Runtime.StopContainer(t.Context(), &runtime.StopContainerRequest{ContainerId: id, Timeout: 60})
		must(t, err)
		if got := uint32(l.status(id).ExitCode); got != controlCExit {
			t.Errorf("stopped after %s: exit code %#x, want %#x", after, got, uint32(controlCExit))
		}
	}
}
