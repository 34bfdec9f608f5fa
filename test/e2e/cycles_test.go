// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// cyclePods is how many pods TestPodCycles runs at once: enough to keep the machine busy.
const cyclePods = 20

// cyclePerClaim is how many of these pods there are for each that has a claim: with 20, the 10,000 pods of
// `make soak` have 1,000 claims.
const cyclePerClaim = 10

// cycle is a Service with pods of which half end by themselves and half run until
// they are deleted. A container whose start a killed kubelet.exe gave up is started again.
// A claim comes and goes with its pod.
func cycle() string {
	var b strings.Builder
	b.WriteString(`{apiVersion: v1, kind: Service, metadata: {name: s},
  spec: {selector: {app: cycle}, ports: [{port: 80}]}}` + "\n")
	for i := range cyclePods {
		command := `[cmd, /c, "ver & ping -n 600 127.0.0.1 > nul"]`
		if i%2 == 0 {
			command = `[cmd, /c, ver]`
		}
		volume := `emptyDir: {}`
		if i%cyclePerClaim == 1 {
			volume = `ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce],
    resources: {requests: {storage: 1Mi}}}}}`
		}
		fmt.Fprintf(&b, `---
{apiVersion: v1, kind: Pod, metadata: {name: p%d, labels: {app: cycle}}, spec: {
  restartPolicy: OnFailure, terminationGracePeriodSeconds: 1,
  containers: [{name: c, image: "mcr.microsoft.com/windows/servercore:ltsc2019", command: %s,
    volumeMounts: [{name: v, mountPath: 'C:\v'}]}],
  volumes: [{name: v, %s}]}}
`, i, command, volume)
	}
	return b.String()
}

// TestPodCycles makes and removes namespaces with pods, claims and a Service, again and
// again: nothing of them may be left on the hosts, and the programs of the hosts may
// not keep more and more files open. While the first ones start, kubelet.exe and
// kube-proxy.exe are killed: a kubelet removes what another one left within a minute
// (ContainerGCPeriod in Kubernetes v1.36.3 pkg/kubelet/kubelet.go), while the others come and go.
func TestPodCycles(t *testing.T) {
	c := alone(t)
	c.only(t, "10.0.17763")
	times := testenv.Times(t, 100, 10_000) / cyclePods
	var before holdings // those of hosts without pods
	batch := func(n int) {
		ns := fmt.Sprintf("cycle-%d", n)
		c.kubectl(t, "create", "namespace", ns)
		c.apply(t, ns, cycle())
		if n == 1 {
			c.killWhilePodsStart(t)
		}
		eventually(t, 5*time.Minute, "all pods run or have ended", func() error {
			phases := strings.Fields(c.kubectl(t, "get", "pods", "-n", ns, "-o", "jsonpath={.items[*].status.phase}"))
			slices.Sort(phases)
			if got := slices.Compact(slices.Clone(phases)); !slices.Equal(got, []string{"Running", "Succeeded"}) ||
				phases[cyclePods/2-1] != "Running" || phases[cyclePods/2] != "Succeeded" {
				return fmt.Errorf("%v", phases)
			}
			return nil
		})
		if n == 1 {
			// What is not found now would not be found as a leak either.
			for kind, now := range c.holdings(t).things {
				if (holdings{things: map[string]map[string]int{kind: now}}).beyond(before, 0) == nil {
					t.Errorf("%d pods run, and there are no more %s than without", cyclePods, kind)
				}
			}
		}
		c.kubectl(t, "delete", "namespace", ns, "--wait=false")
	}
	gone := func() {
		t.Helper()
		eventually(t, 3*time.Minute, "all namespaces of the tests gone", func() error {
			all := c.kubectl(t, "get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}")
			for ns := range strings.FieldsSeq(all) {
				if strings.HasPrefix(ns, "cycle-") || strings.HasPrefix(ns, "t-") {
					return fmt.Errorf("%s", ns)
				}
			}
			return nil
		})
	}
	// What is made once, by the first pods, is not a leak.
	batch(0)
	gone()
	time.Sleep(5 * time.Second) // the hosts remove the rest of it now; too early only hides a leak of this batch
	before = c.holdings(t)
	for n := range times {
		batch(n + 1)
	}
	gone()
	pods := times * cyclePods
	eventually(t, 3*time.Minute, "everything of the pods is gone", func() error {
		return c.holdings(t).beyond(before, pods)
	})
	t.Logf("%d pods in %d namespaces came and went; held now: %s", pods, times, c.holdings(t))
}

