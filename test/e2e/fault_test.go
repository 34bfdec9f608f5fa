// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKill kills every kind of process of the cluster with -9 while a pod
// serves, and waits until all is as before. What may end with its process and
// what must live on is in the table.
func TestKill(t *testing.T) {
	c := alone(t)
	ns := c.namespace(t)
	c.only(t, "10.0.17763")
	c.kubectl(t, "apply", "-n", ns, "-f", guide("run-as-username-pod.yaml"))
	const pod = "run-as-username-pod-demo"
	c.kubectl(t, "wait", "-n", ns, "--for=condition=Ready", "pod/"+pod, "--timeout=120s")
	node := c.kubectl(t, "get", "pod", "-n", ns, pod, "-o", "jsonpath={.spec.nodeName}")
	restarts := func() string {
		return c.kubectl(t, "get", "pod", "-n", ns, pod, "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
	}
	before := restarts()
	for _, tc := range []struct {
		name   string
		argv   string // part of the command line
		onNode bool   // only the process of the pod's host
		lives  bool   // the pod's container lives on
	}{
		{"control plane", "mullion-kube server", false, true},
		{"kubelet.exe", "kubelet.exe", true, true},
		{"kube-proxy.exe", "kube-proxy.exe", true, true},
		{"CRI and HNS server", "winhost serve", true, true},
		{"agent", "mullion.exe", true, true},
		{"the whole host", "winhost --config", true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			victims := c.kill(t, tc.argv, node, tc.onNode)
			eventually(t, 90*time.Second, "everything ready again", func() error {
				if _, err := c.try(t.Context(), "", "status", "--name", c.name, "--data-dir", c.dir); err != nil {
					return err
				}
				now := c.processes(t, tc.argv, node, tc.onNode)
				if len(now) == 0 || slices.Equal(now, victims) {
					return fmt.Errorf("%s is not back", tc.argv)
				}
				out, err := c.kubectlErr(t.Context(), "exec", "-n", ns, pod, "--", "cmd.exe", "/c", "echo alive")
				if err == nil && strings.TrimSpace(out) != "alive" {
					err = fmt.Errorf("exec printed %q", out)
				}
				return err
			})
			after := restarts()
			if tc.lives && after != before {
				t.Errorf("the container was restarted (%s, then %s); it must live on", before, after)
			}
			before = after
		})
	}
}

// kill ends processes as processes finds them, and returns them.
func (c *shared) kill(t *testing.T, argv, node string, onNode bool) []int {
	t.Helper()
	victims := c.processes(t, argv, node, onNode)
	if len(victims) == 0 {
		t.Fatalf("no process with %q", argv)
	}
	for _, pid := range victims {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			t.Fatal(err)
		}
	}
	return victims
}

// processes lists the IDs of the cluster's processes whose command line has
// the part; with onNode, only those of the node's host.
func (c *shared) processes(t *testing.T, part, node string, onNode bool) []int {
	t.Helper()
	var st struct {
		InitPID int `json:"initPID"`
		PID     int `json:"pid"`
	}
	if onNode {
		content, err := os.ReadFile(filepath.Join(c.dir, "clusters", c.name, "run", node+".json"))
		if err != nil || json.Unmarshal(content, &st) != nil {
			return nil // the host is being restarted
		}
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, d := range dirs {
		cmdline, err := os.ReadFile(filepath.Join(d, "cmdline"))
		if err != nil || !strings.Contains(strings.ReplaceAll(string(cmdline), "\x00", " "), part) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil {
			t.Fatal(err)
		}
		if onNode && pid != st.PID && !sameNamespace(pid, st.InitPID) ||
			!onNode && !strings.Contains(string(cmdline), c.dir) {
			continue
		}
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}

func sameNamespace(a, b int) bool {
	x, errX := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", a))
	y, errY := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", b))
	return errX == nil && errY == nil && x == y
}
