// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

const srcResources = "https://kubernetes.io/docs/concepts/configuration/windows-resource-management/"

// graceCutSeconds is how long Windows Server Core waits for a process at
// shutdown by default: WaitToKillServiceTimeout, 5000 ms.
// github.com/microsoft/Windows-Containers issue 164.
const graceCutSeconds = 5

// graceDefaultSeconds is the value that the API server writes into every pod
// that does not set one. k8s.io/api/core/v1,
// DefaultTerminationGracePeriodSeconds.
const graceDefaultSeconds = 30

// resourceRules are about resources and the end of a container.
func resourceRules() []Rule {
	return []Rule{
		{
			Code:     "WIN310",
			Title:    "requests that differ from the limits",
			Severity: policy.Info,
			Field:    "containers[*].resources.requests",
			Why: "On Windows only the scheduler reads requests, and they are not a guarantee. The CPU limit is a " +
				"hard cap, a share of the whole node.",
			Fix: "make requests equal to limits",
			Sources: []string{"k8s.io/kubernetes pkg/kubelet/kuberuntime: kuberuntime_container_windows.go",
				srcResources},
			pod: checkRequests,
		},
		{
			Code:     "WIN312",
			Title:    "no memory limit",
			Severity: policy.Warning,
			Field:    "containers[*].resources.limits.memory",
			Why:      "Windows has no OOM killer: a container without a limit makes the whole node page and slow down.",
			Fix:      "set a memory limit and an equal request; start with 256Mi for Server Core",
			Sources:  []string{srcResources},
			pod:      checkMemoryLimit,
		},
		{
			Code:     "WIN313",
			Title:    "a grace period that Server Core cuts short",
			Severity: policy.Warning,
			Field:    "terminationGracePeriodSeconds",
			Why: "The process gets CTRL_SHUTDOWN_EVENT, not SIGTERM; in Server Core images it is killed after about " +
				"5 seconds, whatever the grace period is.",
			Fix:     "raise WaitToKillServiceTimeout in the image's registry, or use a preStop hook",
			Sources: []string{"https://github.com/microsoft/Windows-Containers/issues/164"},
			pod:     checkGracePeriod,
		},
		{
			Code:     "WIN340",
			Title:    "an architecture that Windows nodes do not have",
			Severity: policy.Warning,
			Field:    "nodeSelector[kubernetes.io/arch]",
			Why:      "Kubernetes' Windows images and nodes are amd64.",
			Fix:      "select amd64",
			Sources:  []string{"k8s.io/kubernetes build/pause: Makefile"},
			pod:      checkArchitecture,
		},
		{
			Code:     "WIN341",
			Title:    "a memory limit without a unit",
			Severity: policy.Warning,
			Field:    "containers[*].resources.limits.memory",
			Why: "A number without a unit counts bytes, and the suffix m counts thousandths of a byte. No container " +
				"starts with less than a megabyte.",
			Fix:      "write Mi or Gi after the number",
			Sources:  []string{srcResources},
			Inferred: true,
			pod:      eachContainer(checkMemoryUnit),
		},
	}
}

// checkMemoryUnit reports limits that cannot be meant so. Quantities in another
// notation are left alone.
func checkMemoryUnit(_ *policy.Pod, c policy.Container, r reporter) {
	at := c.Get("resources", "limits", "memory")
	text := fmt.Sprint(at.Raw())
	digits := strings.TrimSuffix(strings.TrimSuffix(text, "m"), "k")
	n, err := strconv.ParseInt(digits, 10, 64)
	if !at.Set() || err != nil || n == 0 {
		return
	}
	if strings.HasSuffix(text, "m") && n < 1<<30 || strings.HasSuffix(text, "k") && n < 1<<10 ||
		digits == text && n < 1<<20 {
		r.at(at, "container %s: the memory limit %s is less than a megabyte", c.Name, text)
	}
}

// checkRequests reports a pod once, at its first such request.
func checkRequests(p *policy.Pod, r reporter) {
	var first tree.Value
	var names []string
	for _, c := range p.Containers {
		req, lim := c.Find("resources", "requests"), c.Find("resources", "limits")
		for _, k := range []string{"cpu", "memory"} {
			a, b := req.Get(k), lim.Get(k)
			if !p.Windows() || !a.Set() || !b.Set() || a.Raw() == b.Raw() {
				continue
			}
			if len(names) == 0 {
				first = a
			}
			if !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	if len(names) > 0 {
		r.at(first, "requests are not a guarantee on Windows; they differ from the limits in: %s",
			strings.Join(names, ", "))
	}
}

// checkMemoryLimit reports a pod once, however many containers lack a limit.
func checkMemoryLimit(p *policy.Pod, r reporter) {
	var without []policy.Container
	names, running := []string{}, 0
	for _, c := range p.Containers {
		if !p.Windows() || c.List == "ephemeralContainers" || c.List == "initContainers" && !sidecar(c) {
			continue
		}
		running++
		if !c.Find("resources", "limits", "memory").Set() {
			without = append(without, c)
			names = append(names, c.Name)
		}
	}
	if len(without) == 0 {
		return
	}
	at := without[0].Get("resources", "limits", "memory")
	if running == 1 {
		r.at(at, "container %s has no memory limit", names[0])
		return
	}
	r.at(at, "%d of %d containers have no memory limit: %s", len(without), running, strings.Join(names, ", "))
}

// sidecar reports whether an init container runs as long as the pod.
func sidecar(c policy.Container) bool { return c.Get("restartPolicy").Str() == "Always" }

func checkGracePeriod(p *policy.Pod, r reporter) {
	v := p.Spec.Find("terminationGracePeriodSeconds")
	n, ok := v.Int()
	if !ok || n <= graceCutSeconds || n == graceDefaultSeconds || !p.Windows() {
		return
	}
	for _, c := range p.Containers {
		if image := strings.ToLower(c.Image); strings.Contains(image, "servercore") ||
			strings.Contains(image, "/windows/server:") {
			r.at(v, "container %s is killed after about %d seconds, not %d", c.Name, graceCutSeconds, n)
			return
		}
	}
}

func checkArchitecture(p *policy.Pod, r reporter) {
	for _, q := range policy.Required(p) {
		if p.Windows() && q.Key == "kubernetes.io/arch" && q.Value != "amd64" {
			r.at(q.At, "%s selects %s; Windows nodes are amd64", q.How, q.Value)
		}
	}
}

// eachContainer calls f with every container of a pod for Windows.
func eachContainer(f func(*policy.Pod, policy.Container, reporter)) func(*policy.Pod, reporter) {
	return func(p *policy.Pod, r reporter) {
		if p.Windows() {
			for _, c := range p.Containers {
				f(p, c, r)
			}
		}
	}
}
