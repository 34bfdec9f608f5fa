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

// backupPod reads a Secret, which is encrypted at rest.
const backupPod = `
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {password: correct-horse}
---
apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: app
    image: mcr.microsoft.com/windows/servercore:ltsc2019
    command: [powershell, -c, "while (1) { Start-Sleep 60 }"]
    env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: login, key: password}}}]
`

// TestBackup backs a cluster up while a pod runs, changes it, removes it, brings
// it back, and damages it.
func TestBackup(t *testing.T) {
	t.Parallel()
	dir := ownCluster(t)
	const cluster = "e2e-backup"
	file := filepath.Join(t.TempDir(), "backup.tar")
	try := func(stdin string, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, testenv.Bin("mullion"), args...)
		cmd.Stdin = strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "MULLION_DATA="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	run := func(stdin string, args ...string) string {
		t.Helper()
		out, err := try(stdin, args...)
		if err != nil {
			t.Fatalf("mullion %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return out
	}
	kubectl := func(args ...string) string {
		t.Helper()
		return run(backupPod, append([]string{"kubectl", "--name", cluster}, args...)...)
	}
	t.Cleanup(func() { purge(t, cluster, dir) })
	works := func() {
		t.Helper()
		// That the pod is Ready may be an old report of a host that is gone.
		eventually(t, 2*time.Minute, "the pod works", func() error {
			out, err := try("", "kubectl", "--name", cluster, "exec", "app", "--", "cmd", "/c", "echo %PASSWORD%")
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			if strings.TrimSpace(out) != "correct-horse" {
				return fmt.Errorf("it printed %q", out)
			}
			return nil
		})
	}
	run("", "up", "--name", cluster, "--windows", "2019")
	kubectl("apply", "-f", "-")
	works()
	run("", "backup", "--name", cluster, file)
	if st, err := os.Stat(file); err != nil || st.Mode() != 0o600 {
		t.Errorf("backup: %v, %v", st, err)
	}
	kubectl("create", "configmap", "later")
	kubectl("delete", "pod", "app")
	if out, err := try("", "restore", file); err == nil || !strings.Contains(out, "exists already") {
		t.Errorf("restore over a running cluster: %v, %s", err, out)
	}
	run("", "down", "--purge", "--name", cluster)

	run("", "restore", file)
	run("", "up", "--name", cluster)
	works()
	if out := kubectl("get", "configmap", "-o", "name"); strings.Contains(out, "later") {
		t.Errorf("after the backup nothing was made: %s", out)
	}

	// It is damaged now: up does not wait.
	run("", "down", "--name", cluster)
	db := filepath.Join(dir, "clusters", cluster, "etcd", "member", "snap", "db")
	if err := os.WriteFile(db, []byte(strings.Repeat("x", 1<<16)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := try("", "up", "--name", cluster)
	if err == nil || !strings.Contains(out, "server cannot run: ") || !strings.Contains(out, db+" is damaged") ||
		!strings.Contains(out, "mullion restore FILE") {
		t.Errorf("up with a damaged datastore: %v, %s", err, out)
	}
	if out, err := try("", "status", "--name", cluster); err == nil || !strings.Contains(out, "is down") {
		t.Errorf("afterwards: %v, %s", err, out)
	}
}

// purge removes a cluster.
func purge(t *testing.T, cluster, dir string) {
	out, err := exec.Command(testenv.Bin("mullion"), "down", "--purge", "--name", cluster, "--data-dir",
		dir).CombinedOutput()
	if err != nil {
		t.Errorf("down: %v: %s", err, out)
	}
}
