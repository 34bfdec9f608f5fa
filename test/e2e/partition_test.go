// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// hostInit returns the process that holds a host's namespaces.
func (c *shared) hostInit(t *testing.T, node string) int {
	t.Helper()
	var st struct {
		InitPID int `json:"initPID"`
	}
	content, err := os.ReadFile(filepath.Join(c.dir, "clusters", c.name, "run", node+".json"))
	if err != nil || json.Unmarshal(content, &st) != nil || st.InitPID == 0 {
		t.Fatalf("%s: %v: %s", node, err, content)
	}
	return st.InitPID
}

// inNetwork runs a program in a network namespace, which nsenter(1) finds by the
// argument where: -n -t PID, or --net=FILE.
func inNetwork(t *testing.T, stdin string, where []string, argv ...string) string {
	t.Helper()
	cmd := exec.Command("nsenter", slices.Concat(where, argv)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", argv, err, out)
	}
	return string(out)
}

// inHost is inNetwork for a host. Its own nft wrote the rules there: an older one of the machine may crash on them
// (1.0.6 does on those of 1.1.3).
func (c *shared) inHost(t *testing.T, node, stdin string, argv ...string) string {
	t.Helper()
	where := []string{"-n", "-t", fmt.Sprint(c.hostInit(t, node))}
	if argv[0] == "nft" {
		where = append(where, "-m")
	}
	return inNetwork(t, stdin, where, argv...)
}

// cut drops what comes to a host over its network, and with out also what leaves it.
// The result restores it; a second call does nothing.
func (c *shared) cut(t *testing.T, node string, out bool) (heal func()) {
	t.Helper()
	const table = "mullion_test_cut"
	rules := "table inet " + table + ` {
		chain in { type filter hook prerouting priority -500; iifname "eth0" drop; }
`
	if out {
		rules += `		chain out { type filter hook postrouting priority 500; oifname "eth0" drop; }
`
	}
	c.inHost(t, node, rules+"}\n", "nft", "-f", "-")
	healed := false
	heal = func() {
		if !healed {
			healed = true
			c.inHost(t, node, "", "nft", "delete", "table", "inet", table)
		}
	}
	t.Cleanup(heal)
	return heal
}

