// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
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
		if code := s.Exit(); code != config.ExitUnusable ||
			!strings.Contains(s.Log.String(), "restore the file from a backup") {
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
		if code := s.Exit(); code != config.ExitUnusable ||
			!strings.Contains(s.Log.String(), "is damaged: invalid database: restore a backup") ||
			strings.Contains(s.Log.String(), "panic") {
			t.Errorf("exit code %d\n%s", code, s.Tail(30))
		}
	})
}

// TestDamagedDatastore damages etcd's files in ways that etcd itself meets with a
// crash or an error: the start after the failed one says what is damaged.
func TestDamagedDatastore(t *testing.T) {
	s := controlplanetest.New(t, nil)
	s.Start()
	s.Ready()
	s.Stop()
	whole := t.TempDir()
	if err := os.CopyFS(whole, os.DirFS(s.Config.Etcd())); err != nil {
		t.Fatal(err)
	}
	flip := func(t *testing.T, path string, from, to int) {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := from; i < to; i++ {
			data[i] ^= 0xff
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db := filepath.Join(s.Config.Etcd(), "member", "snap", "db")
	wals, err := filepath.Glob(filepath.Join(s.Config.Etcd(), "member", "wal", "*.wal"))
	if err != nil || len(wals) == 0 {
		t.Fatalf("no log: %v", err)
	}
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T)
		want   string
	}{
		{"record changed", func(t *testing.T) {
			at := record(t, wals[0], 4000)
			flip(t, wals[0], at+lengthSize+8, at+lengthSize+16)
		}, "its log: "},
		{"length changed", func(t *testing.T) {
			at := record(t, wals[0], 4000)
			flip(t, wals[0], at, at+lengthSize)
		}, "its log: "},
		{"database cut", func(t *testing.T) {
			if err := os.Truncate(db, 64<<10); err != nil { // of which most is in use
				t.Fatal(err)
			}
		}, "is damaged: "},
		{"pages changed", func(t *testing.T) { flip(t, db, 16<<10, 100<<10) }, "is damaged: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := os.RemoveAll(s.Config.Etcd()); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(s.Config.Etcd(), os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			tc.damage(t)
			// The supervisor starts it again at once.
			for range 2 {
				s.Start()
				if s.Exit() == config.ExitUnusable {
					break
				}
				t.Logf("first: %s", s.Tail(3))
			}
			if log := s.Log.String(); s.Exit() != config.ExitUnusable || !strings.Contains(log, tc.want) ||
				!strings.Contains(log, "restore a backup") {
				t.Errorf("exit code %d\n%s", s.Exit(), s.Tail(5))
			}
		})
	}
}

// lengthSize is the size in bytes of the length before each record of etcd's log: the low 56 bits are that of the
// record, and the bits above are its padding (wal.decodeFrameSize).
const lengthSize = 8

// record returns where the first record after an offset of a file of etcd's log begins.
func record(t *testing.T, wal string, after int) int {
	t.Helper()
	data, err := os.ReadFile(wal)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for at < after {
		length := binary.LittleEndian.Uint64(data[at:])
		if length == 0 {
			t.Fatalf("%s ends at %d", wal, at)
		}
		at += lengthSize + int(length&(1<<56-1))
		if length>>63 == 1 {
			at += int(length >> 56 & 7)
		}
	}
	return at
}

// TestNewerData: a control plane leaves data alone that a later version has used.
func TestNewerData(t *testing.T) {
	s := controlplanetest.New(t, nil)
	s.Start()
	s.Component(plan.Bootstrap, string(supervise.Ready))
	s.Stop()
	hash := func() string {
		t.Helper()
		h := sha256.New()
		err := filepath.WalkDir(s.Config.DataDir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			fmt.Fprintf(h, "%s %d %x\n", path, len(data), sha256.Sum256(data))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return hex.EncodeToString(h.Sum(nil))
	}
	for _, newer := range []string{
		`{"format": 2, "mullion": "v9.9.9", "kubernetes": "v1.36.0", "more": []}`,
		`{"format": 1, "mullion": "v9.9.9", "kubernetes": "v1.99.0"}`,
	} {
		if err := os.WriteFile(s.Config.VersionFile(), []byte(newer), 0o600); err != nil {
			t.Fatal(err)
		}
		before := hash()
		s.Start()
		if code := s.Exit(); code != config.ExitUnusable ||
			!strings.Contains(s.Log.String(), "last used by mullion v9.9.9") {
			t.Errorf("exit code %d\n%s", code, s.Log)
		}
		if hash() != before {
			t.Errorf("%s: files have changed", newer)
		}
	}
	// One that says nothing does not keep the cluster from its data.
	if err := os.WriteFile(s.Config.VersionFile(), []byte(`{"for`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.Component(plan.APIServer, string(supervise.Ready))
	s.Stop()
}
