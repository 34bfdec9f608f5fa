// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/mullion-k8s/mullion/internal/testenv"
	"golang.org/x/sys/unix"
)

const hooksYAML = `
apiVersion: v1
kind: Pod
metadata: {name: probed}
spec:
  os: {name: windows}
  nodeName: win-1
  terminationGracePeriodSeconds: 20
  initContainers:
  - {name: one, image: "example.test/winprog:v1", imagePullPolicy: Never, command: [cmd.exe, /c, 'echo one>> C:\d\order.txt'], volumeMounts: [{name: d, mountPath: 'C:\d'}]}
  - {name: two, image: "example.test/winprog:v1", imagePullPolicy: Never, command: [cmd.exe, /c, 'echo two>> C:\d\order.txt'], volumeMounts: [{name: d, mountPath: 'C:\d'}]}
  containers:
  - name: main
    image: example.test/winprog:v1
    imagePullPolicy: Never
    args: [serve, ":8080"]
    volumeMounts: [{name: d, mountPath: 'C:\d'}]
    lifecycle:
      postStart: {exec: {command: [cmd.exe, /c, 'echo post>> C:\d\order.txt']}}
      preStop: {exec: {command: [cmd.exe, /c, 'echo pre>> C:\d\order.txt']}}
    startupProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, failureThreshold: 60}
    readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 1}
    livenessProbe: {httpGet: {path: /live, port: 8080}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 1}
  - name: executed
    image: example.test/winprog:v1
    imagePullPolicy: Never
    args: [wait]
    volumeMounts: [{name: d, mountPath: 'C:\d'}]
    readinessProbe: {exec: {command: [cmd.exe, /c, 'type C:\d\ready.txt']}, periodSeconds: 1, timeoutSeconds: 10}
  volumes: [{name: d, hostPath: {path: 'C:\hooks', type: DirectoryOrCreate}}]
`

// TestHooks: the order of a pod's life, probes of each kind, and its end.
func TestHooks(t *testing.T) {
	c := up(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	c.apply(t, ns, hooksYAML)
	ready := func(container string) string {
		return "{.status.containerStatuses[?(@.name=='" + container + "')].ready}"
	}
	c.until(t, ns, "probed", ready("main"), "true")
	if got := c.get(t, ns, "probed", ready("executed")); got != "false" {
		t.Errorf("ready=%s without its file", got)
	}
	c.exec(t, ns, "probed", "cmd.exe", "/c", `echo yes> C:\d\ready.txt`)
	c.until(t, ns, "probed", ready("executed"), "true")
	if got := strings.Fields(c.exec(t, ns, "probed", "cmd.exe", "/c", `type C:\d\order.txt`)); strings.Join(got, " ") != "one two post" {
		t.Errorf("order %q", got)
	}
	c.exec(t, ns, "probed", "curl.exe", "-s", "http://127.0.0.1:8080/unready")
	c.until(t, ns, "probed", ready("main"), "false")
	c.exec(t, ns, "probed", "curl.exe", "-s", "http://127.0.0.1:8080/die")
	c.until(t, ns, "probed", "{.status.containerStatuses[?(@.name=='main')].restartCount}", "1")
	// It ended in order: the hook ran, then the event came.
	var out string
	eventually(t, time.Minute, "log of the first life", func() (err error) {
		out, err = c.kubectlErr(t.Context(), "logs", "-n", ns, "probed", "-c", "main", "--previous")
		return err
	})
	if !strings.Contains(out, "console event: 6") || !strings.Contains(out, "end: in order") {
		t.Errorf("the first life's log %q, want CTRL_SHUTDOWN_EVENT (6) and an end in order", out)
	}
	c.until(t, ns, "probed", ready("main"), "true")
	if got := c.exec(t, ns, "probed", "cmd.exe", "/c", `type C:\d\order.txt`); strings.Join(strings.Fields(got), " ") != "one two post pre post" {
		t.Errorf("order %q", got)
	}
	c.kubectl(t, "delete", "pod", "-n", ns, "probed", "--wait=true", "--timeout=90s")
}

// TestTerminal: `kubectl exec -it` has a console of the terminal's size. Wine's
// console does not follow later changes.
func TestTerminal(t *testing.T) {
	c := up(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	c.pod(t, ns, "terminal", onNode+`
  containers:
  - {name: main, image: "`+winprogImage+`", imagePullPolicy: Never, args: [wait]}`)
	c.ready(t, ns, "terminal")
	master, slave := openTerminal(t)
	size := func(rows, columns uint16) {
		if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
			t.Fatal(err)
		}
	}
	size(30, 100)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.Bin("mullion"), "kubectl", "--name", name, "--data-dir", c.dir,
		"exec", "-it", "-n", ns, "terminal", "--", `C:\app\winprog.exe`, "console")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }() // killed
	_ = slave.Close()                           // the program has it
	seen := make(chan string, 1000)
	go func() {
		defer close(seen)
		s := bufio.NewScanner(master)
		for s.Scan() {
			seen <- s.Text()
		}
	}()
	wait := func(want string) {
		t.Helper()
		var all []string
		for l := range seen {
			if all = append(all, l); strings.Contains(l, want) {
				return
			}
		}
		t.Fatalf("terminal shows %q, want %q", all, want)
	}
	wait("console: 100x30")
}

// openTerminal makes a pseudo-terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() }) // ends the reader
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	unlock := int32(0)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, master.Fd(), unix.TIOCSPTLCK, uintptr(unsafe.Pointer(&unlock))); errno != 0 {
		t.Fatal(errno)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return master, slave
}
