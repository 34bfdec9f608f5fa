// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package controlplanetest runs a control plane for tests: the real program,
// bin/mullion-kube, without nodes, on a loopback port and in a temporary
// directory.
package controlplanetest

import (
	"encoding/json"
	"errors"
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

// stopLimit is above the 10 s after which the supervisor would kill the process.
const stopLimit = 15 * time.Second

// Server is a control plane under test. Its methods fail the test that it was
// made for.
type Server struct {
	Config config.Config // of the next start, once it is written
	File   string        // where the program reads it
	// Wrap is put before the command line; it must exec the program.
	Wrap []string
	Log  *testenv.Buffer // the program's output since its start

	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // of Wait; read after done
}

// New describes a control plane, without DNS and without a manager unless edit adds them.
func New(t testing.TB, edit func(*config.Config)) *Server {
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
	s := &Server{t: t, File: filepath.Join(dir, "server.json"), Config: config.Config{
		APIVersion:  config.Version,
		Name:        "test",
		DataDir:     filepath.Join(dir, "d"),
		Addresses:   []netip.Addr{netip.MustParseAddr("127.0.0.1")},
		Port:        FreePort(t),
		NodeCIDR:    netip.MustParsePrefix("10.89.0.0/24"),
		PodCIDR:     netip.MustParsePrefix("10.244.0.0/16"),
		ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
	}}
	if edit != nil {
		edit(&s.Config)
	}
	s.Config = s.Config.Default()
	s.Write()
	return s
}

// Run starts a control plane, waits until it is ready, and stops it in order
// when the test ends.
func Run(t testing.TB, edit func(*config.Config)) *Server {
	t.Helper()
	s := New(t, edit)
	s.Start()
	t.Cleanup(s.Stop)
	s.Ready()
	return s
}

// FreePort returns a TCP port of 127.0.0.1 that is not in use.
func FreePort(t testing.TB) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// Write writes Config to File.
func (s *Server) Write() {
	s.t.Helper()
	data, err := s.Config.Marshal()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.File, data, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Second is another program with the same configuration, for the test t.
func (s *Server) Second(t testing.TB) *Server {
	return &Server{t: t, Config: s.Config, File: s.File, Wrap: s.Wrap}
}

// Start runs the program and returns at once. The end of the test kills it if it still
// runs.
func (s *Server) Start() {
	s.t.Helper()
	argv := append(append([]string(nil), s.Wrap...), testenv.Bin("mullion-kube"), "server", "--config", s.File)
	log, cmd, done := &testenv.Buffer{}, exec.Command(argv[0], argv[1:]...), make(chan struct{})
	s.Log, s.cmd, s.done = log, cmd, done
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		s.err = cmd.Wait()
		close(done)
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-done
		if s.t.Failed() {
			s.t.Logf("log:\n%s", tail(log, 40))
		}
	})
}

// Tail returns the end of the program's output.
func (s *Server) Tail(lines int) string { return tail(s.Log, lines) }

func tail(log *testenv.Buffer, lines int) string {
	all := strings.Split(log.String(), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// PID returns the ID of the running process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Status reads the status of the running program; ok is false if there is no status yet.
func (s *Server) Status() (st config.Status, ok bool) {
	st, err := config.ReadStatus(s.Config.StatusFile())
	return st, err == nil && st.PID == s.PID()
}

// until waits for a condition, and fails if the program ends before.
func (s *Server) until(what string, cond func() bool) {
	s.t.Helper()
	deadline := time.After(startLimit)
	for !cond() {
		select {
		case <-s.done:
			s.t.Fatalf("%s: the server ended: %v\n%s", what, s.err, s.Tail(20))
		case <-deadline:
			st, _ := s.Status()
			text, _ := json.Marshal(st) // for the message only
			s.t.Fatalf("%s: not within %s\n%s", what, startLimit, text)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Ready waits until all parts work.
func (s *Server) Ready() {
	s.t.Helper()
	s.until("ready", func() bool { st, ok := s.Status(); return ok && st.Ready })
}

// Component waits for a state of one part.
func (s *Server) Component(name, state string) {
	s.t.Helper()
	s.until(name+" "+state, func() bool {
		st, ok := s.Status()
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

// Signal sends the running program a signal.
func (s *Server) Signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("send the server %s: %v", sig, err)
	}
}

// Kill is kill -9.
func (s *Server) Kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatal(err)
	}
	<-s.done
}

// Stop is an orderly stop of a program that runs.
func (s *Server) Stop() {
	s.t.Helper()
	s.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(stopLimit):
		s.t.Fatalf("still running %s after SIGTERM", stopLimit)
	}
	if s.err != nil {
		s.t.Errorf("after SIGTERM: %v", s.err)
	}
}

// Exit waits for the program to end by itself and returns its exit code.
func (s *Server) Exit() int {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(startLimit):
		s.t.Fatal("still running")
	}
	return s.cmd.ProcessState.ExitCode()
}

// REST returns the administrator's client configuration, without a rate limit.
func (s *Server) REST() *rest.Config {
	s.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", s.Config.AdminKubeconfig())
	if err != nil {
		s.t.Fatal(err)
	}
	cfg.QPS = -1
	return cfg
}

// Admin returns a client of the administrator.
func (s *Server) Admin() *kubernetes.Clientset { return Client(s.t, s.REST()) }

// Client makes one that works without a limit of requests.
func Client(t testing.TB, cfg *rest.Config) *kubernetes.Clientset {
	t.Helper()
	cfg.QPS = -1
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
