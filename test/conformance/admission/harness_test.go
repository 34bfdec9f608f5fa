// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package admission_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/manager"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// cluster is an API server with its controllers and no nodes but those that a
// test makes up: nothing runs a pod here.
type cluster struct {
	*controlplanetest.Server
	t   testing.TB
	log *testenv.Buffer // of managers that the test starts
}

// startCluster starts bin/mullion-kube without webhooks of its own.
func startCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{t: t, log: &testenv.Buffer{}, Server: controlplanetest.Run(t, nil)}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		var lines []string
		for line := range strings.Lines(c.log.String()) {
			if !strings.Contains(line, "level=INFO") && !strings.Contains(line, "level=DEBUG") {
				lines = append(lines, line)
			}
		}
		t.Logf("log of the manager:\n%s", strings.Join(lines[max(0, len(lines)-40):], ""))
	})
	// Every installation of a manager includes the definition.
	c.must("", nil, "apply", "--server-side", "-f",
		testenv.Repo("internal", "manager", "inventory", "gmsacredentialspecs.yaml"))
	return c
}

// kubectl runs it as the administrator and returns what both streams say.
func (c *cluster) kubectl(stdin string, args ...string) (string, int) {
	c.t.Helper()
	stdout, stderr, code := c.run(stdin, args...)
	return stderr + stdout, code
}

func (c *cluster) run(stdin string, args ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	cmd := exec.Command(testenv.Bin("mullion-kube"), append([]string{"kubectl"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Config.AdminKubeconfig(), "HOME="+filepath.Dir(c.Config.DataDir))
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		c.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must is kubectl that works; its output is read as JSON into out unless that is
// nil.
func (c *cluster) must(stdin string, out any, args ...string) string {
	c.t.Helper()
	stdout, stderr, code := c.run(stdin, args...)
	if code != 0 {
		c.t.Fatalf("kubectl %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(stdout), out); err != nil {
			c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, stdout)
		}
	}
	return stdout
}

// startManager runs a manager in this process until the test ends, or stop is
// called.
func (c *cluster) startManager(edit func(*manager.Config)) (m *manager.Manager, stop func()) {
	c.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	cfg := manager.Config{
		REST: c.REST(), Listener: l, URL: "https://" + l.Addr().String(),
		Log: slog.New(slog.NewTextHandler(c.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if edit != nil {
		edit(&cfg)
	}
	if m, err = manager.New(cfg); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				c.t.Errorf("manager: %v", err)
			}
		})
	}
	c.t.Cleanup(stop)
	return m, stop
}

// ready waits until the API server asks the webhooks: it learns of their
// registration a moment after it was written.
func (c *cluster) ready(m *manager.Manager) {
	c.t.Helper()
	var err error
	defer func() {
		if err != nil {
			c.t.Logf("manager: %v", err)
		}
	}()
	testenv.Until(c.t, "the manager is ready", func() bool { err = m.Ready(c.t.Context()); return err == nil })
	testenv.Until(c.t, "the API server asks the webhooks", func() bool {
		out, err := c.Admin().CoreV1().Pods("default").Create(c.t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "probe"},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "mcr.microsoft.com/windows/nanoserver:ltsc2022"}}},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && out.Spec.NodeSelector["kubernetes.io/os"] == "windows"
	})
}
