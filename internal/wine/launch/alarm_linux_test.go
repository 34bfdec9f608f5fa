// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestAlarmIsBlocked: a program that is started as Run starts Wine's loader, and so its wineserver, has SIGALRM
// blocked, and no other signal.
func TestAlarmIsBlocked(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the mask
		err := blockAlarm()
		if err == nil {
			_, err = syscall.ForkExec("/bin/grep", []string{"grep", "SigBlk", "/proc/self/status"},
				&syscall.ProcAttr{Files: []uintptr{0, w.Fd(), 2}})
		}
		started <- err
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if want := "SigBlk: 0000000000002000"; err != nil || strings.Join(strings.Fields(string(got)), " ") != want {
		t.Errorf("%q, %v; want %s", got, err, want)
	}
}
