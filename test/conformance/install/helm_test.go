// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/install"
	"github.com/mullion-k8s/mullion/internal/manager/controller/windowsnode"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// helm runs Helm itself on the chart, as docs/user/install.md says.
func (c *cluster) helm(args ...string) {
	c.t.Helper()
	cmd := exec.Command(testenv.Bin("peers", "helm"), append(args, "--namespace", install.DefaultNamespace,
		"--kubeconfig", c.kubeconfig)...)
	cmd.Env = []string{"HOME=" + c.dir, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestHelm follows a release from installation to removal, and checks that only
// the documented objects remain.
func TestHelm(t *testing.T) {
	c := newCluster(t)
	c.prepare()
	c.kubelet()
	ctx := t.Context()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: install.DefaultNamespace,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.eventually("the namespace's own objects", func() error {
		if _, err := c.client.CoreV1().ServiceAccounts(namespace.Name).Get(ctx, "default",
			metav1.GetOptions{}); err != nil {
			return err
		}
		_, err := c.client.CoreV1().ConfigMaps(namespace.Name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	before := c.snapshot()

	chart := testenv.Repo("charts", "mullion")
	release := func(command string, values ...string) *running {
		t.Helper()
		args := []string{command, "mullion", chart, "--set", "image=" + image, "--set", "replicas=1"}
		for _, v := range values {
			args = append(args, "--set", v)
		}
		c.helm(args...)
		if command == "install" {
			c.dns()
		}
		return c.manager()
	}
	managers := []*running{release("install")}
	c.placement()
	c.refusals(false)
	c.nodes()

	// What Helm installed is Helm's.
	for _, command := range [][]string{{"install", "--image", image}, {"uninstall"}} {
		if code, errs := c.mullion(ctx, command...); code != 1 || !strings.Contains(errs, "Helm") {
			t.Errorf("mullion %s: exit code %d\n%s", command[0], code, errs)
		}
	}
	for _, step := range []struct {
		values  []string
		tainted bool
	}{
		{[]string{"rulesFailurePolicy=Fail", "admission=enforce", "windowsTaint=os=windows:NoSchedule"}, true},
		{nil, false},
	} {
		managers[len(managers)-1].end(syscall.SIGTERM)
		managers = append(managers, release("upgrade", step.values...))
		c.eventually("the taints", func() error { return c.tainted(ctx, step.tainted) })
		c.refusals(step.tainted)
	}
	c.placement()
	for _, m := range managers {
		if text := lacks(m.program); text != "" {
			t.Errorf("a manager lacked rights:\n%s", text)
		}
	}

	c.helm("uninstall", "mullion")
	managers[len(managers)-1].end(syscall.SIGTERM)
	kept := []string{
		"+ customresourcedefinitions.apiextensions.k8s.io /gmsacredentialspecs.windows.k8s.io",
		// of the definition
		"+ apiservices.apiregistration.k8s.io /v1.windows.k8s.io",
		"+ apiservices.apiregistration.k8s.io /v1alpha1.windows.k8s.io", "+ runtimeclasses.node.k8s.io /windows-2019",
		"+ runtimeclasses.node.k8s.io /windows-2022",
	}
	c.eventually("nothing but what the manual names is left", func() error {
		var left []string
		for line := range strings.SplitSeq(difference(before, c.snapshot()), "\n") {
			if line != "" && !slices.Contains(kept, line) {
				left = append(left, line)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%s", strings.Join(left, "\n"))
		}
		return nil
	})
}

// tainted returns an error if the taints of the Windows nodes are not as wanted.
func (c *cluster) tainted(ctx context.Context, want bool) error {
	for _, name := range []string{"win-2019", "win-2022"} {
		n, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if has := len(n.Spec.Taints) == 1 && n.Annotations[windowsnode.TaintAnnotation] != ""; has != want {
			return fmt.Errorf("%s has %+v", name, n.Spec.Taints)
		}
	}
	return nil
}
