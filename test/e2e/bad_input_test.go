// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestBrokenCluster: a cluster.json that cannot be read is named, and the cluster
// can still be removed. (cmd/mullion/testdata/script has the mistakes that need
// neither root nor the programs of a cluster.)
func TestBrokenCluster(t *testing.T) {
	t.Parallel()
	ownCluster(t)
	dir := t.TempDir()
	broken := filepath.Join(dir, "clusters", "broken")
	if err := os.MkdirAll(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "cluster.json"), []byte(`{"apiVersion":"mulli`), 0o600); err != nil {
		t.Fatal(err)
	}
	up := exec.Command(testenv.Bin("mullion"), "up", "--name", "broken", "--data-dir", dir)
	out, err := up.CombinedOutput()
	if err == nil || up.ProcessState.ExitCode() != 1 {
		t.Errorf("exit code %d, want 1: %s", up.ProcessState.ExitCode(), out)
	}
	for _, want := range []string{"cluster.json: unexpected EOF", "mullion down --name broken --purge"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("output %q lacks %q", out, want)
		}
	}
	down := exec.Command(testenv.Bin("mullion"), "down", "--name", "broken", "--data-dir", dir, "--purge")
	if out, err := down.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, path := range []string{broken, "/run/mullion/claims/cluster-broken.lock"} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}

// TestBusyPort: a port that is taken is named.
func TestBusyPort(t *testing.T) {
	t.Parallel()
	dir := ownCluster(t)
	run := func(args ...string) (string, error) {
		cmd := exec.Command(testenv.Bin("mullion"), args...)
		cmd.Env = append(os.Environ(), "MULLION_DATA="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	// The port of the cluster with this index. It may be busy already.
	l, err := net.Listen("tcp", "127.0.0.1:6478")
	if err == nil {
		defer l.Close()
	} else if !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "clusters", "busy"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := `{"apiVersion":"mullion/v1alpha1","name":"busy","index":35,"windows":["2019"]}`
	if err := os.WriteFile(filepath.Join(dir, "clusters", "busy", "cluster.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run("up", "--name", "busy", "--wait", "15s", "--kubeconfig", "none")
	if err == nil || !strings.Contains(out, "listen on 127.0.0.1:6478: another program uses this port") {
		t.Errorf("up with a busy port: %v: %s; want the reason", err, out)
	}
	if out, err := run("down", "--name", "busy", "--purge"); err != nil {
		t.Errorf("down: %v: %s", err, out)
	}
}
