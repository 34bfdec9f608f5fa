// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRefusedDuringRestart: a container whose program could not be started, while the
// server was started again, has the same reason, code and text as any other.
func TestRefusedDuringRestart(t *testing.T) {
	l := newLab(t)
	sb := l.runSandbox(sandboxConfig("p"))
	id := l.run(sb, containerConfig("c", "sleep", "a b"))
	l.stop()
	c, err := l.store.Containers.Get(id)
	must(t, err)
	c.Started, c.PID = 0, 0 // as a kill between the start and the record leaves it
	must(t, l.store.Containers.Put(c))
	must(t, os.WriteFile(l.dir(id, statusDir, mainStatus),
		[]byte(`{"exit_code":127,"error":"The system cannot find the file specified."}`), 0o644))
	must(t, l.runtime.Kill(t.Context(), id, unix.SIGKILL))
	l.start()
	want := `failed to start containerd task "` + id + `": hcs::System::CreateProcess: /guest sleep "a b" ` + id +
		": The system cannot find the file specified.: unknown"
	got := l.wait(id)
	if got.Reason != "StartError" || got.ExitCode != 128 || got.Message != want || got.StartedAt != 0 {
		t.Errorf("%v", got)
	}
}
