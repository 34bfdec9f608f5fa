// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"slices"
	"strings"
	"testing"
)

// TestDebugContainer: kubectl debug brings PowerShell to a pod of Nano Server that runs. The container shares the pod's
// network and not its files. The default profile adds a capability, which only Linux has.
func TestDebugContainer(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	c.pod(t, ns, "small", onNode+`
  containers:
  - {name: main, image: "mcr.microsoft.com/windows/nanoserver:1809",
    command: [cmd, /c, "echo own> C:\\own.txt & ping -t localhost"]}`)
	c.ready(t, ns, "small")
	debug := []string{"debug", "-n", ns, "small", "--image=mcr.microsoft.com/windows/servercore:ltsc2019",
		"--image-pull-policy=IfNotPresent", "--container=tools"}
	command := []string{"--", "powershell", "-Command", `Test-Path C:\own.txt
(Get-NetIPAddress -AddressFamily IPv4).IPAddress`}
	if out, err := c.kubectlErr(t.Context(), slices.Concat(debug, command)...); err == nil ||
		!strings.Contains(err.Error(), "capabilities") {
		t.Errorf("with the default profile: %v: %s", err, out)
	}
	c.kubectl(t, slices.Concat(debug, []string{"--profile=baseline"}, command)...)
	c.until(t, ns, "small", "{.status.ephemeralContainerStatuses[0].state.terminated.exitCode}", "0")
	out := c.kubectl(t, "logs", "-n", ns, "small", "-c", "tools")
	if ip := c.get(t, ns, "small", "{.status.podIP}"); !strings.HasPrefix(out, "False") || !strings.Contains(out, ip) {
		t.Errorf("the container printed %q; want no file of its neighbour, and the pod's address %s", out, ip)
	}
	if restarts := c.get(t, ns, "small", "{.status.containerStatuses[0].restartCount}"); restarts != "0" {
		t.Errorf("the pod's container was restarted %s times", restarts)
	}
}