// killWhilePodsStart ends programs of a host that make pods.
func (c *shared) killWhilePodsStart(t *testing.T) {
	t.Helper()
	for _, program := range []string{"kubelet.exe", "kube-proxy.exe", "kubelet.exe"} {
		eventually(t, time.Minute, program+" runs", func() error {
			if len(c.processes(t, program, "win-1", true)) == 0 {
				return errors.New("it does not")
			}
			return nil
		})
		time.Sleep(time.Second) // the pods are at other phases each time
		c.kill(t, program, "win-1", true)
	}
}

// holdings counts what the hosts of the cluster hold.
type holdings struct {
	things map[string]map[string]int // kind, name
	open   map[string]int            // files that a program has open
}

func (h holdings) String() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(h.things)) {
		n := 0
		for _, k := range h.things[kind] {
			n += k
		}
		parts = append(parts, fmt.Sprintf("%s %d", kind, n))
	}
	for _, program := range slices.Sorted(maps.Keys(h.open)) {
		parts = append(parts, fmt.Sprintf("open files of %s %d", program, h.open[program]))
	}
	return strings.Join(parts, ", ")
}

// beyond returns an error that names what h has more than before. Connections come
// and go, and each thread of a program under Wine has three pipes, so that of open
// files only a number that grows with the pods is a leak.
func (h holdings) beyond(before holdings, pods int) error {
	var left []string
	for kind, now := range h.things {
		for thing, n := range now {
			if n > before.things[kind][thing] {
				left = append(left, kind+" "+thing)
			}
		}
	}
	for program, n := range h.open {
		if n-before.open[program] > 100+pods/10 {
			left = append(left, fmt.Sprintf("open files of %s: %d, before %d", program, n, before.open[program]))
		}
	}
	if len(left) == 0 {
		return nil
	}
	slices.Sort(left)
	return fmt.Errorf("%d things are left: %q", len(left), left[:min(len(left), 20)])
}

// holdings looks at all hosts of the build that the tests of cycles use.
func (c *shared) holdings(t *testing.T) holdings {
	t.Helper()
	h := holdings{things: map[string]map[string]int{}, open: map[string]int{}}
	add := func(kind, thing string) {
		if h.things[kind] == nil {
			h.things[kind] = map[string]int{}
		}
		h.things[kind][thing]++
	}
	for volume := range strings.FieldsSeq(c.kubectl(t, "get", "pv", "-o", "name")) {
		add("volumes", volume)
	}
	statuses, err := filepath.Glob(filepath.Join(c.dir, "clusters", c.name, "run", "win-?.json"))
	if err != nil || len(statuses) == 0 {
		t.Fatalf("no hosts: %v", err)
	}
	for _, file := range statuses {
		var st struct {
			PID     int `json:"pid"`
			InitPID int `json:"initPID"`
		}
		content, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(content, &st) != nil {
			t.Fatalf("%s: %v", file, err)
		}
		node := strings.TrimSuffix(filepath.Base(file), ".json")
		c.networkHoldings(t, node, add)
		mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", st.InitPID))
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(mounts)) {
			// A volume stays mounted until the node looks for deleted ones.
			if at := strings.Fields(l)[4]; !strings.Contains(at, "/mullion/volumes/") {
				add("mounts", node+" "+at)
			}
		}
		for pid, argv := range descendants(t, st.InitPID) {
			add("processes", node+" "+argv)
			if strings.Contains(argv, "winhost serve") || strings.Contains(argv, `\kubelet.exe`) {
				if open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
					h.open[node+" "+filepath.Base(strings.Fields(argv)[0])] += len(open)
				}
			}
		}
		// A Windows host has no var/lib, and a Linux host no prefix.
		for _, dir := range []string{"node", "prefix", "var/lib"} {
			for _, path := range nodeFiles(fmt.Sprintf("/proc/%d/root/%s", st.InitPID, dir)) {
				add("files", node+" "+path)
			}
		}
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(p+"/", "/mullion/"+c.name+"/") {
			add("cgroups", p)
		}
		return nil // one that is being removed is not there
	})
	return h
}

