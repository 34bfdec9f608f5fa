// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"encoding/json"
	"maps"
	"testing"
	"time"
)

// TestKubeletDefaults reads the configuration of the running kubelets. Pods are evicted and images removed at
// upstream's thresholds (kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction), and a Linux
// worker bounds and filters each pod.
func TestKubeletDefaults(t *testing.T) {
	t.Parallel()
	c := up(t)
	type configuration struct {
		EvictionHard                map[string]string `json:"evictionHard"`
		ImageGCHighThresholdPercent int               `json:"imageGCHighThresholdPercent"`
		ImageGCLowThresholdPercent  int               `json:"imageGCLowThresholdPercent"`
		PodPidsLimit                int               `json:"podPidsLimit"`
		SeccompDefault              bool              `json:"seccompDefault"`
	}
	read := func(node string) (got configuration) {
		t.Helper()
		var answer struct {
			Config *configuration `json:"kubeletconfig"`
		}
		answer.Config = &got
		eventually(t, 20*time.Second, "the kubelet of "+node+" answers", func() error {
			out, err := c.kubectlErr(t.Context(), "get", "--raw", "/api/v1/nodes/"+node+"/proxy/configz")
			if err != nil {
				return err
			}
			return json.Unmarshal([]byte(out), &answer)
		})
		if got.ImageGCHighThresholdPercent != 85 || got.ImageGCLowThresholdPercent != 80 {
			t.Errorf("%s removes images above %d %% until %d %%", node, got.ImageGCHighThresholdPercent,
				got.ImageGCLowThresholdPercent)
		}
		return got
	}
	linux := read("linux-1")
	want := map[string]string{"imagefs.available": "15%", "imagefs.inodesFree": "5%", "memory.available": "100Mi",
		"nodefs.available": "10%", "nodefs.inodesFree": "5%"}
	if !maps.Equal(linux.EvictionHard, want) {
		t.Errorf("linux-1 evicts at %v, want %v", linux.EvictionHard, want)
	}
	if linux.PodPidsLimit != 4096 || !linux.SeccompDefault {
		t.Errorf("linux-1: %d processes a pod, seccomp by default %t", linux.PodPidsLimit, linux.SeccompDefault)
	}
	windows := read("win-1")
	want = map[string]string{"imagefs.available": "15%", "memory.available": "500Mi", "nodefs.available": "10%"}
	if !maps.Equal(windows.EvictionHard, want) {
		t.Errorf("win-1 evicts at %v, want %v", windows.EvictionHard, want)
	}
}
