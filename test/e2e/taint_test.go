// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestWindowsTaint makes a cluster whose Windows nodes carry the guide's taint:
// pods for Windows are made to tolerate it, with a RuntimeClass too, and a node
// that lost the taint gets it back.
func TestWindowsTaint(t *testing.T) {
	t.Parallel()
	dir := ownCluster(t)
	const cluster, index, taint = "e2e-taint", 37, "os=windows:NoSchedule"
	if err := os.MkdirAll(filepath.Join(dir, "clusters", cluster), 0o700); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`{"apiVersion": "mullion/v1alpha1", "name": %q, "index": %d, "windows": ["2019"], `+
		`"windowsTaint": %q}`, cluster, index, taint)
	if err := os.WriteFile(filepath.Join(dir, "clusters", cluster, "cluster.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(stdin string, args ...string) (string, error) {
		args = append([]string{args[0], "--name", cluster, "--data-dir", dir}, args[1:]...)
		cmd := exec.Command(testenv.Bin("mullion"), args...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	t.Cleanup(func() {
		if out, err := run("", "down", "--purge"); err != nil {
			t.Errorf("down: %v: %s", err, out)
		}
	})
	if out, err := run("", "up", "--kubeconfig", "none", "--windows-taint", taint); err != nil {
		t.Fatalf("up: %v: %s", err, out)
	}
	if out, err := run("", "up", "--windows-taint", "os=windows:NoExecute"); err == nil ||
		!strings.Contains(out, taint) {
		t.Errorf("another taint for the same cluster: %v: %s", err, out)
	}
	kubectl := func(stdin string, args ...string) string {
		t.Helper()
		out, err := run(stdin, append([]string{"kubectl"}, args...)...)
		if err != nil {
			t.Fatalf("kubectl %v: %v: %s", args, err, out)
		}
		return out
	}
	tainted := func() error {
		out, err := run("", "kubectl", "get", "node", "win-1", "-o", "jsonpath={.spec.taints[?(@.key==\"os\")]}")
		if err == nil && !strings.Contains(out, `"value":"windows"`) {
			err = fmt.Errorf("taints are %s", out)
		}
		return err
	}
	if err := tainted(); err != nil {
		t.Fatal(err)
	}
	for name, class := range map[string]string{"plain": "", "classy": "runtimeClassName: windows-2019\n  "} {
		kubectl(`apiVersion: v1
kind: Pod
metadata: {name: `+name+`}
spec:
  `+class+`containers: [{name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019",
    command: [ping, -t, localhost]}]
`, "apply", "-f", "-")
		kubectl("", "wait", "--for=condition=Ready", "pod/"+name, "--timeout=180s")
	}
	kubectl("", "taint", "node", "win-1", "os-")
	eventually(t, 30*time.Second, "the taint to come back", tainted)
}
