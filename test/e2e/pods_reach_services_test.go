// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// networkYAML spreads a web server over the two hosts of the guide's build and
// puts a client on each.
const networkYAML = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      os: {name: windows}
      nodeSelector: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.17763}
      containers:
      - name: iis
        image: mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2019
        ports: [{containerPort: 80}]
        readinessProbe: {httpGet: {port: 80}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: client}
spec:
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client}}
    spec:
      os: {name: windows}
      nodeSelector: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.17763}
      containers:
      - name: shell
        image: mcr.microsoft.com/windows/servercore:ltsc2019
        command: [ping.exe, -t, localhost]
`

// TestPodsReachServices: addresses, Services and names work from every node to every
// node, and from the machine through node ports.
func TestPodsReachServices(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	file := filepath.Join(t.TempDir(), "network.yaml")
	if err := os.WriteFile(file, []byte(networkYAML), 0o600); err != nil {
		t.Fatal(err)
	}
	c.kubectl(t, "apply", "-n", ns, "-f", file)
	for _, ds := range []string{"web", "client"} {
		c.kubectl(t, "rollout", "status", "-n", ns, "daemonset/"+ds, "--timeout=120s")
	}
	list := func(app, path string) []string {
		return strings.Fields(c.kubectl(t, "get", "pods", "-n", ns, "-l", "app="+app, "-o",
			"jsonpath={.items[*]."+path+"}"))
	}
	clients, webs, webNames := list("client", "metadata.name"), list("web", "status.podIP"),
		list("web", "metadata.name")
	if len(clients) != 2 || len(webs) != 2 {
		t.Fatalf("clients %v, servers %v; want one of each on both hosts", clients, webs)
	}
	fetch := func(pod, url string) error {
		out, err := c.kubectlErr(t.Context(), "exec", "-n", ns, pod, "--", "curl.exe", "-sS", "-o", "NUL", "-w",
			"%{http_code}", "--max-time", "10", url)
		if err == nil && strings.TrimSpace(out) != "200" {
			err = fmt.Errorf("status %q", out)
		}
		return err
	}
	for i, client := range clients {
		for j, ip := range webs {
			t.Run(fmt.Sprintf("pod %d to pod %d", i, j), func(t *testing.T) {
				if err := fetch(client, "http://"+ip); err != nil {
					t.Error(err)
				}
			})
		}
		for _, name := range []string{"web", "web." + ns + ".svc.cluster.local"} {
			t.Run(fmt.Sprintf("pod %d to %s", i, strings.ReplaceAll(name, ns, "NS")), func(t *testing.T) {
				eventually(t, 20*time.Second, "service", func() error { return fetch(client, "http://"+name) })
			})
		}
	}
	testNamesInPods(t, c, ns)
	// Windows appends a suffix to names without a dot only, and has only one.
	for _, half := range []string{"web." + ns, "web." + ns + ".svc"} {
		t.Run("half-qualified "+strings.ReplaceAll(half, ns, "NS"), func(t *testing.T) {
			if err := fetch(clients[0], "http://"+half); err == nil || !strings.Contains(err.Error(), "exit code 6") {
				t.Errorf("%v, want curl's exit code 6: cannot resolve", err)
			}
		})
	}
	t.Run("a server through its own service", func(t *testing.T) {
		// Either backend may answer; over a few requests it is its own too.
		for range 6 {
			if err := fetch(webNames[0], "http://web."+ns+".svc.cluster.local"); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("node port of every host", func(t *testing.T) {
		port := c.kubectl(t, "get", "service", "-n", ns, "web", "-o", "jsonpath={.spec.ports[0].nodePort}")
		hosts := strings.FieldsSeq(c.kubectl(t, "get", "nodes", "-o",
			`jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`))
		for h := range hosts {
			if _, err := get("http://" + h + ":" + port); err != nil {
				t.Errorf("%s: %v", h, err)
			}
		}
	})
	t.Run("a backend that goes away", func(t *testing.T) {
		c.kubectl(t, "delete", "pod", "-n", ns, webNames[0], "--wait=true")
		for range 5 {
			if err := fetch(clients[0], "http://web."+ns+".svc.cluster.local"); err != nil {
				t.Errorf("right after: %v", err)
			}
		}
	})
	t.Run("port-forward", func(t *testing.T) { testPortForward(t, c, ns, clients, list("web", "metadata.name")) })
}
