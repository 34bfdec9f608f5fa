// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestInstallStorage adds the default StorageClass to a cluster that was made without mullion's manager, as
// docs/user/storage.md says: pods of examples/statefulset.yaml get their volumes and run.
func TestInstallStorage(t *testing.T) {
	t.Parallel()
	dir := ownCluster(t)
	s := single{t: t, name: "installed", dataDir: dir}
	s.removeAfter()
	work := t.TempDir()
	const image = "mullion/mullion:test"
	archive, kubeconfig := filepath.Join(work, "image.tar"), filepath.Join(work, "kubeconfig")
	cmd := exec.Command("go", "run", "./tools/image", "-o", archive, "-t", image, "linux/amd64="+testenv.Bin("mullion"))
	cmd.Dir = testenv.Repo()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, out)
	}
	s.mullion("up", "--windows", "2019", "--linux", "1", "--no-admission")
	s.mullion("load", archive)
	if err := os.WriteFile(kubeconfig, []byte(s.mullion("kubeconfig")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), testenv.Bin("mullion"), "install", "--storage", "--replicas", "1", "--image",
		image, "--kubeconfig", kubeconfig)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("install: %v: %s", err, out)
	}
	s.mullion("kubectl", "apply", "-f", testenv.Repo("examples", "statefulset.yaml"))
	s.mullion("kubectl", "rollout", "status", "statefulset/diary", "--timeout=180s")
	got := s.mullion("kubectl", "get", "pvc", "-o",
		"jsonpath={range .items[*]}{.metadata.name} {.status.phase} {.spec.storageClassName},{end}")
	if want := "diary-diary-0 Bound mullion-local,diary-diary-1 Bound mullion-local,"; got != want {
		t.Errorf("the claims are %q, want %q", got, want)
	}
	if got := s.mullion("kubectl", "exec", "diary-1", "--", "cmd", "/c", `type C:\diary\starts.txt`); strings.TrimSpace(
		got) != "DIARY-1" {
		t.Errorf("the volume has %q", got)
	}
}
