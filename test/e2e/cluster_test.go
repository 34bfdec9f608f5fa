// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package e2e tests mullion as its users have it: the built executables, a
// whole cluster, the commands of the README. One cluster serves most tests of
// the package, because starting it is the most expensive step; tests keep
// apart by Kubernetes namespaces. hack/test runs those that start clusters of their
// own beside the others.
//
// Most tests wait most of the time, so those that change only their own namespace, or a
// cluster of their own, are parallel. A test that changes the nodes, stops a program on
// which all depend, or takes all that a host has, is not. hack/test runs most of these on
// a cluster for themselves.
package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// under describes the cluster that the package tests. hack/test runs the tests that stop programs on a cluster of
// their own, beside the others.
var under = layout(os.Getenv("MULLION_E2E_CLUSTER"))

// name of the cluster under test.
var name = under.name

// cluster describes a cluster of this package. Its addresses are its own, because clusters of different data
// directories do not know of each other.
type cluster struct {
	name    string // unlike anything a user would have
	index   int
	windows []string
}

func layout(kind string) cluster {
	if kind == "faults" {
		// Those of 2022 and 2025 are for TestNetworkPolicy and TestControllers.
		return cluster{"e2e-faults", 32, []string{"2019", "2019", "2022", "2025"}}
	}
	// Two hosts of the guide's build, so that packets cross nodes, and one of each other build that a manifest of
	// the guides demands; those of 2022 and 2025 for placement.
	return cluster{"e2e-test", 31, []string{"2019", "2019", "2016", "1709", "1803", "2022", "2025"}}
}

// memory of each host: more than its share of a small machine, because tests fill one
// host at a time.
const memory = "4Gi"

// shared is the package's cluster; see up.
type shared struct {
	once sync.Once
	dir  string // dataDir
	err  error
	// kube is nil before the cluster has started.
	kube *kubectl
}

// suite is set by TestMain, which is the only writer.
var suite = &shared{}

// data is the directory of all clusters, so that Windows is made once for all. The removal of
// the last cluster would remove that too; cache is a lock that keeps it, as a host does
// that starts.
var data struct {
	once  sync.Once
	dir   string
	cache *durable.Lock
	err   error
}

// kept names the data directory of a cluster that was there before, and stays, and is
// called as the tests expect: for trying out a test on it. It may have fewer hosts than
// the tests need.
func kept() string { return os.Getenv("MULLION_E2E_DIR") }

func TestMain(m *testing.M) {
	panicOnFatal()
	code := m.Run()
	if kept() == "" {
		if err := suite.remove(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: stop the cluster:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// dataDir returns the directory of the clusters.
func dataDir(t *testing.T) string {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Wine, testenv.Runc, testenv.Nft, testenv.Built)
	data.once.Do(func() {
		if data.dir = kept(); data.dir != "" {
			return
		}
		if data.dir, data.err = os.MkdirTemp("", "mullion-e2e-"); data.err != nil {
			return
		}
		cache := filepath.Join(data.dir, "cache")
		if data.err = os.Mkdir(cache, 0o700); data.err == nil {
			data.cache, data.err = durable.WaitLock(context.Background(), filepath.Join(cache, ".lock"), durable.Shared)
		}
	})
	if data.err != nil {
		t.Fatal(data.err)
	}
	return data.dir
}

// up returns the package's cluster, started by the first test that asks.
func up(t *testing.T) *shared {
	t.Helper()
	dir := dataDir(t)
	suite.once.Do(func() {
		suite.dir = dir
		if suite.err = suite.start(); suite.err == nil {
			suite.kube, suite.err = newKubectl(filepath.Join(dir, "clusters", name, "admin.kubeconfig"))
		}
	})
	if suite.err != nil {
		t.Fatalf("start the cluster: %v", suite.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			suite.dump(t)
		}
	})
	return suite
}

func (c *shared) start() error {
	if kept() != "" {
		return nil
	}
	doc := map[string]any{"apiVersion": "mullion/v1alpha1", "name": name, "index": under.index,
		"windows": under.windows, "linux": 1, "size": map[string]any{"memory": memory}}
	// What is not about one network holds in all of them: `make soak` chooses.
	if network := os.Getenv("MULLION_E2E_NETWORK"); network != "" {
		doc["network"] = network
	}
	content, err := durable.EncodeDocument(doc)
	if err != nil {
		return err
	}
	dir := filepath.Join(c.dir, "clusters", name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), content, 0o600); err != nil {
		return err
	}
	args := []string{"up", "--name", name, "--data-dir", c.dir, "--kubeconfig", "none"}
	out, err := exec.Command(testenv.Bin("mullion"), args...).CombinedOutput()
	fmt.Fprintf(os.Stderr, "%s", out)
	return err
}

