// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// traces lists what the machine shows of one cluster. Others may run beside it,
// and come and go meanwhile, so everything is found by the cluster's own names.
type traces struct {
	processes, links, mounts, tables, routes, cgroups []string
}

// tracesOf looks for a cluster of the data directory dir, from outside.
func tracesOf(t *testing.T, dir, cluster string, index int) traces {
	t.Helper()
	having := func(mark string, lines ...string) (found []string) {
		for _, l := range lines {
			if strings.Contains(l+" ", mark) {
				found = append(found, l)
			}
		}
		return found
	}
	run := func(argv ...string) []string {
		out, err := exec.Command(argv[0], argv[1:]...).Output()
		if err != nil {
			t.Fatalf("%s: %v", argv[0], err)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	link, files := fmt.Sprintf("mln%d", index), filepath.Join(dir, "clusters", cluster)
	var found traces
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		if b, err := os.ReadFile(p); err == nil {
			argv := strings.ReplaceAll(string(b), "\x00", " ")
			found.processes = append(found.processes, having(files, argv)...)
			found.processes = append(found.processes, having("--name "+cluster+" --data-dir "+dir, argv)...)
		}
	}
	// ip prints "mln3@if2: <…> … \\ alias cluster NAME". Another cluster may have
	// taken the number of one that is down.
	taken := false
	for _, l := range run("ip", "-o", "link", "show") {
		_, alias, named := strings.Cut(l, "alias cluster ")
		other := named && strings.TrimSpace(alias) != cluster
		switch {
		case strings.Contains(l, " "+link+"@") && other:
			taken = true
		case strings.Contains(l, " "+link+"@"), named && !other:
			found.links = append(found.links, l)
		}
	}
	if !taken {
		found.routes = having(" dev "+link+" ", append(run("ip", "-4", "route", "show"),
			run("ip", "-6", "route", "show")...)...)
	}
	found.tables = having(" mullion-"+cluster+" ", run("nft", "list", "tables")...)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	found.mounts = having(files, strings.Split(string(mounts), "\n")...)
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			found.cgroups = append(found.cgroups, having("/mullion/"+cluster+"/", p+"/")...)
		}
		return nil
	})
	return found
}

// none fails the test if there is a trace of the cluster.
func (f traces) none(t *testing.T, when string) {
	t.Helper()
	for what, left := range map[string][]string{
		"processes": f.processes, "links": f.links, "mounts": f.mounts,
		"nft tables": f.tables, "routes": f.routes, "cgroups": f.cgroups,
	} {
		if len(left) > 0 {
			t.Errorf("%s: %s are left: %q", when, what, left)
		}
	}
}

// TestLifecycle starts a cluster, from a release, beside others, stops it, starts it
// again with its data, kills its supervisor, and removes it: each time nothing
// of it is left on the machine.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	dir := ownCluster(t)
	const second = "e2e-second"
	args := func(a ...string) []string { return append(a, "--name", second, "--data-dir", dir) }
	user := filepath.Join(t.TempDir(), "config") // the kubeconfig file of the user's
	mullion, unpackAgain := unpacked(t)
	run := func(a ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, mullion, args(a...)...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+user)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("mullion %s: %v: %s", strings.Join(a, " "), err, out)
		}
		return string(out)
	}
	kubectl := func(a ...string) (string, error) {
		out, err := exec.Command(mullion,
			append([]string{"kubectl", "--name", second, "--data-dir", dir}, a...)...).CombinedOutput()
		return string(out), err
	}
	out := run("up", "--windows", "2019")
	for _, want := range []string{"✓ control plane", "Kubernetes v1.36", "✓ win-1", "Windows Server 2019 10.0.17763",
		"(emulated)", "kubectl context: mullion-" + second + " (" + user + ")"} {
		if !strings.Contains(out, want) {
			t.Errorf("up printed %q, which lacks %q", out, want)
		}
	}
	index := indexOf(t, dir, second)
	look := func() traces { return tracesOf(t, dir, second, index) }
	// What is not found now would not be found later either. A machine that does not
	// forward packets has no table, and the mounts are in the hosts' namespaces.
	if f := look(); len(f.processes) == 0 || len(f.links) == 0 || len(f.routes) == 0 || len(f.cgroups) == 0 {
		t.Errorf("a running cluster shows only %+v", f)
	}
	unpackAgain() // over the programs that run
	if out := run("up"); strings.Contains(out, "✗") {
		t.Errorf("second up: %s", out)
	}
	if out, err := kubectl("create", "configmap", "kept", "--from-literal=a=b"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	userContext(t, user, "mullion-"+second)
	listed(t, dir, second+" +running +win-1,linux-1 +https://.*")
	run("stop")
	look().none(t, "after stop")
	userContext(t, user, "")
	listed(t, dir, second+" +down +.*")
	run("down") // of a cluster that is down: nothing to do

	run("start")
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
		if p := look().processes; len(p) > 0 {
			return fmt.Errorf("%q", p)
		}
		return nil
	})
	run("kubeconfig", "--merge")
	run("down", "--purge")
	userContext(t, user, "")
	look().none(t, "after kill -9 and down --purge")
	if _, err := os.Stat(filepath.Join(dir, "clusters", second)); !os.IsNotExist(err) {
		t.Errorf("directory after purge: %v", err)
	}
}

// userContext checks the current context of a kubeconfig file; "" means none.
func userContext(t *testing.T, file, want string) {
	t.Helper()
	cmd := exec.Command(testenv.Bin("mullion-kube"), "kubectl", "--kubeconfig", file, "config", "current-context")
	out, _ := cmd.Output() // the exit code is 1 if there is none
	if got := strings.TrimSpace(string(out)); got != want {
		t.Errorf("the current context is %q, want %q", got, want)
	}
}

// listed checks that `mullion list` prints a line about the clusters of a data directory.
func listed(t *testing.T, dir, line string) {
	t.Helper()
	out, err := exec.Command(testenv.Bin("mullion"), "list", "--data-dir", dir).CombinedOutput()
	if err != nil || !regexp.MustCompile("(?m)^"+line+"$").Match(out) {
		t.Errorf("mullion list: %v: %s; want %q", err, out, line)
	}
}

// indexOf returns the index of a cluster, from which its addresses and the name
// of its link follow.
func indexOf(t *testing.T, dir, cluster string) int {
	t.Helper()
	var c struct{ Index int }
	readJSON(t, filepath.Join(dir, "clusters", cluster, "cluster.json"), &c)
	return c.Index
}
