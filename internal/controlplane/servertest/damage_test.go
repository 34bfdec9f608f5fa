// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// half truncates a file, as a power cut on a bad disk may.
func half(t *testing.T, path string) {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, st.Size()/2); err != nil {
		t.Fatal(err)
	}
}

// TestHalfWrittenKeys damages key material between two starts.
func TestHalfWrittenKeys(t *testing.T) {
	s := newServer(t, nil)
	s.start()
	s.component(plan.Etcd, string(supervise.Ready)) // the keys are in use
	s.kill()
	// What can be made anew is.
	for _, name := range []string{"kube-apiserver.pem", "admin.pem", "etcd-ca.key", "service-account.pub"} {
		half(t, filepath.Join(s.cfg.PKI(), name))
	}
	half(t, s.cfg.AdminKubeconfig())
	s.start()
	s.component(plan.APIServer, string(supervise.Ready))
	if _, err := s.admin().Discovery().ServerVersion(); err == nil {
		t.Log("the administrator's kubeconfig is whole again")
	}
	s.kill()
	// What cannot is named.
	for _, name := range []string{"cluster-ca.key", "encryption.json"} {
		path := filepath.Join(s.cfg.PKI(), name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		half(t, path)
		s.start()
		if code := s.exit(); code != 1 || !strings.Contains(s.log.String(), "restore the file from a backup") {
			t.Errorf("%s: exit code %d\n%s", name, code, s.log)
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBadEnvironment: what the user can mend is said, with exit code 3.
func TestBadEnvironment(t *testing.T) {
	t.Run("port in use", func(t *testing.T) {
		s := newServer(t, nil)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s.setPort(uint16(l.Addr().(*net.TCPAddr).Port))
		s.start()
		if code := s.exit(); code != 3 || !strings.Contains(s.log.String(), "another program uses this port") {
			t.Errorf("exit code %d\n%s", code, tail(s.log.String(), 5))
		}
	})
	t.Run("bad configuration", func(t *testing.T) {
		s := newServer(t, nil)
		if err := os.WriteFile(s.file, []byte(`{"apiVersion": "mullion/v1alpha1", "nmae": "x"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		s.start()
		if code := s.exit(); code != 2 || !strings.Contains(s.log.String(), `unknown field "nmae"`) {
			t.Errorf("exit code %d\n%s", code, s.log)
		}
	})
	t.Run("corrupt datastore", func(t *testing.T) {
		s := newServer(t, nil)
		if err := os.MkdirAll(filepath.Join(s.cfg.Etcd(), "member", "snap"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.cfg.Etcd(), "member", "snap", "db"), []byte(strings.Repeat("x", 1<<16)), 0o600); err != nil {
			t.Fatal(err)
		}
		s.start()
		if code := s.exit(); code == 0 {
			t.Errorf("exit code 0\n%s", s.log)
		}
	})
}

func (s *server) setPort(port uint16) {
	s.t.Helper()
	s.cfg.Port = port
	data, err := s.cfg.Marshal()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.file, data, 0o600); err != nil {
		s.t.Fatal(err)
	}
	if _, err := config.Load(s.file); err != nil {
		s.t.Fatal(err)
	}
}
