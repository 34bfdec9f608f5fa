// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"strings"
	"testing"
	"time"
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
  - {name: one, image: "example.test/winprog:v1", imagePullPolicy: Never,
      command: [cmd.exe, /c, 'echo one>> C:\d\order.txt'], volumeMounts: [{name: d, mountPath: 'C:\d'}]}
  - {name: two, image: "example.test/winprog:v1", imagePullPolicy: Never,
      command: [cmd.exe, /c, 'echo two>> C:\d\order.txt'], volumeMounts: [{name: d, mountPath: 'C:\d'}]}
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
	t.Parallel()
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
	if got := strings.Fields(c.exec(t, ns, "probed", "cmd.exe", "/c", `type C:\d\order.txt`)); strings.Join(got,
		" ") != "one two post" {
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
	if got := c.exec(t, ns, "probed", "cmd.exe", "/c", `type C:\d\order.txt`); strings.Join(strings.Fields(got),
		" ") != "one two post pre post" {
		t.Errorf("order %q", got)
	}
	c.kubectl(t, "delete", "pod", "-n", ns, "probed", "--wait=true", "--timeout=180s")
}