// networkHoldings adds the links, routes, neighbours and rules of a host.
func (c *shared) networkHoldings(t *testing.T, node string, add func(kind, thing string)) {
	t.Helper()
	inside := func(argv ...string) []string {
		return strings.FieldsFunc(c.inHost(t, node, "", argv...), func(r rune) bool { return r == '\n' })
	}
	for _, l := range inside("ip", "-o", "link", "show") {
		add("links", node+" "+strings.Fields(l)[1])
	}
	for _, l := range inside("ip", "-o", "route", "show") {
		add("routes", node+" "+l)
	}
	for _, l := range inside("ip", "-o", "neighbour", "show", "nud", "permanent") {
		add("neighbours", node+" "+l)
	}
	for _, l := range inside("bridge", "fdb", "show") {
		if strings.Contains(l, " dst ") { // the other end of a tunnel
			add("neighbours", node+" "+l)
		}
	}
	for _, l := range inside("nft", "--stateless", "list", "ruleset") {
		add("rules", node+" "+strings.TrimSpace(l))
	}
}

// descendants returns the command lines of the processes below one.
func descendants(t *testing.T, root int) map[int]string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	for _, file := range stats {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// "PID (NAME) STATE PPID …", where NAME may have blanks and brackets.
		var pid, parent int
		var state string
		_, err1 := fmt.Sscan(string(content), &pid)
		_, err2 := fmt.Sscan(string(content[strings.LastIndexByte(string(content), ')')+1:]), &state, &parent)
		if err1 == nil && err2 == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	found := map[int]string{}
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, pid := range children[next[0]] {
			content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if argv := strings.TrimSpace(strings.ReplaceAll(string(content), "\x00", " ")); err == nil && argv != "" {
				found[pid] = argv
			}
			next = append(next, pid)
		}
	}
	return found
}

// kubeletDir is the kubelet's directory in that of a host, and csiDirs are the parents in it of what a claim has.
const kubeletDir = "drive_c/var/lib/kubelet/plugins/"

var csiDirs = []string{"kubernetes.io", "kubernetes.io/csi", "kubernetes.io/csi/local.mullion.dev"}

// halfWritten is a file that a killed kubelet.exe was writing under another name first: allocated_pods_state and
// actuated_pods_state (Kubernetes v1.36.3 pkg/kubelet/util/store/filestore.go). It does not remove it later.
var halfWritten = regexp.MustCompile(`/var/lib/kubelet/\.[0-9]+$`)

// nodeFiles lists what a host keeps on the disk, without what grows by itself, and without the data of volumes,
// which a host keeps for a day after its PersistentVolume has gone (docs/user/storage.md).
func nodeFiles(dir string) []string {
	var files []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it is being removed
		}
		rel := strings.TrimPrefix(path, dir+"/")
		switch {
		case d.IsDir() && (strings.Contains(rel, "/ProgramData/mullion/volume") || rel == "claims"):
			return fs.SkipDir
		case rel == "hns/snapshot.json", slices.Contains(csiDirs, strings.TrimPrefix(rel, kubeletDir)):
			return nil // made once: of the journal when it is long, and for the first claim
		case d.IsDir() && (rel == "logs" || rel == "root"):
			return fs.SkipDir
		case strings.HasSuffix(rel, ".log"), strings.Contains(rel, ".tmp"), strings.HasSuffix(rel, ".reg"):
			return nil // Wine writes the registry some time after it has changed
		case halfWritten.MatchString(rel):
			return nil
		}
		files = append(files, rel)
		return nil
	})
	return files
}
