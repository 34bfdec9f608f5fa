// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// semiAnnual is an image of a build that the cluster has no host of.
const semiAnnual = "mcr.microsoft.com/windows/servercore:20H2"

// linuxDaemonSet is one as charts of monitoring agents have it: it tolerates
// every taint and selects nothing.
const linuxDaemonSet = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: agent, image: "busybox:1.37"}]
`

// buildsOf maps each node to its build.
func (c *shared) buildsOf(t *testing.T) map[string]string {
	t.Helper()
	builds := map[string]string{}
	out := c.kubectl(t, "get", "nodes", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.metadata.labels.node\.kubernetes\.io/windows-build}{"\n"}{end}`)
	for line := range strings.Lines(out) {
		name, build, _ := strings.Cut(strings.TrimSpace(line), " ")
		builds[name] = build
	}
	return builds
}

// windowsBuilds returns the builds of the Windows hosts, sorted.
func (c *shared) windowsBuilds(t *testing.T) (builds []string) {
	t.Helper()
	for node, build := range c.buildsOf(t) {
		if strings.HasPrefix(node, "win-") {
			builds = append(builds, build)
		}
	}
	slices.Sort(builds)
	return slices.Compact(builds)
}

// nodeObject makes a Node of another build until the test ends, for whatever only reads Nodes. It costs no host: it
// reports what win-1 reports, without conditions and addresses, and is cordoned, so that it gets no pods.
func (c *shared) nodeObject(t *testing.T, build winver.Build) {
	t.Helper()
	var host corev1.Node
	if err := json.Unmarshal([]byte(c.kubectl(t, "get", "node", "win-1", "-o", "json")), &host); err != nil {
		t.Fatal(err)
	}
	object := corev1.Node{
		TypeMeta: host.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: "object-" + build.Label(),
			Labels: map[string]string{corev1.LabelOSStable: "windows", corev1.LabelArchStable: "amd64",
				corev1.LabelWindowsBuild: build.Label()},
		},
		Spec:   corev1.NodeSpec{Unschedulable: true},
		Status: corev1.NodeStatus{NodeInfo: host.Status.NodeInfo, Images: host.Status.Images},
	}
	object.Status.NodeInfo.KernelVersion = build.Label()
	manifest, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "node.json")
	if err := os.WriteFile(file, manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	c.kubectl(t, "apply", "-f", file)
	t.Cleanup(func() {
		if _, err := c.kubectlErr(context.Background(), "delete", "node", object.Name); err != nil {
			t.Errorf("remove %s: %v", object.Name, err)
		}
	})
}

// onBuilds waits until a pod of the selector runs. A pod on a node of another
// build than those fails the test at once.
func (c *shared) onBuilds(t *testing.T, ns, pods string, builds ...string) {
	t.Helper()
	eventually(t, 2*time.Minute, pods, func() error {
		if !slices.Contains(c.landed(t, ns, pods, builds...), "Running") {
			return errors.New("no pod runs")
		}
		return nil
	})
}

// landed returns the phases of the pods that have a node, which must be of one
// of the builds.
func (c *shared) landed(t *testing.T, ns, pods string, builds ...string) []string {
	t.Helper()
	path := `{.metadata.name} {.status.phase} {.spec.nodeName};`
	if strings.HasPrefix(pods, "-l") {
		path = `{range .items[*]}` + path + `{end}`
	}
	nodes := c.buildsOf(t)
	var phases []string
	for pod := range strings.SplitSeq(c.kubectl(t, "get", "pods", "-n", ns, pods, "-o", "jsonpath="+path), ";") {
		f := strings.Fields(pod)
		if len(f) < 3 {
			continue // not scheduled yet
		}
		if !slices.Contains(builds, nodes[f[2]]) {
			t.Fatalf("pod %s landed on %s of build %s, want one of %v", f[0], f[2], nodes[f[2]], builds)
		}
		phases = append(phases, f[1])
	}
	return phases
}

