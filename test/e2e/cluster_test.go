// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package e2e tests mullion as its users have it: the built executables, a
// whole cluster, the commands of the README. A test declares in its first statement,
// or in the second one after t.Parallel, which cluster it needs:
//
//   - up: a cluster that it shares with other tests, because starting one is the most
//     expensive step; tests keep apart by Kubernetes namespaces. Most tests wait most of
//     the time, so those that change only their own namespace are parallel.
//   - alone: a cluster that no other test uses at the same time, for a test that stops
//     programs, fills a host, or adds and removes one.
//   - ownCluster: it starts clusters of its own.
//
// hack/test runs these groups beside each other. tools/testgroups reads the declarations.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// shared is a cluster that several tests use; see up and alone. Its addresses are its own,
// because clusters of different data directories do not know of each other.
type shared struct {
	name  string // unlike anything a user would have
	index int
	// windows lists the builds of the hosts. The first two, on which most tests run, have the build of the
	// guide, so that packets cross nodes.
	windows []string

	once sync.Once
	dir  string // dataDir
	err  error
	// kube is nil before the cluster has started.
	kube *kubectl

	mu sync.Mutex // of addMissing
	// Each image is loaded once.
	winprog, linuxprog sync.Once
}

// The clusters of the groups.
var (
	// The hosts of 2016 and 1709 are for the manifests of the guides, and that of 2022 for placement and Services.
	together = &shared{name: "e2e-test", index: 31, windows: []string{"2019", "2019", "2016", "1709", "2022"}}
	// That of 2022 is for TestNetworkPolicy and TestControllers.
	disturbed = &shared{name: "e2e-faults", index: 32, windows: []string{"2019", "2019", "2022"}}
)

// memory of each host: more than its share of a small machine, because tests fill one
// host at a time.
const memory = "4Gi"

// data is the directory of all clusters, so that Windows is made once for all. The removal of
// the last cluster would remove that too; cache is a lock that keeps it, as a host does
// that starts.
var data struct {
	once  sync.Once
	dir   string
	cache *durable.Lock
	err   error
}

func TestMain(m *testing.M) {
	panicOnFatal()
	code := m.Run()
	if err := removeAll(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: stop the clusters:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// declare fails a test that runs in another group than the one that it declares. MULLION_E2E_GROUP names the group of
// this process; without it, tests of all groups run.
func declare(t *testing.T, group string) {
	t.Helper()
	if runs := os.Getenv("MULLION_E2E_GROUP"); runs != "" && runs != group {
		t.Fatalf("the test declares the group %s and runs in the group %s: see hack/test", group, runs)
	}
}

// up returns the cluster that tests share, started by the first of them. It has a Linux worker, two hosts of Windows
// Server 2019, and a host of each of the other builds that the test needs.
func up(t *testing.T, builds ...string) *shared {
	t.Helper()
	declare(t, "shared")
	return together.use(t, builds)
}

// alone returns a cluster like the one of up. Its tests run one after the other, and may stop its programs, fill a
// host, or add and remove hosts; they leave it as they found it.
func alone(t *testing.T, builds ...string) *shared {
	t.Helper()
	declare(t, "alone")
	return disturbed.use(t, builds)
}

// noCluster declares a test that needs none.
func noCluster(t *testing.T) {
	t.Helper()
	declare(t, "shared")
}

// dataDir returns the directory of the clusters.
func dataDir(t *testing.T) string {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Wine, testenv.Runc, testenv.Nft, testenv.Built)
	data.once.Do(func() {
		if data.dir = kept(); data.dir == "" {
			if data.dir, data.err = os.MkdirTemp("", "mullion-e2e-"); data.err != nil {
				return
			}
		}
		cache := filepath.Join(data.dir, "cache")
		if data.err = os.MkdirAll(cache, 0o700); data.err == nil {
			data.cache, data.err = durable.WaitLock(context.Background(), filepath.Join(cache, ".lock"), durable.Shared)
		}
	})
	if data.err != nil {
		t.Fatal(data.err)
	}
	return data.dir
}

// removeAll removes the clusters that were started, and the data directory, unless they are kept.
func removeAll() error {
	var errs []error
	for _, c := range []*shared{together, disturbed} {
		if c.dir != "" && kept() == "" {
			errs = append(errs, c.down())
		}
	}
	if data.cache != nil {
		data.cache.Unlock()
	}
	if err := errors.Join(errs...); err != nil || kept() != "" {
		return err
	}
	return os.RemoveAll(data.dir)
}

// use starts the cluster, unless it runs.
func (c *shared) use(t *testing.T, builds []string) *shared {
	t.Helper()
	dir := dataDir(t)
	c.once.Do(func() {
		c.dir = dir
		if c.err = c.start(); c.err == nil {
			c.kube, c.err = newKubectl(filepath.Join(dir, "clusters", c.name, "admin.kubeconfig"))
		}
	})
	if c.err != nil {
		t.Fatalf("start the cluster: %v", c.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.dump(t)
		}
	})
	c.provide(t, builds)
	return c
}