// partitionSet keeps one pod on win-1, which may be replaced soon after its node
// is unreachable.
const partitionSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: one}
spec:
  serviceName: one
  selector: {matchLabels: {app: one}}
  template:
    metadata: {labels: {app: one}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {kubernetes.io/hostname: win-1}
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
      containers:
      - {name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019",
         command: [cmd, /c, "ping -n 3600 127.0.0.1 > nul"]}
`

// TestPartition separates a host from the control plane. Its programs run on, requests
// that need it fail and do not hang, and everything is as before when it is back.
func TestPartition(t *testing.T) {
	c := alone(t)
	ns := c.namespace(t)
	c.apply(t, ns, partitionSet)
	c.kubectl(t, "rollout", "status", "-n", ns, "statefulset/one", "--timeout=120s")
	program := c.containerProcess(t, ns, "one-0")
	uid := c.get(t, ns, "one-0", "{.metadata.uid}")
	works := func() error {
		out, err := c.kubectlErr(t.Context(), "exec", "-n", ns, "one-0", "--", "cmd.exe", "/c", "echo alive")
		if err == nil && strings.TrimSpace(out) != "alive" {
			err = fmt.Errorf("exec printed %q", out)
		}
		return err
	}
	for _, tc := range []struct {
		name string
		out  bool
	}{{"both ways", true}, {"to the host only", false}} {
		t.Run(tc.name, func(t *testing.T) {
			heal := c.cut(t, "win-1", tc.out)
			out, err := c.kubectlErr(t.Context(), "logs", "-n", ns, "one-0", "--request-timeout=5s")
			if err == nil {
				t.Errorf("the host can be reached: %q", out)
			}
			heal()
			eventually(t, time.Minute, "the host can be reached again", works)
			if now := c.containerProcess(t, ns, "one-0"); now != program {
				t.Errorf("the program was process %d and is %d", program, now)
			}
			got := c.get(t, ns, "one-0", "{.metadata.uid} {.status.containerStatuses[0].restartCount}")
			if got != uid+" 0" {
				t.Errorf("the pod was %s and never restarted; it is %s", uid, got)
			}
		})
	}
	if testenv.Times(t, 0, 1) > 0 {
		t.Run("until pods are evicted", func(t *testing.T) { evicted(t, c, ns, uid, program) })
	}
}

// evicted keeps the host away until its pod is to be replaced, which happens when
// the host is back, so that there are never two.
func evicted(t *testing.T, c *shared, ns, uid string, program int) {
	heal := c.cut(t, "win-1", true)
	eventually(t, 3*time.Minute, "the pod is to be deleted", func() error {
		if got := c.get(t, ns, "one-0", "{.metadata.uid} {.metadata.deletionTimestamp}"); got == uid+" " {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	if got := c.kubectl(t, "get", "node", "win-1", "-o",
		`jsonpath={.status.conditions[?(@.type=="Ready")].status}`); got != "Unknown" {
		t.Errorf("the node's readiness is %s, want Unknown", got)
	}
	// A control plane that does not hear of the end of a pod of a StatefulSet makes no
	// second one: two might write to one volume.
	for range 20 {
		if got := c.kubectl(t, "get", "pods", "-n", ns, "-o", "jsonpath={.items[*].metadata.uid}"); got != uid {
			t.Fatalf("pods %s, want only %s", got, uid)
		}
		time.Sleep(500 * time.Millisecond)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", program)); err != nil {
		t.Errorf("the program does not run any more: %v", err)
	}
	heal()
	eventually(t, 2*time.Minute, "the pod was replaced", func() error {
		got, err := c.kubectlErr(t.Context(), "get", "pod", "-n", ns, "one-0", "-o",
			"jsonpath={.metadata.uid} {.status.containerStatuses[0].ready}")
		if err == nil && (strings.HasPrefix(got, uid) || !strings.HasSuffix(got, " true")) {
			err = fmt.Errorf("it is %s", got)
		}
		return err
	})
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", program)); err == nil {
		t.Error("the program of the replaced pod still runs")
	}
}

// TestSlowLink gives a host a link of 1 Mbit/s in both directions: its node stays Ready,
// pods start, and exec and logs work, only later.
func TestSlowLink(t *testing.T) {
	c := alone(t)
	ns := c.namespace(t)
	// "2: eth0@if5: …": the other end has the number 5 in the fabric's namespace.
	link := c.inHost(t, "win-1", "", "ip", "-o", "link", "show", "eth0")
	found := regexp.MustCompile(`eth0@if([0-9]+):`).FindStringSubmatch(link)
	if found == nil {
		t.Fatalf("no other end in %q", link)
	}
	fabric := []string{"--net=" + filepath.Join(c.dir, "clusters", c.name, "run", "netns", "mullion-"+c.name)}
	port := ""
	for l := range strings.Lines(inNetwork(t, "", fabric, "ip", "-o", "link", "show")) {
		if rest, ok := strings.CutPrefix(l, found[1]+": "); ok {
			port, _, _ = strings.Cut(rest, "@")
		}
	}
	host := []string{"-n", "-t", fmt.Sprint(c.hostInit(t, "win-1"))}
	for _, end := range []struct {
		where []string
		link  string
	}{{host, "eth0"}, {fabric, port}} {
		inNetwork(t, "", end.where, "tc", "qdisc", "add", "dev", end.link, "root", "tbf", "rate", "1mbit",
			"burst", "16kbit", "latency", "500ms")
		t.Cleanup(func() { inNetwork(t, "", end.where, "tc", "qdisc", "del", "dev", end.link, "root") })
	}
	began := time.Now()
	c.pod(t, ns, "slow", onNode+`
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: mcr.microsoft.com/windows/servercore:ltsc2019
    command:
    - cmd
    - /c
    - (for /l %i in (1,1,2000) do @echo line %i of a text that takes a while over a slow link) & ping -n 600 127.0.0.1`)
	c.ready(t, ns, "slow")
	t.Logf("a pod was ready after %s", time.Since(began).Round(100*time.Millisecond))
	c.logs(t, ns, "slow", "line 2000 of")
	out := c.kubectl(t, "exec", "-n", ns, "slow", "--", "cmd.exe", "/c", "echo alive")
	if strings.TrimSpace(out) != "alive" {
		t.Errorf("exec printed %q", out)
	}
	if got := c.kubectl(t, "get", "node", "win-1", "-o",
		`jsonpath={.status.conditions[?(@.type=="Ready")].status}`); got != "True" {
		t.Errorf("the node's readiness is %s", got)
	}
}