// TestUntaggedStandIns: microsoft/iis, microsoft/windowsservercore and
// microsoft/nanoserver without a tag are there for the build of each host
// (docs/fidelity/images.md), so a pod runs on any. Were they images of 2016 only,
// as the originals were in the end, these pods would be refused.
func TestUntaggedStandIns(t *testing.T) {
	t.Parallel()
	c := up(t, "2016", "1709", "2022")
	ns := c.namespace(t)
	repos := []string{"microsoft/iis", "microsoft/windowsservercore", "microsoft/nanoserver"}
	builds := c.windowsBuilds(t)
	for i, build := range builds {
		c.apply(t, ns, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: untagged-%d}
spec:
  nodeSelector: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: %q}
  containers: [{name: main, image: %q, imagePullPolicy: IfNotPresent, command: [cmd, /c, ping -t localhost]}]
`, i, build, repos[i%len(repos)]))
	}
	for i, build := range builds {
		pod := fmt.Sprintf("untagged-%d", i)
		c.onBuilds(t, ns, pod, build)
		if got := strings.TrimSpace(c.exec(t, ns, pod, "cmd", "/c", "ver")); !strings.Contains(got, build) {
			t.Errorf("on a host of %s the container says %q", build, got)
		}
	}
}

// TestPlacementByImage names nothing but images.
func TestPlacementByImage(t *testing.T) {
	t.Parallel()
	c := up(t, "2022")
	ns := c.namespace(t)
	for name, image := range map[string]string{
		"a2019": "mcr.microsoft.com/windows/servercore:ltsc2019",
		"a2022": "mcr.microsoft.com/windows/servercore:ltsc2022",
		"n1809": "mcr.microsoft.com/windows/nanoserver:1809",
	} {
		c.kubectl(t, "run", "-n", ns, name, "--image", image, "--image-pull-policy=IfNotPresent", "--command", "--",
			"cmd", "/c", "ping -t localhost")
	}
	c.onBuilds(t, ns, "a2019", "10.0.17763")
	c.onBuilds(t, ns, "n1809", "10.0.17763")
	c.onBuilds(t, ns, "a2022", "10.0.20348")
	if os := c.kubectl(t, "get", "pod", "-n", ns, "a2019", "-o", "jsonpath={.spec.os.name}"); os != "windows" {
		t.Errorf("spec.os.name is %q, want windows", os)
	}
}

// TestLinuxStaysOff is the complaint heard most: pods of ordinary charts land
// on Windows nodes, and hang there.
func TestLinuxStaysOff(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	c.kubectl(t, "create", "deployment", "-n", ns, "web", "--image=nginx:1.29", "--replicas=2")
	c.apply(t, ns, linuxDaemonSet)
	eventually(t, time.Minute, "the scheduler to look at the pods", func() error {
		out, err := c.kubectlErr(t.Context(), "get", "pods", "-n", ns, "-lapp=web", "-o",
			`jsonpath={range `+
				`.items[*]}{.spec.nodeSelector.kubernetes\.io/os}/{.spec.nodeName}/`+
				`{.status.conditions[?(@.type=="PodScheduled")].reason};{end}`)
		if err != nil {
			return err
		}
		if out != "linux/linux-1/;linux/linux-1/;" {
			return fmt.Errorf("the pods are %q", out)
		}
		return nil
	})
	eventually(t, time.Minute, "the DaemonSet controller", func() error {
		out, err := c.kubectlErr(t.Context(), "get", "daemonset", "-n", ns, "agent", "-o",
			"jsonpath={.status.observedGeneration} {.status.desiredNumberScheduled}")
		if err == nil && out != "1 1" {
			err = fmt.Errorf("observed generation and wanted pods are %q, want \"1 1\"", out)
		}
		return err
	})
}

// TestRefusal applies what cannot work; the message must say what, why and
// what to do.
func TestRefusal(t *testing.T) {
	t.Parallel()
	c := up(t, "2022")
	ns := c.namespace(t)
	for _, tc := range []struct {
		name, pod string
		want      []string
	}{
		{"mount of a drive", `nodeSelector: {kubernetes.io/os: windows}
  volumes: [{name: v, emptyDir: {}}]
  containers: [{name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019",
    volumeMounts: [{name: v, mountPath: "C:"}]}]`, []string{"mountPath", "WIN216"}},
		{"no host of the build", `containers: [{name: main, image: "` + semiAnnual + `"}]`,
			[]string{"10.0.19042", "10.0.17763", "10.0.20348"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			manifest := "apiVersion: v1\nkind: Pod\nmetadata: {name: refused}\nspec:\n  " + tc.pod + "\n"
			out, err := c.try(t.Context(), manifest, "kubectl", "--name", c.name, "--data-dir", c.dir, "apply", "-n",
				ns, "-f", "-")
			if err == nil {
				t.Fatalf("it was admitted: %s", out)
			}
			t.Logf("%s", out)
			for _, w := range tc.want {
				if !strings.Contains(out, w) {
					t.Errorf("the refusal does not name %q: %s", w, out)
				}
			}
		})
	}
}

// TestMismatchIsSaid has a pod that passed admission and that no node can run:
// describe must say so in words.
func TestMismatchIsSaid(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	c.kubectl(t, "label", "namespace", ns, "admission.mullion.dev/disabled=true")
	c.apply(t, ns, `apiVersion: v1
kind: Pod
metadata: {name: mismatch}
spec:
  os: {name: windows}
  nodeSelector: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.19042}
  containers: [{name: main, image: "`+semiAnnual+`"}]
