// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWineserver stops the server below one container's programs: the container
// can still be removed, and its neighbour does not notice.
func TestWineserver(t *testing.T) {
	c := alone(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	for _, p := range []string{"neighbour", "hung"} {
		c.pod(t, ns, p, onNode+`
  terminationGracePeriodSeconds: 2
  containers:
  - {name: main, image: "`+winprogImage+`", imagePullPolicy: Never, args: [wait]}`)
	}
	c.ready(t, ns, "neighbour", "hung")
	server := func(pod string) int {
		t.Helper()
		pids := c.containerProcesses(t, ns, pod, "wineserver")
		if len(pids) != 1 {
			t.Fatalf("wineservers of %s: %v", pod, pids)
		}
		return pids[0]
	}
	hung := server("hung")
	if err := syscall.Kill(hung, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.kubectl(t, "delete", "pod", "-n", ns, "hung", "--wait=true", "--timeout=180s")
	if err := syscall.Kill(hung, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the stopped wineserver is still there: %v", err)
	}
	if got := c.get(t, ns, "neighbour", "{.status.containerStatuses[0].restartCount}"); got != "0" {
		t.Errorf("the neighbour was restarted %s times", got)
	}
	// Killed, it takes its container with it, which is started again.
	if err := syscall.Kill(server("neighbour"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "restart after kill -9", func() error {
		got := c.get(t, ns, "neighbour",
			"{.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}")
		if got != "1 true" {
			return fmt.Errorf("restarts and readiness %q", got)
		}
		return nil
	})
	ended := c.get(t, ns, "neighbour", "{.status.containerStatuses[0].lastState.terminated.exitCode} "+
		"{.status.containerStatuses[0].lastState.terminated.reason}")
	if code, reason, _ := strings.Cut(ended, " "); code == "0" || code == "" || reason != "Error" {
		t.Errorf("its container ended with %q, want another exit code than 0 and Error", ended)
	}
	t.Logf("without its wineserver a container ends with %s", ended)
}

// TestServeStopped: while the CRI and HNS server of a host hangs, programs run
// on; when it goes on, so does everything.
func TestServeStopped(t *testing.T) {
	c := alone(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	c.pod(t, ns, "runs", onNode+`
  containers:
  - {name: main, image: "`+winprogImage+`", imagePullPolicy: Never, args: [serve, ":8080"]}`)
	c.ready(t, ns, "runs")
	c.logs(t, ns, "runs", "serving: ")
	pids := c.processes(t, "winhost serve", "win-1", true)
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	_, err := get("http://" + c.get(t, ns, "runs", "{.status.podIP}") + ":8080/ready")
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil {
		t.Errorf("the pod did not answer: %v", err)
	}
	eventually(t, 2*time.Minute, "exec", func() error {
		got, err := c.execErr(t.Context(), ns, "runs", "cmd.exe", "/c", "echo alive")
		if err == nil && got != "alive" {
			err = fmt.Errorf("printed %q", got)
		}
		return err
	})
	if got := c.get(t, ns, "runs", "{.status.containerStatuses[0].restartCount}"); got != "0" {
		t.Errorf("restarted %s times", got)
	}
}
