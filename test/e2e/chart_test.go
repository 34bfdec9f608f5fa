// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestChart: Helm installs a chart as public ones are, with parts for Linux and for
// Windows, hooks and a test. It comes up whole, is upgraded, and leaves nothing.
func TestChart(t *testing.T) {
	t.Parallel()
	c := up(t)
	testenv.Need(t, testenv.Peers)
	c.withLinuxprog(t)
	ns := c.namespace(t)
	helm := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), testenv.Bin("peers", "helm"), append(args, "--namespace", ns,
			"--kubeconfig", filepath.Join(c.dir, "clusters", c.name, "admin.kubeconfig"))...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	dir := filepath.Join("testdata", "chart")
	if out, err := c.try(t.Context(), helm("template", "shop", dir), "lint", "-"); err != nil {
		t.Errorf("helm template | mullion lint -: %v: %s", err, out)
	}
	helm("install", "shop", dir, "--wait", "--timeout", "4m")
	if got := c.kubectl(t, "logs", "-n", ns, "job/shop-warm-up"); !strings.Contains(got, "linux shop-front-") {
		t.Errorf("the hook on Windows got %q from the front end on Linux", got)
	}
	if out := helm("test", "shop", "--logs", "--timeout", "2m"); !strings.Contains(out, "hello from the chart") {
		t.Errorf("the test on Linux printed\n%s", out)
	}
	helm("upgrade", "shop", dir, "--wait", "--timeout", "4m", "--reuse-values", "--set", "greeting=hello again")
	c.kubectl(t, "delete", "pod", "-n", ns, "shop-test")
	if out := helm("test", "shop", "--logs", "--timeout", "2m"); !strings.Contains(out, "hello again") {
		t.Errorf("after the upgrade, the test printed\n%s", out)
	}
	helm("uninstall", "shop", "--wait", "--timeout", "2m")
	if left := c.kubectl(t, "get", "deployments,services,configmaps,serviceaccounts,poddisruptionbudgets", "-n", ns,
		"-o", "name", "-l", "app.kubernetes.io/instance=shop"); left != "" {
		t.Errorf("helm uninstall left %s", left)
	}
}
