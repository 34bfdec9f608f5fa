// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package admission_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/manager"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// limit is far above anything that is waited for here, on a machine that does
// other work too.
const limit = 60 * time.Second

// cluster is an API server with its controllers and no nodes but those that a
// test makes up: nothing runs a pod here.
type cluster struct {
	t   testing.TB
	cfg config.Config
	log *testenv.Buffer
}

// startCluster starts bin/mullion-kube without webhooks of its own.
func startCluster(t testing.TB) *cluster {
	t.Helper()
	testenv.Need(t, testenv.Built)
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go reports each cut connection
	// Not t.TempDir: the test's name would make the socket's path too long.
	dir, err := os.MkdirTemp("", "mullion-adm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	c := &cluster{t: t, log: &testenv.Buffer{}, cfg: config.Config{
		APIVersion: config.Version, Name: "test", DataDir: filepath.Join(dir, "d"),
		Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Port: freePort(t),
		NodeCIDR: netip.MustParsePrefix("10.89.0.0/24"), PodCIDR: netip.MustParsePrefix("10.244.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
	}}
	c.cfg = c.cfg.Default()
	data, err := c.cfg.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "server.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testenv.Bin("mullion-kube"), "server", "--config", file)
	cmd.Stdout, cmd.Stderr = c.log, c.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is seen in the log
		close(done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-done:
		case <-time.After(15 * time.Second):
			_ = cmd.Process.Kill()
			<-done
		}
		if t.Failed() {
			var lines []string
			for line := range strings.Lines(c.log.String()) {
				if !strings.Contains(line, "level=INFO") && !strings.Contains(line, "level=DEBUG") {
					lines = append(lines, line)
				}
			}
			t.Logf("log of control plane and manager:\n%s", strings.Join(lines[max(0, len(lines)-40):], ""))
		}
	})
	eventually(t, "the control plane is ready", func() bool {
		select {
		case <-done:
			t.Fatalf("the control plane ended:\n%s", c.log)
		default:
		}
		st, err := config.ReadStatus(c.cfg.StatusFile())
		return err == nil && st.PID == cmd.Process.Pid && st.Ready
	})
	// Whoever brings a manager into a cluster brings the definition along.
	c.must("", nil, "apply", "--server-side", "-f", testenv.Repo("internal", "admission", "gmsa", "gmsacredentialspecs.yaml"))
	return c
}

func freePort(t testing.TB) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !so() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// rest is the administrator's.
func (c *cluster) rest() *rest.Config {
	c.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", c.cfg.AdminKubeconfig())
	if err != nil {
		c.t.Fatal(err)
	}
	cfg.QPS = -1
	return cfg
}

func (c *cluster) client() *kubernetes.Clientset {
	c.t.Helper()
	out, err := kubernetes.NewForConfig(c.rest())
	if err != nil {
		c.t.Fatal(err)
	}
	return out
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
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.cfg.AdminKubeconfig(), "HOME="+filepath.Dir(c.cfg.DataDir))
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
		REST: c.rest(), Listener: l, URL: "https://" + l.Addr().String(),
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
	eventually(c.t, "the manager is ready", func() bool { err = m.Ready(c.t.Context()); return err == nil })
	eventually(c.t, "the API server asks the webhooks", func() bool {
		out, err := c.client().CoreV1().Pods("default").Create(c.t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "probe"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "mcr.microsoft.com/windows/nanoserver:ltsc2022"}}},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && out.Spec.NodeSelector["kubernetes.io/os"] == "windows"
	})
}