// provide checks that the cluster has a host of each of the builds. A kept cluster gets those that it lacks.
func (c *shared) provide(t *testing.T, builds []string) {
	t.Helper()
	if kept() != "" {
		c.addMissing(t, builds)
		return
	}
	for _, build := range builds {
		if !slices.Contains(c.windows, build) {
			t.Fatalf("cluster %s has no host of %s: add one in cluster_test.go", c.name, build)
		}
	}
}

// start starts the cluster, or finds that a kept one can serve.
func (c *shared) start() error {
	if kept() != "" {
		if reused, err := c.reuse(); reused || err != nil {
			return err
		}
	}
	doc := map[string]any{"apiVersion": "mullion/v1alpha1", "name": c.name, "index": c.index,
		"windows": c.windows, "linux": 1, "size": map[string]any{"memory": memory}}
	// What is not about one network holds in all of them: `make soak` chooses.
	if network := os.Getenv("MULLION_E2E_NETWORK"); network != "" {
		doc["network"] = network
	}
	content, err := durable.EncodeDocument(doc)
	if err != nil {
		return err
	}
	dir := filepath.Join(c.dir, "clusters", c.name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), content, 0o600); err != nil {
		return err
	}
	args := []string{"up", "--name", c.name, "--data-dir", c.dir, "--kubeconfig", "none"}
	out, err := exec.Command(testenv.Bin("mullion"), args...).CombinedOutput()
	fmt.Fprintf(os.Stderr, "%s", out)
	if err == nil && kept() != "" {
		err = c.keep()
	}
	return err
}

