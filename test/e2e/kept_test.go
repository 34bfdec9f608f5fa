// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// kept returns the data directory of clusters that stay when the tests end, for the next run of a test. `make e2e` sets
// it, and `make e2e-down` removes the clusters. It returns "" where clusters end with the tests.
func kept() string { return os.Getenv("MULLION_E2E_DIR") }

// reuse reports whether the cluster that an earlier run has kept can serve. It removes one that cannot, and prints the
// reason.
func (c *shared) reuse() (bool, error) {
	// It runs beside those of `make test`. Tests add the hosts that they need.
	c.name, c.index, c.windows = c.name+"-kept", c.index+2, c.windows[:2]
	_, err := os.Stat(filepath.Join(c.dir, "clusters", c.name))
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "e2e: start the cluster %s, which stays: 'make e2e-down' removes it\n", c.name)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	why, err := c.stale()
	if err != nil {
		return false, err
	}
	if why != "" {
		fmt.Fprintf(os.Stderr, "e2e: start the cluster %s again: %s\n", c.name, why)
		return false, errors.Join(c.down(), os.RemoveAll(c.record()))
	}
	fmt.Fprintf(os.Stderr, "e2e: use the cluster %s, which runs; 'make e2e-down' removes it\n", c.name)
	return true, nil
}

// addMissing adds a host of each build that has none.
func (c *shared) addMissing(t *testing.T, builds []string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var hosts []string // their builds
	for node, build := range c.buildsOf(t) {
		if strings.HasPrefix(node, "win-") {
			hosts = append(hosts, build)
		}
	}
	for _, b := range builds {
		build, err := winver.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(hosts, build.Label()) {
			fmt.Fprintf(os.Stderr, "e2e: add a host of Windows Server %s\n", b)
			c.mullion(t, "node", "add", "--windows", b)
			hosts = append(hosts, build.Label())
		}
	}
}

// stale returns why a kept cluster cannot serve, or "".
func (c *shared) stale() (string, error) {
	before, err := os.ReadFile(c.record())
	if errors.Is(err, fs.ErrNotExist) {
		return "its start was interrupted", nil
	}
	if err != nil {
		return "", err
	}
	now, err := programs()
	if err != nil {
		return "", err
	}
	if changed := changedProgram(string(before), now); changed != "" {
		return changed + " has changed", nil
	}
	if out, err := exec.Command(testenv.Bin("mullion"), "status", "--name", c.name, "--data-dir",
		c.dir).CombinedOutput(); err != nil {
		return fmt.Sprintf("it is not ready:\n%s", out), nil
	}
	return "", nil
}

// keep records the programs with which the cluster has started.
func (c *shared) keep() error {
	now, err := programs()
	if err != nil {
		return err
	}
	return os.WriteFile(c.record(), []byte(now), 0o600)
}

// record is the file with the programs of a kept cluster.
func (c *shared) record() string { return filepath.Join(c.dir, c.name+".programs") }

// programs lists what a cluster runs of bin/, each with its size and time, as `make` sees a change.
func programs() (string, error) {
	var list strings.Builder
	for _, pattern := range []string{"mullion", "mullion-*", "windows/*", "linux/*", "native/*"} {
		files, err := filepath.Glob(testenv.Bin(pattern))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil {
				return "", err
			}
			if info.Mode().IsRegular() {
				fmt.Fprintf(&list, "%s %d %d\n", file, info.Size(), info.ModTime().UnixNano())
			}
		}
	}
	return list.String(), nil
}

// changedProgram returns a program that differs between two lists, or "".
func changedProgram(before, now string) string {
	lines := strings.Split(before, "\n")
	for line := range strings.Lines(now) {
		if line = strings.TrimSuffix(line, "\n"); !slices.Contains(lines, line) {
			file, _, _ := strings.Cut(line, " ")
			return file
		}
	}
	if before != now {
		return "the list of programs"
	}
	return ""
}

func TestChangedProgram(t *testing.T) {
	t.Parallel()
	noCluster(t)
	const before = "/bin/mullion 10 1\n/bin/mullion-kube 20 1\n"
	for now, want := range map[string]string{
		before:                                 "",
		"/bin/mullion 10 1\n":                  "the list of programs",
		before + "/bin/new 5 1\n":              "/bin/new",
		strings.Replace(before, "20", "21", 1): "/bin/mullion-kube",
		strings.ReplaceAll(before, " 1", " 2"): "/bin/mullion",
	} {
		if got := changedProgram(before, now); got != want {
			t.Errorf("%q after %q: %q has changed, want %q", now, before, got, want)
		}
	}
}
