// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// podYAML is a pod with every kind of volume and a program that stays.
const podYAML = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {greeting: hello}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {password: "39528$vdg7Jb"}
---
apiVersion: v1
kind: Pod
metadata: {name: all, labels: {app: all}}
spec:
  os: {name: windows}
  nodeSelector: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.17763}
  terminationGracePeriodSeconds: 2
  initContainers:
  - name: before
    image: mcr.microsoft.com/windows/servercore:ltsc2019
    command: [cmd.exe, /c, "echo from-init> C:\\scratch\\init.txt"]
    volumeMounts: [{name: scratch, mountPath: 'C:\scratch'}]
  containers:
  - name: main
    image: mcr.microsoft.com/windows/servercore:ltsc2019
    command: [powershell.exe, -Command, "Write-Host started; while ($true) { Start-Sleep 1 }"]
    workingDir: 'C:\scratch'
    env:
    - {name: GREETING, valueFrom: {configMapKeyRef: {name: settings, key: greeting}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    volumeMounts:
    - {name: scratch, mountPath: 'C:\scratch'}
    - {name: settings, mountPath: 'C:\etc\settings'}
    - {name: password, mountPath: /etc/password, readOnly: true}
    - {name: downward, mountPath: 'C:/etc/downward'}
    resources: {limits: {cpu: 500m, memory: 300Mi}}
  - name: second
    image: mcr.microsoft.com/windows/servercore:ltsc2019
    command: [ping.exe, -t, localhost]
    volumeMounts: [{name: scratch, mountPath: 'C:\scratch'}]
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: settings, configMap: {name: settings}}
  - {name: password, secret: {secretName: password}}
  - name: downward
    downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
`

// TestPod walks through what people do with a pod.
func TestPod(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	file := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, []byte(podYAML), 0o600); err != nil {
		t.Fatal(err)
	}
	c.kubectl(t, "apply", "-n", ns, "-f", file)
	c.kubectl(t, "wait", "-n", ns, "--for=condition=Ready", "pod/all", "--timeout=120s")

	exec := func(container string, command ...string) string {
		return strings.TrimSpace(c.kubectl(t, append([]string{"exec", "-n", ns, "all", "-c", container, "--"},
			command...)...))
	}
	for _, tc := range []struct{ name, container, command, want string }{
		{"environment", "main", `$env:GREETING + ' ' + $env:NODE`, `^hello win-\d$`},
		{"working directory", "main", `(Get-Location).Path`, `^C:\\scratch$`},
		{"init container", "main", `Get-Content C:\scratch\init.txt`, `^from-init$`},
		{"configMap", "main", `Get-Content C:\etc\settings\greeting`, `^hello$`},
		{"secret by a path without a drive", "main", `Get-Content C:\etc\password\password`, `^39528\$vdg7Jb$`},
		{"downward API", "main", `Get-Content C:\etc\downward\labels`, `^app="all"$`},
		{"service account token", "main",
			`(Get-Content C:\var\run\secrets\kubernetes.io\serviceaccount\token).Length -gt 100`, `^True$`},
		{"hostname", "main", `$env:COMPUTERNAME`, `(?i)^all$`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := exec(tc.container, "powershell.exe", "-Command",
				tc.command); !regexp.MustCompile(tc.want).MatchString(got) {
				t.Errorf("%s = %q, want %s", tc.command, got, tc.want)
			}
		})
	}
	t.Run("volume shared by containers", func(t *testing.T) {
		exec("second", "cmd.exe", "/c", `echo second> C:\scratch\second.txt`)
		if got := exec("main", "cmd.exe", "/c", `type C:\scratch\second.txt`); got != "second" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("exit code", func(t *testing.T) {
		_, err := c.kubectlErr(t.Context(), "exec", "-n", ns, "all", "-c", "main", "--", "cmd.exe", "/c", "exit 42")
		if err == nil || !strings.Contains(err.Error(), "42") {
			t.Errorf("err = %v, want exit code 42", err)
		}
	})
	t.Run("logs", func(t *testing.T) {
		if got := c.kubectl(t, "logs", "-n", ns, "all", "-c", "main"); strings.TrimSpace(got) != "started" {
			t.Errorf("logs %q", got)
		}
		if got := c.kubectl(t, "logs", "-n", ns, "all", "-c", "second", "--tail=1"); !strings.Contains(got,
			"Reply from") {
			t.Errorf("logs of ping %q", got)
		}
	})
	t.Run("cp", func(t *testing.T) { testCopy(t, c, ns) })
	t.Run("attach", func(t *testing.T) { testAttach(t, c, ns) })
	t.Run("describe", func(t *testing.T) {
		if got := c.kubectl(t, "describe", "pod", "-n", ns, "all"); !strings.Contains(got, "Container started") {
			t.Errorf("describe shows no start: %s", got)
		}
	})
}

// testCopy copies a file into a container and back. kubectl cp needs tar in
// the image, which Windows has had since build 17063.
func testCopy(t *testing.T, c *shared, ns string) {
	dir := t.TempDir()
	want := "a file\r\nwith two lines\r\n"
	if err := os.WriteFile(filepath.Join(dir, "in.txt"), []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
	cp := func(from, to string) {
		cmd := exec.Command(testenv.Bin("mullion"), "kubectl", "--name", c.name, "--data-dir", c.dir, "cp", "-n", ns,
			"-c", "main", from, to)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cp %s %s: %v: %s", from, to, err, out)
		}
	}
	cp("in.txt", "all:/scratch/copied.txt")
	cp("all:/scratch/copied.txt", "out.txt")
	if got, err := os.ReadFile(filepath.Join(dir, "out.txt")); err != nil || string(got) != want {
		t.Errorf("came back as %q, %v", got, err)
	}
}

func testAttach(t *testing.T, c *shared, ns string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.Bin("mullion"), "kubectl", "--name", c.name, "--data-dir", c.dir, "attach",
		"-n", ns, "all", "-c", "second")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := false
	for lines := bufio.NewScanner(out); !found && lines.Scan(); {
		found = strings.Contains(lines.Text(), "Reply from")
	}
	cancel()
	_ = cmd.Wait() // killed
	if !found {
		t.Error("attach did not print the program's output")
	}
}

// TestExitCodes: a container's end is reported with the program's own code.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	pods := map[string]struct{ command, want string }{
		"zero":  {`["cmd.exe", "/c", "exit 0"]`, "Succeeded 0 Completed"},
		"seven": {`["cmd.exe", "/c", "exit 7"]`, "Failed 7 Error"},
		"big":   {`["powershell.exe", "-Command", "exit 70000"]`, "Failed 70000 Error"},
	}
	for name, tc := range pods {
		c.apply(t, ns, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},
		  "spec":{"restartPolicy":"Never","os":{"name":"windows"},
			"nodeSelector":{"kubernetes.io/os":"windows","node.kubernetes.io/windows-build":"10.0.17763"},
			"containers":[{"name":"c","image":"mcr.microsoft.com/windows/servercore:ltsc2019",
			  "command":%s}]}}`, name, tc.command))
	}
	for name, tc := range pods {
		c.until(t, ns, name, "{.status.phase} {.status.containerStatuses[0].state.terminated.exitCode} "+
			"{.status.containerStatuses[0].state.terminated.reason}", tc.want)
	}
}
