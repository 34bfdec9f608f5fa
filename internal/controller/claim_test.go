// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/controller/runtimeclass"
	"github.com/mullion-k8s/mullion/internal/manager"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestGuideRuntimeClass applies the guide's RuntimeClass where ours of the same
// name, with another handler, is there already.
func TestGuideRuntimeClass(t *testing.T) {
	c := newCluster(t)
	ctx, cancel := context.WithCancel(context.Background())
	listen := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	ended := make(chan error, 1)
	go func() {
		ended <- manager.Run(ctx, manager.Config{REST: c.rest, Listen: listen, URL: "https://" + listen, Log: slog.New(slog.DiscardHandler)})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	c.join("a", "windows", "10.0.17763.7919")
	c.class("windows-2019")
	guide := filepath.Join("runtimeclass", "testdata", "guide.yaml")
	// The webhooks are registered when they answer.
	c.eventually("kubectl apply", func() error {
		out, err := exec.CommandContext(ctx, testenv.Bin("mullion-kube"), "kubectl", "--kubeconfig", c.cfg.AdminKubeconfig(), "apply", "-f", guide).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		t.Logf("%s", out)
		return nil
	})
	c.eventually("the class is the user's", func() error {
		rc, err := c.client.NodeV1().RuntimeClasses().Get(ctx, "windows-2019", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if rc.Handler != runtimeclass.Handler || len(rc.Labels) != 0 || rc.Scheduling.NodeSelector["kubernetes.io/arch"] != "amd64" || len(rc.Scheduling.Tolerations) != 1 {
			return errors.New(rc.String())
		}
		return nil
	})
}
