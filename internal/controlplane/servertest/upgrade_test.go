// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// restoreOld restores the cluster of the first version of mullion's data directory
// and returns its directory.
func restoreOld(t *testing.T) string {
	t.Helper()
	testenv.Need(t, testenv.Built)
	f, err := os.Open(filepath.Join("..", "..", "cluster", "testdata", "backup-v1.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: the test's name would make the socket's path too long.
	dir, err := os.MkdirTemp("", "mullion-old-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.Command(testenv.Bin("mullion"), "restore", "--data-dir", dir, "-")
	cmd.Stdin = r
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "clusters", "old")
}

// TestUpgrade starts the control plane of a cluster of an earlier version of mullion
// and finds its objects.
func TestUpgrade(t *testing.T) {
	dir := restoreOld(t)
	s := controlplanetest.New(t, func(c *config.Config) { c.Name, c.DataDir = "old", dir })
	s.Start()
	s.Ready()
	core := s.Admin().CoreV1()
	secret, err := core.Secrets("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil || string(secret.Data["password"]) != "correct-horse" {
		t.Errorf("secret: %v, %v", secret, err)
	}
	cm, err := core.ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil || cm.Data["key"] != "value" {
		t.Errorf("config map: %v, %v", cm, err)
	}
	if node, err := core.Nodes().Get(t.Context(), "win-1", metav1.GetOptions{}); err != nil ||
		!strings.HasPrefix(node.Status.NodeInfo.OSImage, "Windows Server 2022") {
		t.Errorf("node: %v, %v", node, err)
	}
	s.Stop()
}
