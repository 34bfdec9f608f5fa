// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFrozen stops (SIGSTOP) every program of a Windows host and of a Linux worker that a node needs, and lets none
// of them go on. Each is restarted, with an event and a line of `mullion status`; containers live on, unless process 1
// or its parent is stopped.
func TestFrozen(t *testing.T) {
	c := alone(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	c.pod(t, ns, "lives", onNode+`
  containers:
  - {name: main, image: "`+winprogImage+`", imagePullPolicy: Never, args: [wait]}`)
	c.ready(t, ns, "lives")
	c.noHalfAttach(t, "the host's", c.processes(t, "usr/lib/wine/wineserver -f -p", "win-1", true))
	c.noHalfAttach(t, "a container's", c.containerProcesses(t, ns, "lives", "wineserver"))
	began := time.Now().Add(-time.Second) // events have whole seconds

	// kubelet.exe first, while the agent and its Wine work: they restart it.
	c.freeze(t, "win-1", `mullion\kubelet.exe`)
	c.thaws(t, began, "win-1/kubelet")
	// Then all at once: the wineserver takes the agent and its services with it.
	c.freeze(t, "win-1", `mullion\kubelet.exe`, `mullion\kube-proxy.exe`, "wineserver -f -p", "winhost serve")
	c.freeze(t, "linux-1", "linux/containerd --config", "linux/kubelet --config", "linux/kube-proxy --config")
	c.thaws(t, began, "win-1/serve", "win-1/wine", "linux-1/containerd", "linux-1/kubelet", "linux-1/kube-proxy")

	eventually(t, time.Minute, "exec", func() error {
		got, err := c.execErr(t.Context(), ns, "lives", "cmd.exe", "/c", "echo alive")
		if err == nil && got != "alive" {
			err = fmt.Errorf("printed %q", got)
		}
		return err
	})
	if got := c.get(t, ns, "lives", "{.status.containerStatuses[0].restartCount}"); got != "0" {
		t.Errorf("the container was restarted %s times; it must live on", got)
	}

	// With process 1 of a host, or its parent, the whole host is restarted. The events wait for the control plane.
	c.freeze(t, "win-1", "/proc/self/exe init ready")
	c.freeze(t, "linux-1", "mullion-linuxhost --config")
	for _, pid := range c.processes(t, "mullion-kube server", "", false) {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	c.thaws(t, began, "win-1/win-1", "linux-1/linux-1")
	if status, err := c.try(t.Context(), "", "status", "--name", c.name, "--data-dir", c.dir); err != nil ||
		!strings.Contains(status, "server: server did not answer for 60s; restarted ") {
		t.Errorf("the server is not in the status: %v\n%s", err, status)
	}
	c.ready(t, ns, "lives")
}

// noHalfAttach checks that SIGALRM is blocked in wineservers. Otherwise it ends their wait for a thread that they have
// attached to, and the thread's program stands still forever.
func (c *shared) noHalfAttach(t *testing.T, whose string, pids []int) {
	t.Helper()
	if len(pids) == 0 {
		t.Errorf("%s wineserver was not found", whose)
	}
	for _, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || !strings.Contains(string(status), "SigBlk:\t0000000000002000\n") {
			t.Errorf("%s wineserver does not block SIGALRM alone (%v):\n%s", whose, err, status)
		}
	}
}

// freeze stops processes of a host.
func (c *shared) freeze(t *testing.T, node string, argvs ...string) {
	t.Helper()
	for _, argv := range argvs {
		pids := c.processes(t, argv, node, true)
		if len(pids) == 0 {
			t.Fatalf("no process with %q on %s", argv, node)
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// thaws waits until programs, NODE/PROGRAM, have been restarted since a time, and everything is ready again.
func (c *shared) thaws(t *testing.T, since time.Time, programs ...string) {
	t.Helper()
	eventually(t, 3*time.Minute, "ready again with events", func() error {
		events, err := c.kubectlErr(t.Context(), "get", "events", "-n", "default", "-o",
			`jsonpath={range .items[?(@.reason=="ProgramFrozen")]}{.lastTimestamp} `+
				`{.involvedObject.name} {.message}{"\n"}{end}`)
		if err != nil {
			return err
		}
		status, err := c.try(t.Context(), "", "status", "--name", c.name, "--data-dir", c.dir)
		if err != nil {
			return err
		}
		for _, p := range programs {
			node, program, _ := strings.Cut(p, "/")
			message := program + " did not answer for 60s; restarted"
			if !recorded(events, node+" "+message, since) {
				return fmt.Errorf("no event of %s in %s", p, events)
			}
			if !strings.Contains(status, node+": "+message+" ") {
				return fmt.Errorf("%s is not in the status:\n%s", p, status)
			}
		}
		return nil
	})
}

// recorded reports whether one of the lines, TIME TEXT, has the text and a time since then.
func recorded(lines, text string, since time.Time) bool {
	for line := range strings.Lines(lines) {
		stamp, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		at, err := time.Parse(time.RFC3339, stamp)
		if err == nil && rest == text && !at.Before(since.Truncate(time.Second)) {
			return true
		}
	}
	return false
}
