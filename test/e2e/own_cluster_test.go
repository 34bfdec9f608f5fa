// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// ownCluster returns the directory of clusters for a test that starts some. Each has a name and an index that no other
// cluster of the tests has, because it may run beside them.
func ownCluster(t *testing.T) string {
	t.Helper()
	declare(t, "own")
	return dataDir(t)
}

// single is a cluster of one test's own, beside the package's.
type single struct {
	t       *testing.T
	name    string
	dataDir string
	index   int
}

// newSingle pins the cluster's addresses, because clusters of other data
// directories do not know of each other. Whatever the test leaves is removed.
func newSingle(t *testing.T, name, dataDir string, index int) single {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Wine, testenv.Runc, testenv.Nft, testenv.Built)
	s := single{t, name, dataDir, index}
	dir := s.dir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	doc := fmt.Sprintf(`{"apiVersion":"mullion/v1alpha1","name":%q,"index":%d,"windows":["2019"]}`, name, index)
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	s.removeAfter()
	return s
}

// removeAfter removes the cluster when the test ends, and shows what a person would look at first if it has failed.
func (s single) removeAfter() {
	t := s.t
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			// as far as it can be had
			out, _ := s.command(context.Background(), "kubectl", "get", "pods,events", "-A").CombinedOutput()
			t.Logf("%s", out)
		}
		if out, err := s.command(context.Background(), "down", "--purge").CombinedOutput(); err != nil {
			t.Errorf("down --purge: %v: %s", err, out)
		}
	})
}

func (s single) command(ctx context.Context, args ...string) *exec.Cmd {
	// kubectl's own flags follow ours.
	argv := append([]string{args[0], "--name", s.name, "--data-dir", s.dataDir}, args[1:]...)
	if args[0] == "up" {
		argv = append(argv, "--kubeconfig", "none") // not the user's
	}
	return exec.CommandContext(ctx, testenv.Bin("mullion"), argv...)
}

// mullion runs a command that must succeed.
func (s single) mullion(args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 4*time.Minute)
	defer cancel()
	out, err := s.command(ctx, args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("mullion %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// dir is the cluster's directory, whose path occurs in all of its processes and
// mounts.
func (s single) dir() string { return filepath.Join(s.dataDir, "clusters", s.name) }

func (s single) traces() traces { return tracesOf(s.t, s.dataDir, s.name, s.index) }
