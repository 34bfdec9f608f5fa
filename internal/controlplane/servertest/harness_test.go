// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package servertest_test tests the control plane as a program: it starts
// bin/mullion-kube, uses it, kills it at bad moments and looks at what is left.
package servertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// startLimit is far above any start on a machine that does other work, too.
const startLimit = 2 * time.Minute

// server is a control plane under test.
type server struct {
	t    testing.TB
	cfg  config.Config
	file string
	// wrap is put before the command line.
	wrap []string

	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // of Wait; read after done
	log  *testenv.Buffer
}

// newServer describes a control plane on a loopback port, without DNS.
func newServer(t testing.TB, edit func(*config.Config)) *server {
	t.Helper()
	testenv.Need(t, testenv.Built)
	// client-go reports each connection that a kill cuts.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	// Not t.TempDir: the test's name would make the socket's path too long.
	dir, err := os.MkdirTemp("", "mullion-cp-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s := &server{t: t, file: filepath.Join(dir, "server.json"), cfg: config.Config{
		APIVersion: config.Version, Name: "test", DataDir: filepath.Join(dir, "d"),
		Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Port: freePort(t),
		NodeCIDR: netip.MustParsePrefix("10.89.0.0/24"), PodCIDR: netip.MustParsePrefix("10.244.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
	}}
	if edit != nil {
		edit(&s.cfg)
	}
	s.cfg = s.cfg.Default()
	data, err := s.cfg.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
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

// start runs the program and returns at once.
func (s *server) start() {
	s.t.Helper()
	argv := append(append([]string(nil), s.wrap...), testenv.Bin("mullion-kube"), "server", "--config", s.file)
	s.log = &testenv.Buffer{}
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.done = make(chan struct{})
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	cmd, done := s.cmd, s.done
	go func() {
		s.err = cmd.Wait()
		close(done)
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-done
		if s.t.Failed() {
			s.t.Logf("log:\n%s", tail(s.log.String(), 40))
		}
	})
}

func tail(s string, lines int) string {
	all := strings.Split(s, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// status reads what the running process reports; ok is false before it does.
func (s *server) status() (st config.Status, ok bool) {
	st, err := config.ReadStatus(s.cfg.StatusFile())
	return st, err == nil && st.PID == s.cmd.Process.Pid
}

// until waits for a condition, and fails if the program ends before.
func (s *server) until(what string, cond func() bool) {
	s.t.Helper()
	deadline := time.After(startLimit)
	for !cond() {
		select {
		case <-s.done:
			s.t.Fatalf("%s: the server ended: %v\n%s", what, s.err, tail(s.log.String(), 20))
		case <-deadline:
			st, _ := s.status()
			text, _ := json.Marshal(st) // for the message only
			s.t.Fatalf("%s: not within %s\n%s", what, startLimit, text)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *server) ready() {
	s.t.Helper()
	s.until("ready", func() bool { st, ok := s.status(); return ok && st.Ready })
}

// component waits for a state of one part.
func (s *server) component(name, state string) {
	s.t.Helper()
	s.until(name+" "+state, func() bool {
		st, ok := s.status()
		if !ok {
			return false
		}
		for _, c := range st.Components {
			if c.Name == name {
				return c.State == state
			}
		}
		return false
	})
}

// kill is kill -9.
func (s *server) kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatal(err)
	}
	<-s.done
}

// stop is an orderly stop; the promise is 10 s.
func (s *server) stop() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.done:
	case <-time.After(15 * time.Second):
		s.t.Fatal("still running 15 s after SIGTERM")
	}
	if s.err != nil {
		s.t.Errorf("after SIGTERM: %v", s.err)
	}
}

// exit waits for the program to end by itself and returns its exit code.
func (s *server) exit() int {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(startLimit):
		s.t.Fatal("still running")
	}
	return s.cmd.ProcessState.ExitCode()
}

// admin is a client with the administrator's kubeconfig.
func (s *server) admin() *kubernetes.Clientset {
	s.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", s.cfg.AdminKubeconfig())
	if err != nil {
		s.t.Fatal(err)
	}
	return client(s.t, cfg)
}

func client(t testing.TB, cfg *rest.Config) *kubernetes.Clientset {
	t.Helper()
	cfg.QPS = -1
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually asks until there is no error.
func eventually(ctx context.Context, t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(fmt.Errorf("%s: %w", what, err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
