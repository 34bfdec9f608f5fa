// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// guideManifest is a manifest of the guides, and what becomes of its pods.
type guideManifest struct {
	files string
	pods  string // selector or name
	build string // of the node; "" means any: the image is there for every build
	ends  bool   // with exit code 0, as cmd.exe does
	// standIn is the label of the stand-in that a pod needs, beyond Microsoft's images.
	standIn string
}

// TestGuideManifests applies the guides' manifests as they stand, and waits until
// each pod is Running and Ready, on a host of the build that its image demands;
// placement finds it where the manifest does not say it.
//
// Images whose default program is cmd.exe end at once without a terminal, on
// Windows Server as here; the manifests that give them no command are checked
// for that end.
func TestGuideManifests(t *testing.T) {
	t.Parallel()
	c := up(t, "1709", "2016")
	for _, m := range []guideManifest{
		{files: "simple-pod.yaml", pods: "iis", build: "10.0.16299"},
		{files: "iis-pod-beta-os.json", pods: "iis"},
		{files: "deploy-resource.yaml", pods: "-lapp.kubernetes.io/name=iis"},
		{files: "deploy-hyperv.yaml", pods: "-lapp=iis"},
		{files: "iis-hyperv.yaml", pods: "-lapp=iis"},
		// Its redis:3.0-nanoserver is our stand-in with a dozen commands: the
		// original's redis-server.exe is for Server 2016's Nano Server.
		{files: "configmap-pod.yaml", pods: "configmap-pod", build: "10.0.14393", standIn: "redis"},
		{files: "secret-pod.yaml", pods: "secret-envars-test-pod"},
		{files: "run-as-username-pod.yaml", pods: "run-as-username-pod-demo", build: "10.0.17763"},
		{files: "run-as-username-container.yaml", pods: "run-as-username-container-demo", build: "10.0.17763"},
		{files: "daemonset.yaml", pods: "-lapp=foo", build: "10.0.16299", ends: true},
		{files: "emptydir-pod.yaml", pods: "my-empty-dir-pod", build: "10.0.16299", ends: true},
		{files: "hostpath-volume-pod.yaml", pods: "hostpath-volume-pod", build: "10.0.16299", ends: true},
	} {
		first, _, _ := strings.Cut(m.files, ".")
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			c.follow(t, m)
		})
	}
}

// TestGuideRuntimeClasses applies the guide's RuntimeClasses. It is not parallel, because one of them has the name of
// one of the cluster's.
func TestGuideRuntimeClasses(t *testing.T) {
	c := up(t)
	t.Cleanup(func() {
		// They have no namespace, so they do not go with it.
		if _, err := c.kubectlErr(context.Background(), "delete", "-f", guide("runtimeClasses.yml")); err != nil {
			t.Errorf("remove the guide's classes: %v", err)
		}
	})
	c.follow(t, guideManifest{files: "runtimeClasses.yml,iis-2019.yaml", pods: "-lapp=iis-2019", build: "10.0.17763"})
}

// follow applies a manifest in a namespace of its own, and waits for its pods.
func (c *shared) follow(t *testing.T, m guideManifest) {
	t.Helper()
	ns := c.namespace(t)
	for f := range strings.SplitSeq(m.files, ",") {
		c.kubectl(t, "apply", "-n", ns, "-f", guide(f))
	}
	jsonpath := `{.status.phase} {.status.conditions[?(@.type=="Ready")].status}`
	want := "Running True"
	if m.ends {
		jsonpath =
			"{.status.containerStatuses[0].lastState.terminated.reason}" +
				"{.status.containerStatuses[0].state.terminated.reason}"
		want = "Completed"
	}
	args := []string{"get", "pods", "-n", ns, m.pods, "-o", "jsonpath=" + jsonpath}
	if strings.HasPrefix(m.pods, "-l") {
		args[len(args)-1] = "jsonpath={range .items[*]}" + jsonpath + ";{end}"
	}
	eventually(t, 2*time.Minute, m.files, func() error {
		out, err := c.kubectlErr(t.Context(), args...)
		if err != nil {
			return err
		}
		if out == "" {
			return errors.New("no pod yet")
		}
		good := 0
		states := strings.Split(strings.TrimSuffix(out, ";"), ";")
		for _, state := range states {
			// lastState and state of a program that has ended twice.
			if state == want || m.ends && state == want+want {
				good++
			}
		}
		if good < len(states) {
			return fmt.Errorf("pods are %q, want %q", out, want)
		}
		return nil
	})
	builds := []string{m.build}
	if m.build == "" {
		builds = c.windowsBuilds(t)
	}
	if len(c.landed(t, ns, m.pods, builds...)) == 0 {
		t.Error("no pod has a node")
	}
	if m.standIn != "" {
		c.runsStandIn(t, ns, m.pods, m.standIn)
	}
}

// runsStandIn checks that a pod got the stand-in of that label, by a command that
// the stand-in alone refuses in this way, so that a reader does not take it for the original.
func (c *shared) runsStandIn(t *testing.T, ns, pod, standIn string) {
	t.Helper()
	out, err := c.kubectlErr(t.Context(), "exec", "-n", ns, pod, "--", standIn+"-cli.exe", "eval", "return 1", "0")
	if says := fmt.Sprint(out, err); !strings.Contains(says, "mullion's stand-in knows a few only") {
		t.Errorf("%s-cli.exe does not say that it is a stand-in: %s", standIn, says)
	}
}

// only lets new pods onto hosts of one build, until the test ends.
func (c *shared) only(t *testing.T, build string) {
	t.Helper()
	others := "node.kubernetes.io/windows-build!=" + build
	c.kubectl(t, "cordon", "-l", others)
	t.Cleanup(func() {
		if _, err := c.kubectlErr(context.Background(), "uncordon", "-l", others); err != nil {
			t.Errorf("uncordon: %v", err)
		}
	})
}
