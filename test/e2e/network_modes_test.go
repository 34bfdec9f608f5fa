// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent"
)

// netCluster is a cluster of its own with two hosts of one build, one of another and Linux workers, for one network.
type netCluster struct {
	single
	mode agent.NetworkMode
	// netns is that of the server outside.
	netns string
	kube  *kubectl
}

func newNetCluster(t *testing.T, dataDir string, mode agent.NetworkMode, index int) netCluster {
	t.Helper()
	c := netCluster{single: newSingle(t, string(mode), dataDir, index), mode: mode}
	workers := 1
	if mode == agent.VXLAN {
		workers = 2 // one takes over from the other; see checkWayIn
	}
	doc := fmt.Sprintf(`{"apiVersion":"mullion/v1alpha1","name":%q,"index":%d,"windows":["2019","2019","2022"],
	  "linux":%d,"network":%q}`, c.name, index, workers, mode)
	if err := os.WriteFile(filepath.Join(c.dir(), "cluster.json"), []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	c.up("--kubeconfig", "none")
	return c
}

// up starts the cluster.
func (c *netCluster) up(flags ...string) {
	c.t.Helper()
	c.mullion(append([]string{"up"}, flags...)...)
	var err error
	if c.kube, err = newKubectl(filepath.Join(c.dir(), "admin.kubeconfig")); err != nil {
		c.t.Fatal(err)
	}
}

// kubectl returns standard output only.
func (c netCluster) kubectl(ctx context.Context, args ...string) (string, error) {
	if c.kube.runs(args) {
		out, err := c.kube.run(ctx, args...)
		return strings.TrimSpace(out), err
	}
	out, err := c.command(ctx, append([]string{"kubectl"}, args...)...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

func (c netCluster) must(args ...string) string {
	c.t.Helper()
	out, err := c.kubectl(c.t.Context(), args...)
	if err != nil {
		c.t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// flowsYAML has a web server on each host, and datagrams that come back from some; clients, and programs of the
// hosts, on the first host of each system; Services with one pod, on the client's host and on another; and the name of
// a server outside.
const flowsYAML = `
apiVersion: v1
kind: Service
metadata: {name: outside}
spec: {clusterIP: None, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: outside, labels: {kubernetes.io/service-name: outside}}
addressType: IPv4
ports: [{name: "", port: 80}]
endpoints: [{addresses: [` + outsider + `]}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: echo}
spec:
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      nodeSelector: {node.kubernetes.io/windows-build: 10.0.17763}
      containers:
      - {name: echo, image: ` + winprogImage + `, args: [echo, ":5353"]}
---
apiVersion: v1
kind: Service
metadata: {name: linux}
spec: {selector: {app: linux}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: linux, labels: {app: linux}}
spec:
  nodeName: linux-1
  terminationGracePeriodSeconds: 1
  containers:
  - {name: web, image: ` + linuxprogImage + `, args: [serve]}
  - {name: echo, image: ` + linuxprogImage + `, args: [echo, "5353"]}
---
apiVersion: v1
kind: Pod
metadata: {name: linux-node}
spec:
  nodeName: linux-1
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: ` + linuxprogImage + `, args: [wait]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web, build: "2019"}}
  template:
    metadata: {labels: {app: web, build: "2019"}}
    spec:
      nodeSelector: {node.kubernetes.io/windows-build: 10.0.17763}
      containers:
      - name: iis
        image: mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2019
        readinessProbe: {httpGet: {port: 80}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web-2022}
spec:
  selector: {matchLabels: {app: web, build: "2022"}}
  template:
    metadata: {labels: {app: web, build: "2022"}}
    spec:
      nodeSelector: {node.kubernetes.io/windows-build: 10.0.20348}
      containers:
      - name: iis
        image: mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022
        readinessProbe: {httpGet: {port: 80}}
---
apiVersion: v1
kind: Pod
metadata: {name: client, labels: {only: near}}
spec:
  nodeName: win-1
  containers:
  - {name: shell, image: ` + winprogImage + `, args: [answer, ":8080"]}
---
apiVersion: v1
kind: Pod
metadata: {name: far, labels: {only: far}}
spec:
  nodeName: win-2
  containers:
  - {name: shell, image: ` + winprogImage + `, args: [answer, ":8080"]}
---
apiVersion: v1
kind: Service
metadata: {name: near}
spec:
  type: LoadBalancer
  selector: {only: near}
  ports: [{name: tcp, port: 80, targetPort: 8080}, {name: udp, port: 80, targetPort: 8080, protocol: UDP}]
---
apiVersion: v1
kind: Service
metadata: {name: far}
spec:
  type: LoadBalancer
  selector: {only: far}
  ports: [{name: tcp, port: 80, targetPort: 8080}, {name: udp, port: 80, targetPort: 8080, protocol: UDP}]
---
apiVersion: v1
kind: Pod
metadata: {name: node}
spec:
  nodeName: win-1
  hostNetwork: true
  securityContext: {windowsOptions: {hostProcess: true, runAsUserName: 'NT AUTHORITY\SYSTEM'}}
  containers:
  - name: shell
    image: ` + winprogImage + `
    command: ['C:\hpc\app\winprog.exe', wait]
`

// run makes the pods and waits for them.
func (c netCluster) run() {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "flows.yaml")
	if err := os.WriteFile(file, []byte(flowsYAML), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.load(linuxprogArchive(c.t))
	c.load(winprogArchive(c.t), "--nodes", "win-1,win-2")
	c.must("apply", "-f", file)
	c.wait()
}

// load puts the images of an archive onto the hosts.
func (c netCluster) load(archive []byte, more ...string) {
	c.t.Helper()
	cmd := c.command(c.t.Context(), append([]string{"load", "-"}, more...)...)
	cmd.Stdin = bytes.NewReader(archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("load: %v: %s", err, out)
	}
}

func (c netCluster) wait() {
	c.t.Helper()
	for _, ds := range []string{"web", "web-2022", "echo"} {
		c.must("rollout", "status", "daemonset/"+ds, "--timeout=120s")
	}
	// kubectl wait goes on waiting for a pod that another one has replaced.
	eventually(c.t, 2*time.Minute, "all pods are ready", func() error {
		_, err := c.kubectl(c.t.Context(), "wait", "--for=condition=Ready", "pod", "--all", "--timeout=5s")
		return err
	})
}

// webs returns the addresses of the web servers by node.
func (c netCluster) webs() map[string]string {
	c.t.Helper()
	webs := map[string]string{}
	for f := range strings.FieldsSeq(c.must("get", "pods", "-l", "app in (web, linux)", "-o",
		`jsonpath={range .items[*]}{.spec.nodeName}={.status.podIP} {end}`)) {
		node, ip, _ := strings.Cut(f, "=")
		webs[node] = ip
	}
	return webs
}

// probes tries flows in this cluster.
func (c netCluster) probes() probes {
	return probes{
		kubectl:    c.kubectl,
		otherBuild: "win-3",
		api:        fmt.Sprintf("10.89.%d.1:%d", c.index, 6443+c.index),
		outside:    c.netns,
	}
}

// TestNetworkModes: flannel's networks as users have them. Hosts that are rebooted, programs that are killed, and
// nodes that come and go need no hand.
func TestNetworkModes(t *testing.T) {
	t.Parallel()
	dir := ownCluster(t)
	t.Run("modes", func(t *testing.T) {
		for i, mode := range []agent.NetworkMode{agent.L2Bridge, agent.HostGateway, agent.VXLAN} {
			t.Run(string(mode), func(t *testing.T) {
				t.Parallel() // they mostly wait
				c := newNetCluster(t, dir, mode, 24+i)
				c.netns = c.outside()
				c.run()
				c.probes().check(t, mode)
				if mode.Flannel() {
					c.checkFlannel()
				} else {
					c.checkReturn()
				}
			})
		}
	})
	checkPage(t)
}

// checkFlannel kills, reboots and removes what flannel depends on.
func (c netCluster) checkFlannel() {
	c.t.Helper()
	c.checkKills()
	vip := c.status("win-1").SourceVIP
	if (vip != "") != (c.mode == agent.VXLAN) {
		c.t.Errorf("source VIP %q", vip)
	}
	c.mullion("stop")
	c.mullion("start")
	c.wait()
	c.reach("after a reboot of all hosts")
	if got := c.status("win-1").SourceVIP; got != vip {
		c.t.Errorf("source VIP %s after a reboot, %s before", got, vip)
	}
	c.checkLeaving()
	if c.mode == agent.VXLAN {
		c.checkWayIn()
	}
}

// reach checks that the client reaches the other hosts' pods by address and by name.
func (c netCluster) reach(when string) {
	c.t.Helper()
	for node := range c.webs() {
		eventually(c.t, time.Minute, when+": pod of "+node, func() error {
			return c.probes().tcp(c.t, "pod", "http://"+c.webs()[node]) // it may be another pod by now
		})
	}
	eventually(c.t, time.Minute, when+": Service", func() error { return c.probes().tcp(c.t, "pod", "http://web") })
}

// checkKills kills the programs of the first node, one after the other, while a client talks to another host's pod.
func (c netCluster) checkKills() {
	c.t.Helper()
	other := c.webs()["win-2"]
	for _, program := range []string{"flanneld.exe", "kube-proxy.exe", "kubelet.exe"} {
		before := c.processes("win-1", program)
		if len(before) == 0 {
			c.t.Fatalf("no %s on win-1", program)
		}
		for _, pid := range before {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				c.t.Fatal(err)
			}
		}
		eventually(c.t, time.Minute, program+" runs again", func() error {
			// What was established or needs no kubelet goes on meanwhile.
			if program != "kubelet.exe" {
				if err := c.probes().tcp(c.t, "pod", "http://"+other); err != nil {
					c.t.Errorf("while %s starts again: %v", program, err)
				}
			}
			for _, pid := range c.processes("win-1", program) {
				if !slices.Contains(before, pid) {
					return nil
				}
			}
			return fmt.Errorf("there are only %v", before)
		})
		c.reach("after " + program + " was killed")
	}
}

// checkLeaving removes the third node: the others forget its range. Its own agent then joins it again.
func (c netCluster) checkLeaving() {
	c.t.Helper()
	podRange := c.must("get", "node", "win-3", "-o", "jsonpath={.spec.podCIDR}")
	routes := func() string {
		netns := fmt.Sprintf("--net=/proc/%d/ns/net", c.initPID("win-1"))
		out, err := exec.Command("nsenter", netns, "ip", "route").Output()
		if err != nil {
			c.t.Fatal(err)
		}
		return string(out)
	}
	via := map[agent.NetworkMode]string{agent.HostGateway: " via ", agent.VXLAN: " dev vxlan4096 "}[c.mode]
	has := func(want bool) func() error {
		return func() error {
			for line := range strings.Lines(routes()) {
				if strings.HasPrefix(line, podRange+" ") && strings.Contains(line, via) {
					if want {
						return nil
					}
					return fmt.Errorf("still there: %s", line)
				}
			}
			if want {
				return fmt.Errorf("no route to %s among\n%s", podRange, routes())
			}
			return nil
		}
	}
	eventually(c.t, time.Minute, "route to the third node's pods", has(true))
	c.must("delete", "node", "win-3")
	eventually(c.t, time.Minute, "no route to the removed node's pods", has(false))
	c.joinAgain("win-3")
	eventually(c.t, 90*time.Second, "its network is back", func() error {
		podRange = c.must("get", "node", "win-3", "-o", "jsonpath={.spec.podCIDR}")
		return has(true)()
	})
	c.wait()
	c.reach("after the third node came back")
}

// checkReturn removes the third node, which comes back before the cluster has deleted its pods: they get
// addresses of the range that it has now.
func (c netCluster) checkReturn() {
	c.t.Helper()
	c.must("delete", "node", "win-3")
	c.joinAgain("win-3")
	c.wait()
	c.reach("after the third node came back")
}

// joinAgain lets a node that was deleted register again, which a kubelet does when it starts.
func (c netCluster) joinAgain(node string) {
	c.t.Helper()
	for _, pid := range c.processes(node, "kubelet.exe") {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			c.t.Fatal(err)
		}
	}
	eventually(c.t, 2*time.Minute, node+" is back", func() error {
		_, err := c.kubectl(c.t.Context(), "wait", "--for=condition=Ready", "node/"+node, "--timeout=1s")
		return err
	})
}

// status is the agent's, as the host keeps it.
func (c netCluster) status(node string) agent.Status {
	c.t.Helper()
	var st struct {
		Agent agent.Status `json:"agent"`
	}
	readJSON(c.t, filepath.Join(c.dir(), "run", node+".json"), &st)
	return st.Agent
}

func (c netCluster) initPID(node string) int {
	c.t.Helper()
	var st struct {
		InitPID int `json:"initPID"`
	}
	readJSON(c.t, filepath.Join(c.dir(), "run", node+".json"), &st)
	return st.InitPID
}

// processes lists those of a node that run the program, but not its wrapper.
func (c netCluster) processes(node, program string) (pids []int) {
	c.t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, d := range dirs {
		cmdline, err := os.ReadFile(filepath.Join(d, "cmdline"))
		argv := strings.Split(string(cmdline), "\x00")
		if err != nil || !slices.ContainsFunc(argv[:min(3, len(argv))], func(s string) bool {
			return strings.HasSuffix(s, `\`+program)
		}) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil && sameNamespace(pid, c.initPID(node)) {
			pids = append(pids, pid)
		}
	}
	return pids
}
