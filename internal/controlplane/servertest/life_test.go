// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package servertest_test tests the control plane as a program: it starts
// bin/mullion-kube, uses it, kills it at bad moments and looks at what is left.
package servertest_test

import (
	"bytes"
	"crypto/tls"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestLife starts a control plane, uses it, stops it, and starts it again.
func TestLife(t *testing.T) {
	s := controlplanetest.New(t, nil)
	s.Start()
	s.Ready()
	st, _ := s.Status()
	t.Logf("first start: ready after %v", st.ReadyAfter)
	admin := s.Admin()
	ctx := t.Context()

	const password = "correct-horse-battery-staple"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"},
		StringData: map[string]string{"password": password}}
	if _, err := admin.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	v, err := admin.Discovery().ServerVersion()
	if err != nil || v.GitVersion != st.Version || v.Minor != "36" {
		t.Errorf("version %+v, %v; status says %s", v, err, st.Version)
	}
	t.Run("anonymous", func(t *testing.T) { anonymous(t, s) })
	t.Run("locked", func(t *testing.T) { locked(t, s) })
	t.Run("kubectl", func(t *testing.T) { kubectl(t, s) })
	t.Run("files", func(t *testing.T) { files(t, s, password) })

	s.Stop()
	if st, err := os.Stat(s.Config.EtcdSocket()); err == nil {
		t.Errorf("socket is left: %v", st.Mode())
	}
	s.Start()
	s.Ready()
	st, _ = s.Status()
	t.Logf("second start: ready after %v", st.ReadyAfter)
	got, err := s.Admin().CoreV1().Secrets("default").Get(ctx, "s", metav1.GetOptions{})
	if err != nil || string(got.Data["password"]) != password {
		t.Errorf("after a restart: %v, %v", got, err)
	}
	s.Stop()
}

// anonymous checks what one gets without credentials.
func anonymous(t *testing.T, s *controlplanetest.Server) {
	c := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer c.CloseIdleConnections()
	for path, want := range map[string]int{
		"/livez": 200, "/readyz": 200, "/healthz": 200,
		"/": 401, "/api": 401, "/version": 401, "/metrics": 401, "/debug/pprof/": 401, "/livez/ping": 401,
		"/api/v1/namespaces/kube-public/configmaps/cluster-info": 401,
	} {
		resp, err := c.Get(s.Config.LocalURL() + path)
		if err != nil {
			t.Error(err)
			continue
		}
		_ = resp.Body.Close() // only the status matters
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
	_, err := s.Admin().CoreV1().RESTClient().Get().AbsPath("/debug/pprof/").DoRaw(t.Context())
	if !apierrors.IsNotFound(err) {
		t.Errorf("profiling: %v, want it switched off", err)
	}
}

// locked starts a second server on the same directory.
func locked(t *testing.T, s *controlplanetest.Server) {
	second := s.Second(t)
	second.Start()
	if code := second.Exit(); code != 3 ||
		!strings.Contains(second.Log.String(), "another control plane uses this data directory") {
		t.Errorf("exit code %d\n%s", code, second.Log)
	}
	if st, ok := s.Status(); !ok || !st.Ready {
		t.Errorf("the first one: %+v", st)
	}
}

func kubectl(t *testing.T, s *controlplanetest.Server) {
	run := func(argv0 string, args ...string) (string, int) {
		cmd := exec.Command(testenv.Bin("mullion-kube"), args...)
		cmd.Args[0] = argv0
		cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Config.AdminKubeconfig(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run("mullion-kube", "kubectl", "get", "ns", "default", "-o", "name"); code != 0 ||
		out != "namespace/default\n" {
		t.Errorf("get: %d, %s", code, out)
	}
	if out, code := run("kubectl", "get", "ns", "default", "-o", "name"); code != 0 || out != "namespace/default\n" {
		t.Errorf("as kubectl: %d, %s", code, out)
	}
	if out, code := run("kubectl", "get", "pod", "none"); code != 1 || !strings.Contains(out, "NotFound") {
		t.Errorf("missing pod: %d, %s", code, out)
	}
	if out, code := run("mullion-kube", "kubectl", "auth", "whoami", "-o",
		"jsonpath={.status.userInfo.groups}"); code != 0 || strings.Contains(out, "system:masters") {
		t.Errorf("whoami: %d, %s", code, out)
	}
	// diff's exit code 1 means a difference, as upstream's.
	manifest := filepath.Join(t.TempDir(), "cm.yaml")
	if err := os.WriteFile(manifest,
		[]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new, namespace: default}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := run("kubectl", "diff", "-f", manifest); code != 1 || !strings.Contains(out, "name: new") {
		t.Errorf("diff: %d, %s", code, out)
	}
}

// files looks at what lies on the disk.
func files(t *testing.T, s *controlplanetest.Server, secret string) {
	err := filepath.WalkDir(s.Config.DataDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		public := strings.HasSuffix(path, ".crt") || strings.HasSuffix(path, ".pub") || d.Type() == fs.ModeSocket
		if st.Mode().Perm()&0o077 != 0 && !public {
			t.Errorf("%s is %v", path, st.Mode())
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("%s holds a secret in the clear", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if strings.Contains(s.Log.String(), secret) {
		t.Error("the log holds a secret")
	}
	audit, err := os.ReadFile(s.Config.AuditLog())
	if err != nil || !bytes.Contains(audit, []byte(`"resource":"secrets","namespace":"default","name":"s"`)) {
		t.Errorf("the audit log does not know who made the secret: %v", err)
	}
}
