// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestEarlyExec ends a program of exec while the container's own has not come so
// far that Wine runs, as it is on a busy machine. The container works afterwards.
func TestEarlyExec(t *testing.T) {
	l := newWineLab(t)
	sb := l.runSandbox(sandboxConfig("web"))
	for i := range 6 {
		id := l.run(sb, windowsContainer(fmt.Sprint("a", i), "ping", "-t", "localhost"))
		content, err := os.ReadFile(l.dir(id, bundleDir, "pidfile"))
		must(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
		must(t, err)
		stopped := signalTree(t, pid, syscall.SIGSTOP)
		exec := func(limit time.Duration, args ...string) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := l.Runtime.ExecSync(ctx, &runtime.ExecSyncRequest{ContainerId: id, Cmd: args})
			return err
		}
		// Wine needs about half a second to start on an idle machine.
		limit := time.Duration(i+1) * 150 * time.Millisecond
		if err := exec(limit, "powershell", "-c", "start-sleep 4321"); err == nil {
			t.Error("the program ended by itself")
		}
		for _, pid := range stopped {
			if err := syscall.Kill(pid, syscall.SIGCONT); err != syscall.ESRCH { // the end of exec may have ended it
				must(t, err)
			}
		}
		if err := exec(2*time.Minute, "cmd", "/c", "exit"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
}

// signalTree signals a process and its children, parents first, and returns
// their IDs.
func signalTree(t *testing.T, pid int, s syscall.Signal) []int {
	t.Helper()
	must(t, syscall.Kill(pid, s))
	all := []int{pid}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	must(t, err)
	for _, list := range lists {
		children, err := os.ReadFile(list)
		must(t, err)
		for child := range strings.FieldsSeq(string(children)) {
			pid, err := strconv.Atoi(child)
			must(t, err)
			all = append(all, signalTree(t, pid, s)...)
		}
	}
	return all
}
