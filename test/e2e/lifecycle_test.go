// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// machine holds the objects that a cluster could leave behind on the machine.
type machine struct {
	processes, links, mounts, tables, routes, cgroups []string
}

// look records the machine's state, seen from outside. Only entries with
// mark count where others may come and go.
func look(t *testing.T, mark string) machine {
	t.Helper()
	run := func(argv ...string) []string {
		out, err := exec.Command(argv[0], argv[1:]...).Output()
		if err != nil {
			t.Fatalf("%s: %v", argv[0], err)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	having := func(lines []string) []string {
		var out []string
		for _, l := range lines {
			if strings.Contains(l, mark) {
				out = append(out, l)
			}
		}
		return out
	}
	var m machine
	dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if b, err := os.ReadFile(d); err == nil {
			m.processes = append(m.processes, having([]string{strings.ReplaceAll(string(b), "\x00", " ")})...)
		}
	}
	m.links = run("ip", "-o", "-br", "link", "show", "type", "veth")
	m.routes = run("ip", "-4", "route", "show")
	m.tables = run("nft", "list", "tables")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	m.mounts = having(strings.Split(string(mounts), "\n"))
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), "mullion") {
			m.cgroups = append(m.cgroups, p)
		}
		return nil
	})
	return m
}

// TestLifecycle starts a second cluster beside the first, stops it, starts it
// again with its data, kills its supervisor, and removes it: each time nothing
// of it is left on the machine.
func TestLifecycle(t *testing.T) {
	up(t)
	// Clusters of other data directories do not know of each other, so the
	// second is made with an index of its own by sharing the first's directory.
	const second = "second"
	args := func(a ...string) []string { return append(a, "--name", second, "--data-dir", suite.dir) }
	run := func(a ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, testenv.Bin("mullion"), args(a...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("mullion %s: %v: %s", strings.Join(a, " "), err, out)
		}
		return string(out)
	}
	kubectl := func(a ...string) (string, error) {
		out, err := exec.Command(testenv.Bin("mullion"), append([]string{"kubectl", "--name", second, "--data-dir", suite.dir}, a...)...).CombinedOutput()
		return string(out), err
	}
	mark := filepath.Join("clusters", second)
	before := look(t, mark)
	out := run("up", "--windows", "2019")
	for _, want := range []string{"✓ control plane", "Kubernetes v1.36", "✓ win-1", "Windows Server 2019 10.0.17763", "(emulated)", "kubeconfig:"} {
		if !strings.Contains(out, want) {
			t.Errorf("up printed %q, which lacks %q", out, want)
		}
	}
	if out := run("up"); strings.Contains(out, "✗") {
		t.Errorf("second up: %s", out)
	}
	if out, err := kubectl("create", "configmap", "kept", "--from-literal=a=b"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run("down")
	same(t, "after down", before, look(t, mark))
	run("down") // of a cluster that is down: nothing to do

	run("up")
	if out, err := kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}"); err != nil || out != "b" {
		t.Errorf("data after down and up: %q, %v", out, err)
	}
	// kill -9 of the supervisor: all ends with it, and `down` cleans up.
	pid := strings.TrimSpace(run("status", "-o", "json"))
	pid = pid[strings.Index(pid, `"pid": `)+len(`"pid": `):]
	pid = pid[:strings.IndexAny(pid, ",\n")]
	if out, err := exec.Command("kill", "-9", pid).CombinedOutput(); err != nil {
		t.Fatalf("kill %s: %v: %s", pid, err, out)
	}
	eventually(t, 30*time.Second, "processes gone", func() error {
		if p := look(t, mark).processes; len(p) > 0 {
			return fmt.Errorf("%q", p)
		}
		return nil
	})
	run("down", "--purge")
	same(t, "after kill -9 and down --purge", before, look(t, mark))
	if _, err := os.Stat(filepath.Join(suite.dir, mark)); !os.IsNotExist(err) {
		t.Errorf("directory after purge: %v", err)
	}
}

func same(t *testing.T, when string, a, b machine) {
	t.Helper()
	for _, x := range []struct {
		what string
		a, b []string
	}{{"processes", a.processes, b.processes}, {"links", names(a.links), names(b.links)}, {"mounts", a.mounts, b.mounts},
		{"nft tables", a.tables, b.tables}, {"routes", a.routes, b.routes}, {"cgroups", a.cgroups, b.cgroups}} {
		slices.Sort(x.a)
		slices.Sort(x.b)
		if !slices.Equal(x.a, x.b) {
			t.Errorf("%s: %s: before %q, now %q", when, x.what, x.a, x.b)
		}
	}
}

// names keeps the first column of ip's brief listing: flags and states change.
func names(lines []string) []string {
	var out []string
	for _, l := range lines {
		if f := strings.Fields(l); len(f) > 0 {
			out = append(out, f[0])
		}
	}
	return out
}
