// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package managercmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cli"
)

// TestBadCommandLines: each is exit code 2 (or 3 outside of a cluster), and a
// line that says what to write; no cluster is asked.
func TestBadCommandLines(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: http://192.0.2.1}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n")
	for _, tc := range []struct {
		args []string
		code cli.Code
		want string
	}{
		{[]string{"x"}, 2, "unknown command"},
		{[]string{"--lisetn", ":1"}, 2, "unknown flag"},
		{[]string{"--windows-taint", "os"}, 2, "os=windows:NoSchedule"},
		{[]string{"--rules-failure-policy", "Maybe"}, 2, "want Ignore or Fail"},
		{[]string{"--log-level", "loud"}, 2, "want debug, info, warn or error"},
		{[]string{"--default-os", "plan9"}, 2, "want linux or windows"},
		{[]string{"--url", "http://a"}, 2, "want https://HOST:PORT"},
		{[]string{"--client-ca", filepath.Join(dir, "none")}, 2, "no such file"},
		{[]string{"--client-ca", file("bad", "x")}, 2, "no certificate in PEM"},
		{[]string{"--kubeconfig", filepath.Join(dir, "none")}, 2, "no such file"},
		{[]string{"--kubeconfig", file("broken", "x: [")}, 2, "--kubeconfig"},
		{[]string{"--kubeconfig", plain}, 2, "does not use TLS"},
		{nil, 3, "pass a kubeconfig"},
	} {
		var out, errs strings.Builder
		code := cli.Run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, append([]string{"mullion", "manager"}, tc.args...), []cli.Command{{Group: cli.Cluster, New: New}})
		if code != int(tc.code) || !strings.Contains(errs.String(), tc.want) || strings.Contains(errs.String(), "panic") {
			t.Errorf("%v: %d %s", tc.args, code, errs.String())
		}
	}
}
