// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// hostProcess returns the part of a pod's spec that runs it on the first host itself.
func hostProcess(user string) string {
	return onNode + `
  hostNetwork: true
  terminationGracePeriodSeconds: 10
  securityContext: {windowsOptions: {hostProcess: true, runAsUserName: '` + user + `'}}`
}

// TestHostProcess checks what Kubernetes' documentation promises of host process
// containers (tasks/configure-pod-container/create-hostprocess-pod), and what
// its end-to-end tests check (test/e2e/windows/host_process.go). It is alone, because it looks at all programs of the
// host.
func TestHostProcess(t *testing.T) {
	c := up(t)
	ns := c.namespace(t)
	c.kubectl(t, "create", "configmap", "-n", ns, "settings", "--from-literal=key=of the configMap")
	// The base image holds nothing: the programs are the host's.
	c.pod(t, ns, "agent", hostProcess(`NT AUTHORITY\SYSTEM`)+`
  containers:
  - name: main
    image: mcr.microsoft.com/oss/kubernetes/windows-host-process-containers-base-image:v1.0.0
    command: [powershell, -Command, "Write-Output started; Start-Sleep 1000"]
    volumeMounts: [{name: settings, mountPath: 'C:\settings'}]
    resources: {limits: {memory: 512Mi}}
  volumes: [{name: settings, configMap: {name: settings}}]`)
	c.ready(t, ns, "agent")
	c.logs(t, ns, "agent", "started")
	for what, want := range map[string]string{
		"whoami":                   `(?i)^nt authority\\system$`,
		"hostname":                 `(?i)^win-1$`,
		"tasklist":                 `kubelet\.exe`,
		"sc query kubelet":         `STATE\s+: 4\s+RUNNING`,
		`cd`:                       `^C:\\hpc$`,
		`type C:\settings\key`:     `^of the configMap$`,
		`type C:\hpc\settings\key`: `^of the configMap$`,
		`type %CONTAINER_SANDBOX_MOUNT_POINT%\License.txt`: `stand-in|LICENSE|License`,
		`if exist C:\var\lib\kubelet\pki echo yes`:         `yes`,
		`type C:\var\run\secrets\kubernetes.io\serviceaccount\namespace`: `^` + ns +
			`$`,
		`echo written> C:\e2e-hostprocess.txt & type C:\e2e-hostprocess.txt & del C:\e2e-hostprocess.txt`: `^written`,
	} {
		if out := c.exec(t, ns, "agent", "cmd", "/c", what); !regexp.MustCompile(want).MatchString(
			strings.ReplaceAll(out, "\r", "")) {
			t.Errorf("%s: %q, want %s", what, out, want)
		}
	}
	// The address is the host's.
	if got, want := c.get(t, ns, "agent", "{.status.podIP}"), c.get(t, ns, "agent", "{.status.hostIP}"); got != want ||
		got == "" {
		t.Errorf("address %q, of the host %q", got, want)
	}

	// An account that cannot log on keeps the container from starting.
	c.pod(t, ns, "nobody", hostProcess(`NT AUTHORITY\nobody`)+`
  restartPolicy: Never
  containers: [{name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019", command: [cmd, /c, ver]}]`)
	c.until(t, ns, "nobody", "{.status.containerStatuses[0].state.terminated.reason}", "StartError")
	if msg := c.get(t, ns, "nobody", "{.status.containerStatuses[0].state.terminated.message}"); !strings.Contains(msg,
		"failed to create user process token: failed to logon user: The user name or password is incorrect.") {
		t.Errorf("message %q", msg)
	}

	// A local group: the container runs as a user of its own that is a member.
	// The group is there already if a test was interrupted.
	c.exec(t, ns, "agent", "cmd", "/c", "net localgroup e2e-group /add & exit 0")
	c.pod(t, ns, "member", hostProcess("e2e-group")+`
  restartPolicy: Never
  containers: [{name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019",
    command: [cmd, /c, "whoami & exit 5"]}]`)
	c.until(t, ns, "member", "{.status.containerStatuses[0].state.terminated.exitCode}", "5")
	if out := strings.TrimSpace(c.kubectl(t, "logs", "-n", ns, "member")); !regexp.MustCompile(
		`(?i)^win-1\\[0-9a-f]{20}$`).MatchString(out) {
		t.Errorf("member of a group runs as %q", out)
	}

	c.exec(t, ns, "agent", "net", "localgroup", "e2e-group", "/delete")

	// The end of a container is the end of its programs, and of nothing else.
	c.kubectl(t, "delete", "pod", "-n", ns, "member", "nobody")
	c.kubectl(t, "delete", "pod", "-n", ns, "agent", "--timeout=180s")
	c.pod(t, ns, "after", hostProcess(`NT AUTHORITY\Local service`)+`
  restartPolicy: Never
  containers: [{name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019",
    command: [cmd, /c, "whoami & tasklist"]}]`)
	c.until(t, ns, "after", "{.status.phase}", "Succeeded")
	out := c.kubectl(t, "logs", "-n", ns, "after")
	if !strings.Contains(out, `nt authority\local service`) || !strings.Contains(out, "kubelet.exe") ||
		strings.Contains(out, "powershell.exe") {
		t.Errorf("afterwards: %s", out)
	}
}

