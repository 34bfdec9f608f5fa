// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// TestWindowsAnswers checks that programs, nodes and the environment answer as on
// Windows, in a pod and in a host process container.
func TestWindowsAnswers(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	c.pod(t, ns, "pod", onNode+`
  containers:
  - name: main
    image: mcr.microsoft.com/windows/servercore:ltsc2019
    command: [powershell, -Command, "Start-Sleep 1000"]
    env: [{name: GREETING, value: hello}]`)
	c.pod(t, ns, "host", hostProcess(`NT AUTHORITY\SYSTEM`)+`
  containers:
  - name: main
    image: mcr.microsoft.com/oss/kubernetes/windows-host-process-containers-base-image:v1.0.0
    command: [powershell, -Command, "Start-Sleep 1000"]`)
	c.ready(t, ns, "pod")
	c.ready(t, ns, "host")
	for _, pod := range []string{"pod", "host"} {
		for _, line := range []string{"set", "cmd /c set"} {
			out := c.exec(t, ns, pod, "cmd", "/c", line)
			for name := range strings.Lines(out) {
				upper := strings.ToUpper(name)
				if strings.HasPrefix(upper, "WINE") || strings.HasPrefix(upper, "LC_ALL=") ||
					strings.HasPrefix(upper, "MULLION_") {
					t.Errorf("%s, %s: %s", pod, line, name)
				}
			}
		}
	}
	if out := c.exec(t, ns, "pod", "cmd", "/c", "set"); !strings.Contains(out, "GREETING=hello") {
		t.Errorf("environment of the pod: %q", out)
	}
	for _, tt := range []struct{ line, want, code string }{
		{"cmd /c nosuch", "'nosuch' is not recognized as an internal or external command,", "exit code 1"},
		{"cmd /c type nofile", "The system cannot find the file specified.", "exit code 1"},
		{"cmd /c rd nodir", "The system cannot find the file specified.", "exit code 2"},
		{"curl --foo", "curl: option --foo: is unknown", "exit code 2"},
		{"curl -sS http://no.invalid/", "curl: (6) Could not resolve host: no.invalid", "exit code 6"},
	} {
		args := append([]string{"exec", "-n", ns, "pod", "--"}, strings.Fields(tt.line)...)
		out, err := c.kubectlErr(context.Background(), args...)
		if err != nil {
			out += err.Error()
		}
		if err == nil || !strings.Contains(out, tt.want) || !strings.Contains(out, tt.code) {
			t.Errorf("%s: %q, want %q and %s", tt.line, out, tt.want, tt.code)
		}
	}
	out := strings.ReplaceAll(c.exec(t, ns, "pod", "powershell", "-Command", `Get-ChildItem C:\Users`), "\r", "")
	for _, want := range []string{"Directory: C:\\Users\n\n\nMode ", "\nd-----"} {
		if strings.Count(out, want) == 0 {
			t.Errorf("Get-ChildItem: %q, want %q", out, want)
		}
	}
	product := c.exec(t, ns, "pod", "powershell", "-Command", "(Get-ComputerInfo).WindowsProductName")
	if product != "Windows Server 2019 Datacenter" {
		t.Errorf("product %q", product)
	}
	c.checkRuntimeVersions(t)
}

// checkRuntimeVersions parses what the nodes report, as tools do.
func (c *shared) checkRuntimeVersions(t *testing.T) {
	t.Helper()
	var nodes struct {
		Items []struct {
			Status struct {
				NodeInfo struct{ ContainerRuntimeVersion string }
			}
		}
	}
	if err := json.Unmarshal([]byte(c.kubectl(t, "get", "nodes", "-l", "kubernetes.io/os=windows", "-o",
		"json")), &nodes); err != nil {
		t.Fatal(err)
	}
	worker := c.kubectl(t, "get", "node", "linux-1", "-o", "jsonpath={.status.nodeInfo.containerRuntimeVersion}")
	if worker != "containerd://2.4.2" {
		t.Errorf("runtime version of the Linux worker %q", worker)
	}
	for _, n := range nodes.Items {
		reported := n.Status.NodeInfo.ContainerRuntimeVersion
		number, ok := strings.CutPrefix(reported, "mullion://")
		if _, err := utilversion.ParseSemantic(number); !ok || err != nil {
			t.Errorf("runtime version %q: %v", reported, err)
		}
	}
}