func (c *shared) down() error {
	out, err := exec.Command(testenv.Bin("mullion"), "down", "--name", c.name, "--data-dir", c.dir,
		"--purge").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// dump prints what a person would look at first of the cluster's nodes.
func (c *shared) dump(t *testing.T) {
	c.show(t, "get", "nodes", "-o", "wide")
	for _, logs := range []string{"logs/*.log", "logs/init.log.1"} {
		for _, f := range c.nodeFiles(logs) {
			c.showLines(t, f, isProblem)
		}
	}
	for _, name := range []string{"server.log", "supervisor.log"} {
		c.showLines(t, filepath.Join(c.dir, "clusters", c.name, "logs", name), isProblem)
	}
	t.Logf("look further with: %s kubectl --name %s --data-dir %s …", testenv.Bin("mullion"), c.name, c.dir)
}

// dumpNamespace prints what a person would look at first of a namespace.
func (c *shared) dumpNamespace(t *testing.T, ns string) {
	c.show(t, "get", "pods", "-n", ns, "-o", "wide")
	c.show(t, "get", "pods", "-n", ns, "-o", "jsonpath={range .items[*]}{.metadata.name}: "+
		`{.status.containerStatuses[*]['state', 'lastState']}{"\n"}{end}`)
	c.show(t, "get", "events", "-n", ns, "--sort-by=.lastTimestamp")
	for _, f := range c.nodeFiles("prefix/drive_c/var/log/kubelet/kubelet.log") {
		c.showLines(t, f, func(line string) bool { return strings.Contains(line, ns) && isProblem(line) })
	}
}

// nodeFiles returns the files of all nodes that match a pattern, by their places in a host.
func (c *shared) nodeFiles(pattern string) (files []string) {
	status, _ := filepath.Glob(filepath.Join(c.dir, "clusters", c.name, "run", "*.json")) // the patterns are valid
	for _, s := range status {
		if root := hostRoot(s); root != "" {
			found, _ := filepath.Glob(filepath.Join(root, pattern))
			files = append(files, found...)
		}
	}
	return files
}

// hostRoot is the root directory of a running host as the machine sees it, "" if there is none.
func hostRoot(status string) string {
	st, err := host.ReadStatus(status)
	if err != nil || st.InitPID == 0 {
		return ""
	}
	return fmt.Sprintf("/proc/%d/root", st.InitPID)
}

// show prints what kubectl answers. It works after the end of the test.
func (c *shared) show(t *testing.T, args ...string) {
	out, err := c.kubectlErr(context.Background(), args...)
	if err != nil {
		out += err.Error()
	}
	t.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
}

// isProblem reports whether a line of a log is a warning or an error.
func isProblem(line string) bool { return !said.MatchString(line) }

// said matches the lines of klog and slog that are neither.
var said = regexp.MustCompile(`^I[0-9]{4} |level=(INFO|DEBUG)`)

// showLines prints the last lines of a log that want accepts, each cut off.
func (c *shared) showLines(t *testing.T, file string, want func(line string) bool) {
	const most, long = 8, 400
	content, err := os.ReadFile(file)
	if err != nil {
		t.Log(err)
		return
	}
	var out []string
	for line := range strings.Lines(string(content)) {
		if want(line) {
			line = strings.TrimSuffix(line, "\n")
			out = append(out, line[:min(len(line), long)])
		}
	}
	if len(out) > 0 {
		t.Logf("%s:\n%s", strings.TrimPrefix(file, c.dir), strings.Join(out[max(0, len(out)-most):], "\n"))
	}
}

// try runs bin/mullion and returns stdout and stderr together.
func (c *shared) try(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, testenv.Bin("mullion"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// kubectl runs `mullion kubectl`, or its code, and fails the test on an error. It returns
// stdout only.
func (c *shared) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.kubectlErr(t.Context(), args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func (c *shared) kubectlErr(ctx context.Context, args ...string) (string, error) {
	if c.kube.runs(args) {
		return c.kube.run(ctx, args...)
	}
	cmd := exec.CommandContext(ctx, testenv.Bin("mullion"),
		append([]string{"kubectl", "--name", c.name, "--data-dir", c.dir}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// mullion runs another command of bin/mullion for this cluster.
func (c *shared) mullion(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.try(t.Context(), "", append(args, "--name", c.name, "--data-dir", c.dir)...)
	if err != nil {
		t.Fatalf("mullion %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// url returns where a Service answers. Standard error has what the command waits for.
func (c *shared) url(t *testing.T, args ...string) string {
	t.Helper()
	argv := append([]string{"url", "--name", c.name, "--data-dir", c.dir}, args...)
	out, err := exec.CommandContext(t.Context(), testenv.Bin("mullion"), argv...).Output()
	if err != nil {
		t.Fatalf("mullion url %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// namespace makes a Kubernetes namespace that is gone after the test. In a kept cluster, that of a test that failed
// stays until its next run.
func (c *shared) namespace(t *testing.T) string {
	t.Helper()
	ns := "t-" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-", ".", "-").Replace(t.Name()))
	if kept() != "" {
		c.kubectl(t, "delete", "namespace", ns, "--ignore-not-found", "--timeout=3m")
	}
	c.kubectl(t, "create", "namespace", ns)
	t.Cleanup(func() {
		if t.Failed() {
			c.dumpNamespace(t, ns)
			if kept() != "" {
				t.Logf("the namespace %s stays until the next run", ns)
				return
			}
		}
		if _, err := c.kubectlErr(context.Background(), "delete", "namespace", ns, "--wait=false"); err != nil {
			t.Errorf("remove namespace: %v", err)
		}
	})
	return ns
}

// eventually calls f until it returns nil, or fails the test with f's last error. It calls less and less
// often, because a call is often a process, which takes processor time from what it waits for.
//
// The limit ends a test that hangs, and promises nothing: many tests and their clusters share the machine, so it is
// three times as long as an idle machine needs. The times that users are promised are goals of `make bench`, such as
// BenchmarkRecovery and BenchmarkPolicyChange in test/bench.
func eventually(t *testing.T, limit time.Duration, what string, f func() error) {
	t.Helper()
	const often, seldom, busy = 200 * time.Millisecond, time.Second, 3
	limit *= busy
	deadline := time.Now().Add(limit)
	for pause := often; ; pause = min(pause*5/4, seldom) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		time.Sleep(pause)
	}
}

func guide(file string) string { return filepath.Join("testdata", "guide", file) }
