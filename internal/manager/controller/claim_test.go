// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controller_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/manager/controller/runtimeclass"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestGuideRuntimeClass gives the guide's RuntimeClass to a cluster that has
// one of the same name, with another handler: ours.
func TestGuideRuntimeClass(t *testing.T) {
	c := newCluster(t, true)
	c.join("a", "windows", "10.0.17763.7919")
	c.class("windows-2019")
	guide := filepath.Join("runtimeclass", "testdata", "guide.yaml")

	// As the guide has it. The webhooks may have been registered a moment ago.
	testenv.Eventually(c.t, "kubectl create", func() error { return c.kubectl("create", "-f", guide) })
	c.users("example-container-runtime-handler")
	// A node's change would make the controller write, were the class still ours.
	c.join("b", "windows", "10.0.17763.7919")
	c.join("c", "windows", "10.0.20348.1")
	c.class("windows-2022")
	c.users("example-container-runtime-handler")

	if err := c.kubectl("delete", "-f", guide); err != nil {
		t.Fatal(err)
	}
	c.class("windows-2019") // ours again
	for range 2 {           // what is applied may be applied again
		if err := c.kubectl("apply", "-f", guide); err != nil {
			t.Fatal(err)
		}
		c.users(runtimeclass.Handler)
	}
}

func (c *cluster) kubectl(args ...string) error {
	args = append([]string{"kubectl", "--kubeconfig", c.server.Config.AdminKubeconfig()}, args...)
	out, err := exec.CommandContext(c.t.Context(), testenv.Bin("mullion-kube"), args...).CombinedOutput()
	c.t.Logf("%s\n%s", args[3:], out)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// users waits until windows-2019 is as the guide has it, with a handler.
func (c *cluster) users(handler string) {
	c.t.Helper()
	testenv.Eventually(c.t, "the user's class", func() error {
		rc, err := c.client.NodeV1().RuntimeClasses().Get(c.t.Context(), "windows-2019", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if rc.Handler != handler || len(rc.Labels) != 0 ||
			rc.Scheduling.NodeSelector["kubernetes.io/arch"] != "amd64" || len(rc.Scheduling.Tolerations) != 1 {
			return errors.New(rc.String())
		}
		return nil
	})
}
