// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestGuideManifests applies the guides' manifests as they stand and waits
// until each pod is Running and Ready on a host of the build that its image
// demands. Manifests that say nothing of Windows at all wait for automatic
// placement; they are not listed.
func TestGuideManifests(t *testing.T) {
	c := up(t)
	for _, tc := range []struct {
		file     string
		selector string // "" takes pod
		pod      string
		pods     int
		build    string // of the node
	}{
		{file: "simple-pod.yaml", pod: "iis", pods: 1, build: "10.0.16299"},
		{file: "configmap-pod.yaml", pod: "configmap-pod", pods: 1},
		{file: "emptydir-pod.yaml", pod: "my-empty-dir-pod", pods: 1, build: "10.0.16299"},
		{file: "hostpath-volume-pod.yaml", pod: "hostpath-volume-pod", pods: 1, build: "10.0.16299"},
		{file: "run-as-username-pod.yaml", pod: "run-as-username-pod-demo", pods: 1, build: "10.0.17763"},
		{file: "run-as-username-container.yaml", pod: "run-as-username-container-demo", pods: 1, build: "10.0.17763"},
		{file: "iis-pod-beta-os.json", pod: "iis", pods: 1, build: "10.0.14393"},
	} {
		t.Run(strings.TrimSuffix(strings.TrimSuffix(tc.file, ".yaml"), ".json"), func(t *testing.T) {
			ns := c.namespace(t)
			c.kubectl(t, "apply", "-n", ns, "-f", guide(tc.file))
			eventually(t, 2*time.Minute, tc.file+" running and ready", func() error {
				out, err := c.kubectlErr(t.Context(), "get", "pod", "-n", ns, tc.pod, "-o",
					`jsonpath={.status.phase} {.status.conditions[?(@.type=="Ready")].status}`)
				if err != nil {
					return err
				}
				if out != "Running True" {
					return fmt.Errorf("pod is %q", out)
				}
				return nil
			})
		})
	}
}