// TestHostProcessIsolation runs a hostile program on the host, and as a service
// of the host. Both may do what they like there; the machine is out of reach.
func TestHostProcessIsolation(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	cluster := filepath.Join(c.dir, "clusters", c.name)
	machineFile := filepath.Join(t.TempDir(), "secret.txt")
	//nolint:gosec // readable to all, if it can be reached
	if err := os.WriteFile(machineFile, []byte("of the machine"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"host-escape", "file=" + machineFile, "file=/etc/shadow", "file=/etc/machine-id", "file=/root/.bashrc",
		"file=" + filepath.Join(cluster, "admin.kubeconfig"), "file=" + filepath.Join(cluster, "pki", "ca.key"),
		"file=/node/cri/state/version",
	}
	args = append(args, c.sockets(t, cluster)...)
	quoted, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	corePattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		t.Fatal(err)
	}
	c.pod(t, ns, "hostile", hostProcess(`NT AUTHORITY\SYSTEM`)+`
  restartPolicy: Never
  containers:
  - {name: main, image: "`+winprogImage+`", imagePullPolicy: Never, workingDir: 'C:\hpc\app',
     command: ['C:\hpc\app\winprog.exe'], args: `+string(quoted)+`}
  - {name: stays, image: "`+winprogImage+`", imagePullPolicy: Never, command: ['C:\hpc\app\winprog.exe', wait]}`)
	c.until(t, ns, "hostile", "{.status.containerStatuses[?(@.name=='main')].state.terminated.exitCode}", "0")
	direct := c.kubectl(t, "logs", "-n", ns, "hostile", "-c", "main")
	// The same as a service, which the host starts. It is none that the service
	// manager understands: starting it fails in the end, but it runs.
	run := func(command ...string) (string, error) {
		return c.kubectlErr(t.Context(), append([]string{"exec", "-n", ns, "hostile", "-c", "stays", "--"},
			command...)...)
	}
	defer func() {
		_, _ = run("cmd", "/c", `sc stop hostile & sc delete hostile & del C:\hostile.exe C:\hostile.txt`)
	}() // the host is the test's
	if out, err := run("cmd", "/c", `copy C:\hpc\app\winprog.exe C:\hostile.exe`); err != nil {
		t.Fatalf("copy: %v: %s", err, out)
	}
	if out, err := run("sc", "create", "hostile", "binPath=", `C:\hostile.exe host-escape out=C:\hostile.txt file=`+
		machineFile+` file=/node/cri/state/version`); err != nil {
		t.Fatalf("make service: %v: %s", err, out)
	}
	_, _ = run("sc", "start", "hostile")
	var service string
	eventually(t, time.Minute, "the service", func() error {
		var err error
		service, err = run("findstr", ".", `C:\hostile.txt`)
		if err == nil && !strings.Contains(service, "done: all tried") {
			err = os.ErrNotExist
		}
		return err
	})
	for how, out := range map[string]string{"container": direct, "service": service} {
		if !strings.Contains(out, "done: all tried") {
			t.Fatalf("%s did not come to its end: %s", how, out)
		}
		for l := range strings.Lines(out) {
			if strings.HasPrefix(l, "ESCAPED") {
				t.Errorf("%s: %s", how, l)
			}
		}
		// CAP_CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, NET_BIND_SERVICE.
		for field, want := range map[string]string{"CapEff": "000000000000043b", "CapBnd": "000000000000043b",
			"NoNewPrivs": "1", "Seccomp": "2"} {
			if !regexp.MustCompile("(?m)^" + field + ": " + want + `\r?$`).MatchString(out) {
				t.Errorf("%s: no line %s: %s in %s", how, field, want, lines(out, field))
			}
		}
	}
	if after, err := os.ReadFile("/proc/sys/kernel/core_pattern"); err != nil || string(after) != string(corePattern) {
		t.Errorf("the machine's core_pattern is now %q, %v", after, err)
	}
}
