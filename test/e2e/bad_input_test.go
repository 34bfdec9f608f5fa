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

// TestBadInput: each mistake gets its exit code, one clear line and a hint,
// and leaves nothing half-made.
func TestBadInput(t *testing.T) {
	testenv.Need(t, testenv.Built, testenv.Root)
	dir := t.TempDir()
	broken := filepath.Join(dir, "clusters", "broken")
	if err := os.MkdirAll(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "cluster.json"), []byte(`{"apiVersion":"mulli`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"unknown build", []string{"up", "--windows", "2019,xp"}, 2, []string{`"xp"`, "2022"}},
		{"unknown build, dry run", []string{"up", "--dry-run", "--windows", "xp"}, 2, []string{`"xp"`}},
		{"bad name", []string{"up", "--name", "../x"}, 2, []string{"cluster name", "hint"}},
		{"taint of no system", []string{"up", "--windows-taint", "pool=x:NoSchedule"}, 2,
			[]string{"does not name Windows", "os=windows:NoSchedule"}},
		{"unknown flag", []string{"up", "--window", "2019"}, 2, []string{"--window", "hint: see 'mullion up --help'"}},
		{"unknown command", []string{"upp"}, 2, []string{`"upp"`, `did you mean "up"`}},
		{"cut-off cluster.json", []string{"up", "--name", "broken"}, 1, []string{"cluster.json", "unexpected EOF"}},
		{"beside a cluster that cannot be read", []string{"up", "--dry-run"}, 2,
			[]string{"cluster.json", "mullion down --name broken --purge"}},
		{"no such cluster", []string{"status", "--name", "nope"}, 1,
			[]string{"no such cluster", "mullion up --name nope"}},
		{"no such archive", []string{"load", "nope.tar", "--name", "nope"}, 1, []string{"no such cluster"}},
		{"bad output format", []string{"status", "-o", "xml"}, 2, []string{"text or json"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := exec.Command(testenv.Bin("mullion"), tc.args...)
			cmd.Env = append(os.Environ(), "MULLION_DATA="+dir)
			out, err := cmd.CombinedOutput()
			if err == nil || cmd.ProcessState.ExitCode() != tc.code {
				t.Errorf("exit code %d, want %d: %s", cmd.ProcessState.ExitCode(), tc.code, out)
			}
			for _, w := range tc.want {
				if !strings.Contains(string(out), w) {
					t.Errorf("output %q lacks %q", out, w)
				}
			}
			if strings.Contains(string(out), "panic") || strings.Contains(string(out), "goroutine ") {
				t.Errorf("a panic reached the user: %s", out)
			}
		})
	}
}

// TestPurgeOfABrokenCluster: what cannot be read can still be removed.
func TestPurgeOfABrokenCluster(t *testing.T) {
	testenv.Need(t, testenv.Built, testenv.Root)
	dir := t.TempDir()
	broken := filepath.Join(dir, "clusters", "broken")
	if err := os.MkdirAll(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "cluster.json"), []byte(`{"apiVersion":"mulli`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(testenv.Bin("mullion"), "down", "--name", "broken", "--data-dir", dir,
		"--purge").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(broken); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
}

// TestBusyPort: a port that is taken is named.
func TestBusyPort(t *testing.T) {
	testenv.Need(t, testenv.Built, testenv.Root, testenv.Wine, testenv.Runc, testenv.Nft)
	dir := t.TempDir()
	run := func(args ...string) (string, error) {
		cmd := exec.Command(testenv.Bin("mullion"), args...)
		cmd.Env = append(os.Environ(), "MULLION_DATA="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	// The 31st cluster's port. It may be busy already.
	l, err := net.Listen("tcp", "127.0.0.1:6473")
	if err == nil {
		defer l.Close()
	} else if !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "clusters", "busy"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := `{"apiVersion":"mullion/v1alpha1","name":"busy","index":30,"windows":["2019"]}`
	if err := os.WriteFile(filepath.Join(dir, "clusters", "busy", "cluster.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run("up", "--name", "busy", "--wait", "15s")
	if err == nil || !strings.Contains(out, "listen on 127.0.0.1:6473: another program uses this port") {
		t.Errorf("up with a busy port: %v: %s; want the reason", err, out)
	}
	if out, err := run("down", "--name", "busy", "--purge"); err != nil {
		t.Errorf("down: %v: %s", err, out)
	}
}
