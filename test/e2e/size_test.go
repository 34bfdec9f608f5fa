// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// smallHost is the size of the host that the tests here add.
const (
	smallHost = "--cpus=1 --memory=1Gi"
	smallKiB  = 1 << 20
)

// TestSmallHost: every program of a host sees the host's size, the kernel enforces it,
// and memory pressure evicts a pod, ends, and leaves a node that takes pods again.
func TestSmallHost(t *testing.T) {
	c := alone(t)
	node := c.addNode(t, "2019", strings.Fields(smallHost)...)
	if out, err := c.try(t.Context(), string(winprogArchive(t)), "load", "-", "--name", c.name, "--data-dir",
		c.dir, "--nodes", node); err != nil {
		t.Fatalf("load: %v: %s", err, out)
	}
	ns := c.namespace(t)
	there := "os: {name: windows}\n  nodeSelector: {kubernetes.io/hostname: " + node + "}\n  containers:\n  - "
	container := there + `{name: main, image: "` + winprogImage + `", imagePullPolicy: Never, args: [`
	c.pod(t, ns, "size", container+"size]}\n  restartPolicy: Never")

	t.Run("capacity", func(t *testing.T) {
		// 500 MiB are the kubelet's threshold for evictions on Windows.
		c.becomes(t, "default", "node/"+node, "{.status.capacity.cpu} {.status.capacity.memory} "+
			"{.status.allocatable.cpu} {.status.allocatable.memory}", "1 1Gi 1 524Mi")
	})
	t.Run("programs", func(t *testing.T) {
		out, err := c.try(t.Context(), "", "exec", node, "--name", c.name, "--data-dir", c.dir, "--", "powershell",
			"[Environment]::ProcessorCount")
		if err != nil || strings.TrimSpace(out) != "1" {
			t.Errorf("a program of the host sees %q processors, %v", out, err)
		}
		c.logs(t, ns, "size", fmt.Sprintf("size: 1 processors, %d KiB", smallKiB))
	})
	t.Run("kernel", func(t *testing.T) {
		for _, file := range []string{"memory/mullion/%s/%s/memory.limit_in_bytes", "mullion/%s/%s/memory.max"} {
			content, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", fmt.Sprintf(file, c.name, node)))
			if err == nil && strings.TrimSpace(string(content)) == fmt.Sprint(smallKiB<<10) {
				return
			}
		}
		t.Error("the host's cgroup has another limit of memory")
	})
	t.Run("pressure", func(t *testing.T) {
		c.setTransition(t, node, "20s")
		c.pressure(t, ns, node, container)
	})
}

// setTransition changes in agent.json of a host how long a node keeps a condition,
// which is five minutes otherwise, and lets the agent read it.
func (c *shared) setTransition(t *testing.T, node, period string) {
	t.Helper()
	var st struct {
		InitPID int `json:"initPID"`
	}
	readJSON(t, filepath.Join(c.dir, "clusters", c.name, "run", node+".json"), &st)
	dir := fmt.Sprintf("/proc/%d/root/prefix/drive_c/ProgramData/mullion", st.InitPID)
	var doc map[string]any
	readJSON(t, filepath.Join(dir, "agent.json"), &doc)
	kubelet, _ := doc["kubelet"].(map[string]any)
	if kubelet == nil { // a host has none of its own
		kubelet = map[string]any{}
		doc["kubelet"] = kubelet
	}
	kubelet["evictionPressureTransitionPeriod"] = period
	content, err := json.Marshal(doc)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "agent.json"), content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	before := c.processes(t, "kubelet.exe --windows-service", node, true)
	c.kill(t, `mullion.exe agent run`, node, true)
	eventually(t, time.Minute, "the kubelet with the setting", func() error {
		content, err := os.ReadFile(filepath.Join(dir, "kubelet-config.yaml"))
		now := c.processes(t, "kubelet.exe --windows-service", node, true)
		if err == nil && (!strings.Contains(string(content), period) || len(now) == 0 || now[0] == before[0]) {
			err = fmt.Errorf("processes %v, before %v, with %s", now, before, content)
		}
		return err
	})
	c.becomes(t, "default", "node/"+node, `{.status.conditions[?(@.type=="Ready")].status}`, "True")
}

// pressure fills a node's memory with a pod that has requested none, beside one that has.
func (c *shared) pressure(t *testing.T, ns, node, container string) {
	t.Helper()
	const condition = `{.status.conditions[?(@.type=="MemoryPressure")].status}`
	const taint = `{.spec.taints[?(@.key=="node.kubernetes.io/memory-pressure")].effect}`
	c.pod(t, ns, "keeper", container+"wait], resources: {requests: {memory: 200Mi}, limits: {memory: 200Mi}}}")
	c.ready(t, ns, "keeper")
	c.becomes(t, "default", "node/"+node, condition, "False")
	c.pod(t, ns, "hog", container+`memory, "432"]}`)
	c.becomes(t, "default", "node/"+node, condition, "True")
	c.until(t, ns, "hog", "{.status.phase} {.status.reason}", "Failed Evicted")
	message := c.get(t, ns, "hog", "{.status.message}")
	for _, want := range []string{"The node was low on resource: memory. Threshold quantity: 500Mi, available: ",
		"Container main was using ", "request is 0, has larger consumption of memory"} {
		if !strings.Contains(message, want) {
			t.Errorf("message %q lacks %q", message, want)
		}
	}
	c.event(t, ns, "hog", "The node was low on resource: memory.")
	c.becomes(t, "default", "node/"+node, condition+taint, "False")
	got := c.get(t, ns, "keeper", "{.status.phase} {.status.containerStatuses[0].restartCount}")
	if got != "Running 0" {
		t.Errorf("the pod within its request is %s", got)
	}
	c.pod(t, ns, "later", container+"wait]}")
	c.ready(t, ns, "later")
}
