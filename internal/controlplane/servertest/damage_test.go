// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
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
	s := controlplanetest.New(t, nil)
	s.Start()
	s.Component(plan.Etcd, string(supervise.Ready)) // the keys are in use
	s.Kill()
	// Files that can be recreated are.
	for _, name := range []string{"kube-apiserver.pem", "admin.pem", "etcd-ca.key", "service-account.pub"} {
		half(t, filepath.Join(s.Config.PKI(), name))
	}
	half(t, s.Config.AdminKubeconfig())
	s.Start()
	s.Component(plan.APIServer, string(supervise.Ready))
	if _, err := s.Admin().Discovery().ServerVersion(); err != nil {
		t.Errorf("the administrator's kubeconfig is not whole again: %v", err)
	}
	s.Kill()
	// What cannot is named.
	for _, name := range []string{"cluster-ca.key", "encryption.json"} {
		path := filepath.Join(s.Config.PKI(), name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		half(t, path)
		s.Start()
		if code := s.Exit(); code != 1 || !strings.Contains(s.Log.String(), "restore the file from a backup") {
			t.Errorf("%s: exit code %d\n%s", name, code, s.Log)
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBadEnvironment checks that problems that the user can fix are reported, with exit code 3.
func TestBadEnvironment(t *testing.T) {
	t.Run("port in use", func(t *testing.T) {
		s := controlplanetest.New(t, nil)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s.Config.Port = uint16(l.Addr().(*net.TCPAddr).Port)
		s.Write()
		s.Start()
		if code := s.Exit(); code != 3 || !strings.Contains(s.Log.String(), "another program uses this port") {
			t.Errorf("exit code %d\n%s", code, s.Tail(5))
		}
	})
	t.Run("bad configuration", func(t *testing.T) {
		s := controlplanetest.New(t, nil)
		if err := os.WriteFile(s.File, []byte(`{"apiVersion": "mullion/v1alpha1", "nmae": "x"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Start()
		if code := s.Exit(); code != 2 || !strings.Contains(s.Log.String(), `unknown field "nmae"`) {
			t.Errorf("exit code %d\n%s", code, s.Log)
		}
	})
	t.Run("corrupt datastore", func(t *testing.T) {
		s := controlplanetest.New(t, nil)
		if err := os.MkdirAll(filepath.Join(s.Config.Etcd(), "member", "snap"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.Config.Etcd(), "member", "snap", "db"),
			[]byte(strings.Repeat("x", 1<<16)), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Start()
		if code := s.Exit(); code != 1 ||
			!strings.Contains(s.Log.String(), "is damaged: invalid database: restore it") ||
			strings.Contains(s.Log.String(), "panic") {
			t.Errorf("exit code %d\n%s", code, s.Tail(30))
		}
	})
}
