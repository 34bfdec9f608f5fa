// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/lint/linttest"
)

// TestCannotRun makes every planted mistake: the cluster has to refuse the object
// or fail to run its pod, in the words that are known of Windows and of the API
// server, and lint has to report it as an error before. What has no mistake, the
// cluster has to take, and lint to let pass. The rules name this test as the proof
// of their errors.
func TestCannotRun(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	// The webhooks would refuse most of them before a kubelet sees them. They still
	// place them on nodes of the images' builds.
	c.kubectl(t, "label", "namespace", ns, "admission.mullion.dev/enforce=none")
	mistakes, err := linttest.Planted()
	if err != nil {
		t.Fatal(err)
	}
	dir, right := t.TempDir(), t.TempDir()
	for _, m := range mistakes {
		write(t, dir, m.File, m.Text)
	}
	for name, text := range linttest.Sound() {
		write(t, right, name, text)
	}
	reported, err := c.errors(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mistakes {
		if !m.Soft && !slices.Contains(reported[m.File], m.Code) {
			t.Errorf("%s: lint does not report %s as an error, but %v", m.Name, m.Code, reported[m.File])
		}
	}
	if reported, err := c.errors(t, right); err != nil || len(reported) > 0 {
		t.Errorf("lint reports errors where there are none: %v, %v", reported, err)
	}
	if out, err := c.kubectlErr(t.Context(), "create", "--dry-run=server", "-n", ns, "-f", right); err != nil {
		t.Errorf("the cluster refuses what has no mistake: %v: %s", err, out)
	}
	refused := refusals(c.applyAll(t, ns, dir), mistakes)
	eventually(t, startLimit, "what the cluster says of the pods", func() error {
		said, err := c.said(t, ns)
		if err != nil {
			return err
		}
		mistakes = slices.DeleteFunc(mistakes, func(m linttest.Mistake) bool {
			return strings.Contains(refused[m.File]+said[m.Name], m.Says)
		})
		var left []error
		for _, m := range mistakes {
			left = append(left, fmt.Errorf("of %s it says %q, want %q", m.Name, refused[m.File]+said[m.Name], m.Says))
		}
		return errors.Join(left...)
	})
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// errors returns the codes of the errors that lint reports about the files of a
// directory.
func (c *shared) errors(t *testing.T, dir string) (map[string][]string, error) {
	t.Helper()
	config := filepath.Join(c.dir, "clusters", c.name, "admin.kubeconfig")
	text, err := c.try(t.Context(), "", "lint", "--cluster", "--kubeconfig", config, "--severity", "error",
		"-o", "json", dir)
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return nil, fmt.Errorf("lint: %w: %s", err, text)
	}
	out := map[string][]string{}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "{") {
			continue // a note on standard error
		}
		var found struct{ File, Code string }
		if err := json.Unmarshal([]byte(line), &found); err != nil {
			return nil, fmt.Errorf("read what lint says: %w: %s", err, line)
		}
		file := filepath.Base(found.File)
		out[file] = append(out[file], found.Code)
	}
	return out, nil
}

// applyAll applies the files of a directory and returns what kubectl says.
func (c *shared) applyAll(t *testing.T, ns, dir string) string {
	t.Helper()
	out, err := c.kubectlErr(t.Context(), "apply", "-n", ns, "-f", dir)
	if err == nil {
		t.Fatalf("the cluster takes all mistakes: %s", out)
	}
	return err.Error()
}

// refusals sorts kubectl's messages by the files that they name. Lines that name
// none belong to the one before.
func refusals(out string, mistakes []linttest.Mistake) map[string]string {
	refused, file := map[string]string{}, ""
	for line := range strings.Lines(out) {
		named := false
		for _, m := range mistakes {
			if strings.Contains(line, "/"+m.File+`"`) {
				refused[m.File] += line
				file, named = m.File, true
			}
		}
		if !named {
			refused[file] += line
		}
	}
	return refused
}

// said returns what is written about each pod of a namespace: its events, and the
// messages of its status.
func (c *shared) said(t *testing.T, ns string) (map[string]string, error) {
	out := map[string]string{}
	for _, args := range [][]string{
		{"events", `{range .items[*]}{.involvedObject.name}{"\t"}{.message}{"\n"}{end}`},
		{"pods",
			`{range .items[*]}{.metadata.name}{"\t"}{.status.message} {.status.containerStatuses[*].state.*.message}` +
				`{"\n"}{end}`},
	} {
		text, err := c.kubectlErr(t.Context(), "get", args[0], "-n", ns, "-o", "jsonpath="+args[1])
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			pod, message, _ := strings.Cut(line, "\t")
			out[pod] += message
		}
	}
	return out, nil
}
