// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package installcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/install"
)

// call runs a command.
func call(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	var stdout, stderr bytes.Buffer
	s := cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}
	code = cli.Run(context.Background(), s, append([]string{"mullion"}, args...), []cli.Command{{Group: cli.Cluster, New: New}, {Group: cli.Cluster, New: NewUninstall}})
	return code, stdout.String(), stderr.String()
}

// api returns a kubeconfig for a server that reports a version and refuses the rest.
func api(t *testing.T, version string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			fmt.Fprintf(w, `{"gitVersion": %q}`, version)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "user has no rights"}`)
	}))
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c"}}], "clusters": [{"name": "c", "cluster": {"server": %q}}]}`, s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		code int
		text string // in the output or in the errors
	}{
		{"dry run", []string{"install", "--dry-run"}, 0, "kind: Deployment"},
		{"dry run as JSON", []string{"install", "--dry-run", "-o", "json"}, 0, `"kind": "List"`},
		{"dry run of flags", []string{"install", "--dry-run", "--windows-taint", "os=windows:NoSchedule", "--rules-failure-policy", "Fail"}, 0, "--windows-taint=os=windows:NoSchedule"},
		{"output without a dry run", []string{"install", "-o", "json"}, 2, "--dry-run"},
		{"format", []string{"install", "--dry-run", "-o", "xml"}, 2, "yaml or json"},
		{"image", []string{"install", "--image", "A B"}, 2, "image"},
		{"taint", []string{"install", "--windows-taint", "windows"}, 2, "os=windows:NoSchedule"},
		{"policy", []string{"install", "--rules-failure-policy", "Never"}, 2, "Ignore or Fail"},
		{"registries", []string{"install", "--dry-run", "--insecure-registry", "a.example,b.example:5000", "--registry-certs", "company-ca"}, 0, "--insecure-registry=b.example:5000"},
		{"insecure registry", []string{"install", "--insecure-registry", "http://a.example"}, 2, "HOST:PORT"},
		{"certificates that are a file", []string{"install", "--registry-certs", "/etc/ssl/ca.crt"}, 2, "ConfigMap"},
		{"registries and none", []string{"install", "--no-registries", "--read-pull-secrets"}, 2, "leave one"},
		{"replicas", []string{"install", "--replicas", "-1"}, 2, "replicas"},
		{"namespace", []string{"install", "--namespace", "A"}, 2, "namespace"},
		{"timeout", []string{"uninstall", "--timeout", "0s"}, 2, "--timeout"},
		{"argument", []string{"uninstall", "x"}, 2, "unknown command"},
		{"no kubeconfig", []string{"install"}, 3, "there is no kubeconfig"},
		{"no such file", []string{"uninstall", "--kubeconfig", "/nonexistent"}, 2, "no such file"},
		{"no such context", []string{"install", "--kubeconfig", api(t, "v1.36.3"), "--context", "x"}, 2, `"x" does not exist`},
		{"old", []string{"install", "--kubeconfig", api(t, "v1.28.4")}, 3, "matchConditions"},
		{"no rights", []string{"install", "--kubeconfig", api(t, "v1.36.3")}, 1, "cluster-admin"},
		{"no rights to remove", []string{"uninstall", "--kubeconfig", api(t, "v1.36.3")}, 1, "user has no rights"},
		{"development build", []string{"install", "--kubeconfig", api(t, "v1.36.3")}, 1, "make image"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := call(t, c.args...)
			if code != c.code || !strings.Contains(out+errs, c.text) {
				t.Errorf("exit code %d, want %d with %q\n%s%s", code, c.code, c.text, out, errs)
			}
		})
	}
}

// TestHints: what can be done is said with every error that has a name.
func TestHints(t *testing.T) {
	for _, c := range []struct {
		err  error
		code cli.Code
		hint string
	}{
		{fmt.Errorf("%w: refused", install.ErrUnreachable), cli.Environment, "--kubeconfig"},
		{&install.TooOldError{Version: "v1.29.0"}, cli.Environment, "upgrade"},
		{&install.ElsewhereError{Namespace: "other"}, cli.Unhealthy, "--namespace other"},
		{&install.BuiltInError{URL: "https://127.0.0.1:9443"}, cli.Unhealthy, "--no-admission"},
		{&install.HelmError{Object: "ClusterRole x", Release: "r"}, cli.Unhealthy, "helm uninstall r"},
		{&install.AuthoritiesError{Namespace: "n", Name: "ca", Problem: "does not exist"}, cli.Unhealthy, "create configmap ca --namespace n"},
		{install.ConflictError{{Object: "Deployment d", Field: ".spec.replicas", Manager: "hpa"}}, cli.Unhealthy, "--force-conflicts"},
		{&install.StuckError{Object: "Pod p", Reason: "ImagePullBackOff"}, cli.Unhealthy, "--image"},
		{fmt.Errorf("wait for the managers: %w", context.DeadlineExceeded), cli.Unhealthy, "--timeout"},
	} {
		var f *cli.Failure
		err := explain(fmt.Errorf("outside: %w", c.err))
		if !errors.As(err, &f) || f.Code != c.code || !strings.Contains(f.Hint, c.hint) {
			t.Errorf("%v: %+v, want code %d and %q", c.err, f, c.code, c.hint)
		}
	}
	if explain(nil) != nil {
		t.Error("an error out of nothing")
	}
}
