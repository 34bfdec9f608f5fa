// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lintcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cli"
)

const privileged = `apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  os: {name: windows}
  nodeSelector: {kubernetes.io/os: windows}
  containers:
  - name: c # kept
    image: mcr.microsoft.com/windows/nanoserver:ltsc2022
    resources: {limits: {memory: 1Gi}}
    securityContext: {privileged: false}
`

// call runs the command.
func call(t *testing.T, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	s := cli.Streams{In: strings.NewReader(stdin), Out: &stdout, Err: &stderr}
	code = cli.Run(context.Background(), s, append([]string{"mullion", "lint"}, args...), []cli.Command{{Group: cli.Cluster, New: New}})
	return code, stdout.String(), stderr.String()
}

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExitCodes(t *testing.T) {
	good := strings.Replace(privileged, "    securityContext: {privileged: false}\n", "", 1)
	for _, c := range []struct {
		name  string
		stdin string
		args  []string
		code  int
		text  string // in the output or in the errors
	}{
		{"good", good, []string{"-"}, 0, "1 object in 1 file: 0 errors"},
		{"findings", privileged, []string{"-"}, 1, "WIN021"},
		{"no YAML", "a:\n\tb: c\n", []string{"-"}, 1, "WIN901"},
		{"only warnings fail not", strings.Replace(privileged, "os: {name: windows}", "hostname: h", 1), []string{"--fail-on", "error", "-"}, 0, "WIN021"},
		{"nothing", "", nil, 2, "nothing to lint"},
		{"no such file", "", []string{"/nonexistent.yaml"}, 2, "no such file"},
		{"version", "", []string{"--kubernetes-version", "2.0", "-"}, 2, "want for example 1.36"},
		{"build", "", []string{"--builds", "vista", "-"}, 2, "unknown"},
		{"taint", "", []string{"--builds", "2022", "--node-taints", "os", "-"}, 2, "os=windows:NoSchedule"},
		{"taint of no node", "", []string{"--node-taints", "os=windows:NoSchedule", "-"}, 2, "--builds"},
		{"format", "", []string{"-o", "xml", "-"}, 2, "sarif"},
		{"severity", "", []string{"--severity", "fatal", "-"}, 2, "fatal"},
		{"taints count", good, []string{"--builds", "2022", "--node-taints", "os=windows:NoSchedule", "-"}, 1, "WIN404"},
		{"builds count", good, []string{"--builds", "2019", "-"}, 1, "WIN412"},
		{"cluster and builds", "", []string{"--cluster", "--builds", "2022"}, 2, "--cluster cannot be combined"},
		{"fix of a cluster", "", []string{"--cluster", "--fix"}, 2, "--fix needs files"},
		{"context of no cluster", "", []string{"--context", "c", "-"}, 2, "need --cluster"},
		{"namespace of files", "", []string{"-n", "shop", "-"}, 2, "--namespace"},
		{"no kubeconfig", "", []string{"--cluster", "--kubeconfig", "/nonexistent"}, 2, "/nonexistent"},
		{"explain", "", []string{"explain", "win019"}, 0, "POSIX"},
		{"explain nothing", "", []string{"explain", "WIN999"}, 2, "WIN999"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := call(t, c.stdin, c.args...)
			if code != c.code || !strings.Contains(out+errs, c.text) {
				t.Errorf("exit code %d, want %d with %q\n%s%s", code, c.code, c.text, out, errs)
			}
		})
	}
}

func TestFormats(t *testing.T) {
	_, out, _ := call(t, privileged, "-o", "json", "-")
	var r struct {
		File, Code, Severity, Field, Message, Fix, Object string
		Line, Column                                      int
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err, out)
	}
	if r.Code != "WIN021" || r.Severity != "error" || r.File != "<stdin>" || r.Line != 11 || r.Column != 23 || r.Field != "spec.containers[0].securityContext.privileged" || r.Object != "Pod p" {
		t.Errorf("%+v", r)
	}
	for _, in := range []string{privileged, ""} {
		_, out, _ = call(t, in, "-o", "sarif", "-")
		var sarif struct {
			Version string
			Runs    []struct {
				Tool struct {
					Driver struct{ Rules []struct{ ID string } }
				}
				Results []struct{ RuleID, Level string }
			}
		}
		if err := json.Unmarshal([]byte(out), &sarif); err != nil {
			t.Fatal(err, out)
		}
		if sarif.Version != "2.1.0" || len(sarif.Runs) != 1 || len(sarif.Runs[0].Tool.Driver.Rules) < 100 || in != "" && sarif.Runs[0].Results[0].RuleID != "WIN021" {
			t.Errorf("%+v", sarif)
		}
	}
}

func TestFolderAndFix(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "a/pod.yaml", privileged)
	write(t, dir, "a/notes.txt", "not a manifest")
	write(t, dir, ".git/pod.yaml", privileged)
	write(t, dir, "chart/Chart.yaml", "name: c")
	write(t, dir, "chart/templates/pod.yaml", "{{ if }}")
	code, out, errs := call(t, "", dir)
	if code != 1 || strings.Count(out, "WIN021") != 1 || !strings.Contains(errs, "helm template") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs := call(t, "", "--fix", dir); code != 0 || !strings.Contains(errs, "2 changes") {
		t.Errorf("exit code %d after the fix\n%s%s", code, out, errs)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(privileged, "    securityContext: {privileged: false}\n", "", 1)
	if want = strings.Replace(want, "{kubernetes.io/os", "{kubernetes.io/arch: amd64, kubernetes.io/os", 1); string(got) != want {
		t.Errorf("fixed file:\n%s", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, out, _ := call(t, privileged, "--fix", "-"); !strings.Contains(out, "# kept") || strings.Contains(out, "privileged") {
		t.Errorf("fixed stream:\n%s", out)
	}
}