// remove removes the cluster, if it was started, and the data directory.
func (c *shared) remove() error {
	if c.dir != "" {
		if err := c.down(); err != nil {
			return err
		}
	}
	if data.cache != nil {
		data.cache.Unlock()
	}
	return os.RemoveAll(data.dir)
}

func (c *shared) down() error {
	out, err := exec.Command(testenv.Bin("mullion"), "down", "--name", name, "--data-dir", c.dir,
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
	t.Logf("look further with: %s kubectl --name %s --data-dir %s …", testenv.Bin("mullion"), name, c.dir)
}

// dumpNamespace prints what a person would look at first of a namespace.
func (c *shared) dumpNamespace(t *testing.T, ns string) {
	c.show(t, "get", "pods", "-n", ns, "-o", "wide")
	c.show(t, "get", "pods", "-n", ns, "-o", "jsonpath={range .items[*]}{.metadata.name}: "+
		`{.status.containerStatuses[*]['state', 'lastState']}{"\n"}{end}`)
	c.show(t, "get", "events", "-n", ns, "--sort-by=.lastTimestamp")
	for _, f := range c.nodeFiles("prefix/upper/drive_c/var/log/kubelet/kubelet.log") {
		c.showLines(t, f, func(line string) bool { return strings.Contains(line, ns) && isProblem(line) })
	}
}

// nodeFiles returns the files of all nodes that match a pattern.
func (c *shared) nodeFiles(pattern string) []string {
	files, _ := filepath.Glob(filepath.Join(c.dir, "clusters", name, "nodes", "*", pattern)) // the patterns are valid
	return files
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
		append([]string{"kubectl", "--name", name, "--data-dir", c.dir}, args...)...)
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
	out, err := c.try(t.Context(), "", append(args, "--name", name, "--data-dir", c.dir)...)
	if err != nil {
		t.Fatalf("mullion %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// url returns where a Service answers. Standard error has what the command waits for.
func (c *shared) url(t *testing.T, args ...string) string {
	t.Helper()
	argv := append([]string{"url", "--name", name, "--data-dir", c.dir}, args...)
	out, err := exec.CommandContext(t.Context(), testenv.Bin("mullion"), argv...).Output()
	if err != nil {
		t.Fatalf("mullion url %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// namespace makes a Kubernetes namespace that is gone after the test.
func (c *shared) namespace(t *testing.T) string {
	t.Helper()
	ns := "t-" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-", ".", "-").Replace(t.Name()))
	c.kubectl(t, "create", "namespace", ns)
	t.Cleanup(func() {
		if t.Failed() {
			c.dumpNamespace(t, ns)
		}
		if _, err := c.kubectlErr(context.Background(), "delete", "namespace", ns, "--wait=false"); err != nil {
			t.Errorf("remove namespace: %v", err)
		}
	})
	return ns
}

// eventually asks until f returns nil, or fails the test with f's last error. It asks less and less
// often, because a question is often a process, which takes processor time from what it waits for.
// The limit is for an idle machine; many tests and their clusters may share this one.
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