`)
	eventually(t, time.Minute, "the event", func() error {
		out, err := c.kubectlErr(t.Context(), "describe", "pod", "-n", ns, "mismatch")
		if err != nil {
			return err
		}
		for _, w := range []string{"WindowsBuildMismatch", "10.0.19042", "10.0.17763"} {
			if !strings.Contains(out, w) {
				return fmt.Errorf("describe does not say %q: %s", w, out)
			}
		}
		return nil
	})
}

// TestRuntimeClassesFollowNodes looks for one of the cluster's own per build, and for pods that may go to one of two.
func TestRuntimeClassesFollowNodes(t *testing.T) {
	t.Parallel()
	c := up(t, "2022")
	for _, version := range []string{"1803", "2025"} {
		build, err := winver.Parse(version)
		if err != nil {
			t.Fatal(err)
		}
		c.nodeObject(t, build)
	}
	eventually(t, time.Minute, "the RuntimeClasses", func() error {
		const build = `{.scheduling.nodeSelector.node\.kubernetes\.io/windows-build}`
		out, err := c.kubectlErr(t.Context(), "get", "runtimeclasses", "-l", "app.kubernetes.io/managed-by=mullion",
			"-o", "jsonpath={range .items[*]}{.metadata.name} "+build+";{end}")
		if err != nil {
			return err
		}
		for _, w := range []string{
			"windows-1803 10.0.17134;", "windows-2019 10.0.17763;", "windows-2022 10.0.20348;",
			"windows-2025 10.0.26100;",
		} {
			if !strings.Contains(out, w) {
				return fmt.Errorf("there is no %s: %s", w, out)
			}
		}
		return nil
	})
	ns := c.namespace(t)
	c.apply(t, ns, `apiVersion: v1
kind: Pod
metadata: {name: by-class}
spec:
  runtimeClassName: windows-2022
  containers: [{name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2022",
    command: [cmd, /c, ping -t localhost]}]
`)
	c.onBuilds(t, ns, "by-class", "10.0.20348")
	// A host of 2025 runs images of 2022, too.
	c.kubectl(t, "run", "-n", ns, "either", "--image=mcr.microsoft.com/windows/servercore:ltsc2022", "--command", "--",
		"cmd", "/c", "ping -t localhost")
	builds := c.get(t, ns, "either", "{.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"+
		`.nodeSelectorTerms[*].matchExpressions[?(@.key=="node.kubernetes.io/windows-build")].values}`)
	if builds != `["10.0.20348","10.0.26100"]` {
		t.Errorf("a pod of an image of 2022 may go to the builds %s, want those of 2022 and 2025", builds)
	}
}

// TestLoadedImageIsRecognised has an image whose name says nothing.
func TestLoadedImageIsRecognised(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	c.withWinprog(t)
	c.pod(t, ns, "loaded", `containers:
  - {name: main, image: "`+winprogImage+`", imagePullPolicy: Never, args: [wait]}`)
	c.onBuilds(t, ns, "loaded", "10.0.17763")
}
