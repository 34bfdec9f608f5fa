// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"strings"
	"testing"
)

// TestQuota: a ResourceQuota refuses a pod of Windows as the API server does, and says
// why.
func TestQuota(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	c.apply(t, ns, `apiVersion: v1
kind: ResourceQuota
metadata: {name: small}
spec: {hard: {pods: "1", limits.memory: 300Mi}}
`)
	c.becomes(t, ns, "resourcequota/small", "{.status.used.pods}", "0")
	pod := func(name, resources string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  " + onNode + `
  containers: [{name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019",
    command: [cmd, /c, ping -t localhost]` + resources + "}]\n"
	}
	const limits = ", resources: {limits: {memory: 200Mi}}"
	c.refused(t, ns, pod("unlimited", ""), "failed quota: small: must specify limits.memory for: main")
	c.refused(t, ns, pod("large", ", resources: {limits: {memory: 400Mi}}"),
		"exceeded quota: small, requested: limits.memory=400Mi, used: limits.memory=0, limited: limits.memory=300Mi")
	c.apply(t, ns, pod("first", limits))
	c.ready(t, ns, "first")
	c.refused(t, ns, pod("second", limits), "exceeded quota: small, requested: limits.memory=200Mi,pods=1, "+
		"used: limits.memory=200Mi,pods=1, limited: limits.memory=300Mi,pods=1")
}

// refused applies a manifest that the API server refuses with these words.
func (c *shared) refused(t *testing.T, ns, manifest, want string) {
	t.Helper()
	out, err := c.try(t.Context(), manifest, "kubectl", "--name", c.name, "--data-dir", c.dir, "apply", "-n", ns,
		"-f", "-")
	if err == nil || !strings.Contains(out, want) {
		t.Errorf("%v: %s, want %q", err, out, want)
	}
}

// TestLimitRange: the defaults of a namespace arrive at a container of Windows, and what
// it forbids is refused.
func TestLimitRange(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	c.apply(t, ns, `apiVersion: v1
kind: LimitRange
metadata: {name: usual}
spec: {limits: [{type: Container, default: {memory: 160Mi, cpu: 250m}, max: {memory: 1Gi}}]}
`)
	container := onNode + `
  containers:
  - {name: main, image: "` + winprogImage + `", imagePullPolicy: Never, args: [wait]`
	c.refused(t, ns, "apiVersion: v1\nkind: Pod\nmetadata: {name: large}\nspec:\n  "+container+
		", resources: {limits: {memory: 2Gi}}}\n", "maximum memory usage per Container is 1Gi, but limit is 2Gi")
	c.pod(t, ns, "plain", container+"}")
	c.ready(t, ns, "plain")
	if got := c.cgroupMemory(t, ns, "plain"); got != "167772160" {
		t.Errorf("the kernel's limit of memory is %s, want 160Mi", got)
	}
	if period, quota := c.cpuQuota(t, ns, "plain"); quota*4 != period {
		t.Errorf("quota %d of %d µs, want a quarter of a processor", quota, period)
	}
}

// cgroupMemory reads the limit of a pod's first container from the kernel.
func (c *shared) cgroupMemory(t *testing.T, ns, pod string) string {
	t.Helper()
	file := "memory.max"
	if versionOne() {
		file = "memory.limit_in_bytes"
	}
	return c.cgroupValue(t, ns, pod, "memory", file)
}

// TestPreemption: on a full node a pod takes the place of one of lower priority. The
// resource that is short is one of the test's own, so that no other pod is concerned.
func TestPreemption(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	const resource = "example.test~1seats"
	c.kubectl(t, "patch", "node", "win-1", "--subresource=status", "--type=json", "-p",
		`[{"op": "add", "path": "/status/capacity/`+resource+`", "value": "1"}]`)
	c.apply(t, ns, `apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: e2e-urgent}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: e2e-patient}
value: 1000
preemptionPolicy: Never
`)
	t.Cleanup(func() {
		for _, args := range [][]string{
			{"delete", "priorityclass", "e2e-urgent", "e2e-patient"},
			{"patch", "node", "win-1", "--subresource=status", "--type=json", "-p",
				`[{"op": "remove", "path": "/status/capacity/` + resource + `"}]`},
		} {
			if _, err := c.kubectlErr(context.Background(), args...); err != nil {
				t.Error(err)
			}
		}
	})
	c.becomes(t, ns, "node/win-1", `{.status.allocatable.example\.test/seats}`, "1")
	seat := func(class string) string {
		return `os: {name: windows}
  terminationGracePeriodSeconds: 1
  priorityClassName: ` + class + `
  containers: [{name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019",
    command: [cmd, /c, ping -t localhost], resources: {limits: {example.test/seats: 1}}}]`
	}
	c.pod(t, ns, "low", seat(`""`))
	c.ready(t, ns, "low")
	c.pod(t, ns, "patient", seat("e2e-patient"))
	c.event(t, ns, "patient", "Insufficient example.test/seats")
	if got := c.get(t, ns, "low", "{.status.phase}"); got != "Running" {
		t.Errorf("a pod that must not preempt made the other %s", got)
	}
	c.kubectl(t, "delete", "pod", "-n", ns, "patient")
	c.pod(t, ns, "high", seat("e2e-urgent"))
	c.ready(t, ns, "high")
	c.event(t, ns, "low", "Preempted by pod ")
	// The seat is free when the pod has ended, which is before its object has gone.
	c.kubectl(t, "wait", "-n", ns, "--for=delete", "pod/low", "--timeout=180s")
}
