// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLimits lets programs take all that they can get of each resource at the
// same time on one host. Each is stopped by its own limit, and the host and
// its neighbour stay as they are.
func TestLimits(t *testing.T) {
	c := alone(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	container := func(mode, more string) string {
		return onNode + "\n  restartPolicy: Never\n  containers:\n  - {name: main, image: \"" + winprogImage +
			"\", imagePullPolicy: Never, args: [" + mode + "]" + more + "}"
	}
	c.pod(t, ns, "neighbour", container("wait", ""))
	c.ready(t, ns, "neighbour")
	c.pod(t, ns, "processes", container("fork", ""))
	c.pod(t, ns, "threads", container("threads", ""))
	const memory = ", resources: {limits: {memory: 200Mi}}"
	c.pod(t, ns, "memory", container("memory", memory))
	c.pod(t, ns, "linux-memory", container("linux-memory", memory))
	c.pod(t, ns, "cpu", container("spin", ", resources: {limits: {cpu: 250m}}"))
	c.pod(t, ns, "output", container(`flood, "1000000000"`, ""))

	const ended = "{.status.phase} {.status.containerStatuses[0].state.terminated.reason}"
	t.Run("memory", func(t *testing.T) {
		// The runtime of Go gives up.
		c.until(t, ns, "memory", ended, "Failed Error")
		c.logs(t, ns, "memory", "out of memory")
		c.until(t, ns, "linux-memory", ended, "Failed OOMKilled")
		c.event(t, ns, "linux-memory",
			"Container main was ended: The container has used up its limit of memory, 209715200 bytes.")
	})
	t.Run("threads", func(t *testing.T) {
		c.until(t, ns, "threads", ended, "Failed ProcessLimitExceeded")
		c.event(t, ns, "threads", "Container main was ended: "+
			"The container has gone on starting processes or threads at its limit, 2048 together.")
	})
	t.Run("processes", func(t *testing.T) {
		// Wine's processes may take the memory before the processes are too many.
		c.until(t, ns, "processes", ended, "Failed ProcessLimitExceeded", "Failed OOMKilled")
		c.event(t, ns, "processes", "Container main was ended: The ")
		// The kernel's figure for an ordinary container does not depend on the machine.
		if limit := c.cgroupValue(t, ns, "neighbour", "pids", "pids.max"); limit != "2048" {
			t.Errorf("limit of processes is %s, want 2048", limit)
		}
	})
	t.Run("processor", func(t *testing.T) {
		c.ready(t, ns, "cpu")
		// Of two or more processors 250m are; the kernel's quota says it,
		// whatever the machine's load.
		period, quota := c.cpuQuota(t, ns, "cpu")
		if share := float64(quota) / float64(period); share < 0.24 || share > 0.26 {
			t.Errorf("quota %d of %d µs, want a quarter of a processor", quota, period)
		}
	})
	t.Run("output", func(t *testing.T) {
		eventually(t, time.Minute, "output", func() error {
			out, err := c.kubectlErr(t.Context(), "logs", "-n", ns, "output", "--tail=1")
			if err == nil && !strings.Contains(out, "xxxx") {
				err = fmt.Errorf("last line %q", out)
			}
			return err
		})
	})
	t.Run("API server", func(t *testing.T) {
		if got := c.kubectl(t, "get", "--raw", "/readyz"); got != "ok" {
			t.Errorf("readyz says %q", got)
		}
	})
	t.Run("neighbour", func(t *testing.T) {
		if got := c.exec(t, ns, "neighbour", "cmd.exe", "/c", "echo alive"); got != "alive" {
			t.Errorf("exec printed %q", got)
		}
		if got := c.get(t, ns, "neighbour", "{.status.containerStatuses[0].restartCount}"); got != "0" {
			t.Errorf("restarted %s times", got)
		}
		if got := c.kubectl(t, "get", "node", "win-1", "-o",
			`jsonpath={.status.conditions[?(@.type=="Ready")].status}`); got != "True" {
			t.Errorf("the host is Ready=%s", got)
		}
	})
	c.kubectl(t, "delete", "pod", "-n", ns, "--all", "--grace-period=0", "--force")
}

// TestDiskLimit: a container that fills its drive, or a volume with a limit, is
// ended and says why.
func TestDiskLimit(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	c.pod(t, ns, "drive", onNode+`
  restartPolicy: Never
  containers:
  - {name: main, image: "`+winprogImage+`", imagePullPolicy: Never,
     args: [disk, 'C:\app\big', "100"], resources: {limits: {ephemeral-storage: 50Mi}}}`)
	// It stays below the node's own ceiling, which would end the pod before the kubelet looks.
	c.event(t, ns, "drive", "Pod ephemeral local storage usage exceeds the total limit of containers 50Mi")
	// The program ends in order, with 0, and the kubelet may count that.
	c.until(t, ns, "drive", "{.status.phase}", "Failed", "Succeeded")
}

// TestLogRotation: a program that floods its log does not fill the host, and
// its end is still to be read.
func TestLogRotation(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	const count = 40_000 // of 1 kB: four times kubelet's default of 10 MB
	c.pod(t, ns, "flood", onNode+`
  containers:
  - {name: main, image: "`+winprogImage+`", imagePullPolicy: Never, args: [flood, "`+strconv.Itoa(count)+`"]}`)
	uid := c.get(t, ns, "flood", "{.metadata.uid}")
	eventually(t, 2*time.Minute, "rotation", func() error {
		files := c.nodeFiles(filepath.Join("prefix", "drive_c", "var", "log", "pods", "*"+uid, "main", "*"))
		if len(files) < 2 {
			return fmt.Errorf("log files %q, want rotated ones", files)
		}
		return nil
	})
	eventually(t, 3*time.Minute, "the last line", func() error {
		out, err := c.kubectlErr(t.Context(), "logs", "-n", ns, "flood", "--tail=1")
		if err == nil && strings.TrimSpace(out) != "last" {
			err = fmt.Errorf("last line %q", out)
		}
		return err
	})
}

// cpuQuota reads the limit of a pod's first container from the kernel.
func (c *shared) cpuQuota(t *testing.T, ns, pod string) (period, quota int64) {
	t.Helper()
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if versionOne() {
		return number(c.cgroupValue(t, ns, pod, "cpu", "cpu.cfs_period_us")),
			number(c.cgroupValue(t, ns, pod, "cpu", "cpu.cfs_quota_us"))
	}
	f := strings.Fields(c.cgroupValue(t, ns, pod, "cpu", "cpu.max"))
	return number(f[1]), number(f[0])
}

// versionOne reports whether the machine has version 1 of cgroups.
func versionOne() bool {
	_, err := os.Stat("/sys/fs/cgroup/cpu")
	return err == nil
}

// cgroupValue reads a file of a container's cgroup, version 1 or 2.
func (c *shared) cgroupValue(t *testing.T, ns, pod, controller, file string) string {
	t.Helper()
	pid := c.containerProcess(t, ns, pod)
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	dir := ""
	for l := range strings.SplitSeq(strings.TrimSpace(string(content)), "\n") {
		part := strings.SplitN(l, ":", 3)
		if slices.Contains(strings.Split(part[1], ","), controller) {
			dir = filepath.Join("/sys/fs/cgroup", controller, part[2])
			break
		}
		if part[1] == "" {
			dir = filepath.Join("/sys/fs/cgroup", part[2])
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// containerProcess returns the process ID, on the machine, of the init of a pod's
// first container.
func (c *shared) containerProcess(t *testing.T, ns, pod string) int {
	t.Helper()
	id := c.get(t, ns, pod, "{.status.containerStatuses[0].containerID}")
	id = id[strings.LastIndex(id, "/")+1:]
	var found int
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		cgroup, err := os.ReadFile(filepath.Join(d, "cgroup"))
		if err != nil || !strings.Contains(string(cgroup), id) {
			continue
		}
		status, err := os.ReadFile(filepath.Join(d, "status"))
		if err != nil {
			continue
		}
		for l := range strings.SplitSeq(string(status), "\n") {
			// "NSpid: 4711 52 1": PID 1 of the innermost namespace.
			if f := strings.Fields(l); len(f) > 1 && f[0] == "NSpid:" && f[len(f)-1] == "1" {
				found, _ = strconv.Atoi(filepath.Base(d))
			}
		}
	}
	if found == 0 {
		t.Fatalf("no process of container %s", id)
	}
	return found
}

// containerProcesses returns the processes of a pod's first container whose command
// line has the part.
func (c *shared) containerProcesses(t *testing.T, ns, pod, part string) []int {
	t.Helper()
	init := c.containerProcess(t, ns, pod)
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", init))
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, d := range dirs {
		link, err := os.Readlink(filepath.Join(d, "ns", "pid"))
		cmdline, _ := os.ReadFile(filepath.Join(d, "cmdline"))
		if err == nil && link == want && strings.Contains(string(cmdline), part) {
			pid, _ := strconv.Atoi(filepath.Base(d))
			out = append(out, pid)
		}
	}
	return out
}
