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

	"github.com/mullion-k8s/mullion/internal/agent"
)

// dualYAML has a web server on a host of each system with two families and one on Windows Server 2019; the Service in
// front of those of Windows has both families.
const dualYAML = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, ipFamilyPolicy: PreferDualStack, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: win-2022, labels: {app: web}}
spec:
  nodeName: win-2
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022
    ports: [{containerPort: 80, hostPort: 8090}]
---
apiVersion: v1
kind: Pod
metadata: {name: win-2019}
spec:
  nodeName: win-1
  terminationGracePeriodSeconds: 1
  containers:
  - {name: web, image: "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2019"}
---
apiVersion: v1
kind: Pod
metadata: {name: win-2025, labels: {app: newest}}
spec:
  nodeName: win-3
  terminationGracePeriodSeconds: 1
  containers:
  - {name: web, image: "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2025"}
---
apiVersion: v1
kind: Pod
metadata: {name: linux, labels: {app: linux}}
spec:
  nodeName: linux-1
  terminationGracePeriodSeconds: 1
  containers:
  - {name: web, image: ` + linuxprogImage + `, args: [serve]}
`

// dualPolicyYAML lets only the pods' IPv6 network in; the test writes its cluster's in place of the address here.
const dualPolicyYAML = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress]
  ingress: [{from: [{ipBlock: {cidr: "fd00:10:242::/48"}}]}]
`

// TestDualStack: pods, Services, names, node ports, host ports, load balancers and NetworkPolicies in both address
// families, from the machine and from pods of Windows and of Linux. Windows Server 2019 has one family.
func TestDualStack(t *testing.T) {
	t.Parallel()
	dir := ownCluster(t)
	const index = 28
	c := netCluster{single: newSingle(t, "dual", dir, index), mode: agent.L2Bridge}
	doc := fmt.Sprintf(`{"apiVersion":"mullion/v1alpha1","name":"dual","index":%d,"windows":["2019","2022","2025"],
	  "linux":1,"ipFamily":"dual"}`, index)
	if err := os.WriteFile(filepath.Join(c.dir(), "cluster.json"), []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	c.up("--ip-family", "dual")
	if out := c.mullion("status"); !strings.Contains(out, "l2bridge, dual,") {
		t.Errorf("status: %s", out)
	}
	c.load(linuxprogArchive(t))
	c.applyPod(dualYAML)
	c.must("wait", "--for=condition=Ready", "pod", "--all", "--timeout=120s")

	addresses := map[string][]string{}
	for _, pod := range []string{"win-2025", "win-2022", "win-2019", "linux"} {
		addresses[pod] = strings.Fields(c.must("get", "pod", pod, "-o", "jsonpath={.status.podIPs[*].ip}"))
	}
	for pod, want := range map[string]int{"win-2025": 2, "win-2022": 2, "win-2019": 1, "linux": 2} {
		if got := addresses[pod]; len(got) != want {
			t.Fatalf("pod %s has the addresses %q, want %d", pod, got, want)
		}
	}
	vips := strings.Fields(c.must("get", "service", "web", "-o", "jsonpath={.spec.clusterIPs[*]}"))
	if len(vips) != 2 {
		t.Fatalf("the Service has the addresses %q, want two", vips)
	}
	port := c.must("get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}")
	node := c.node6("win-2")
	var urls []string
	for _, host := range []string{
		addresses["win-2022"][0], addresses["win-2022"][1], addresses["win-2025"][1], addresses["linux"][1],
		vips[0], vips[1], "web",
		node + ":" + port, c.node6("linux-1") + ":" + port,
	} {
		urls = append(urls, url6(host))
	}
	for _, from := range []string{"win-2025", "win-2022", "linux"} {
		for _, u := range urls {
			eventually(t, time.Minute, from+" to "+u, func() error { return c.get(from, u) })
		}
	}
	for _, host := range []string{addresses["win-2022"][1], addresses["linux"][1], node + ":" + port} {
		eventually(t, time.Minute, "the machine to "+host, func() error { return fetch(t.Context(), url6(host)) })
	}
	eventually(t, time.Minute, "host port in IPv6", func() error {
		return c.get("linux", url6(node+":8090"))
	})
	if out := c.must("exec", "win-2022", "--", "nslookup.exe", "-type=AAAA", "web"); !strings.Contains(out, vips[1]) {
		t.Errorf("AAAA of the Service: %s", out)
	}
	if out := c.must("exec", "win-2022", "--", "ipconfig.exe"); !strings.Contains(out, addresses["win-2022"][1]) {
		t.Errorf("ipconfig: %s", out)
	}
	c.checkSingleStack()
	c.checkBalancers()

	// A pod of Windows Server 2019 reaches the Service by IPv4 until the policy, which has IPv6 only.
	eventually(t, time.Minute, "2019 to the Service", func() error { return c.get("win-2019", "http://"+vips[0]) })
	c.applyPod(strings.ReplaceAll(dualPolicyYAML, "fd00:10:242::/48", fmt.Sprintf("fd00:10:%d::/48", 244-index)))
	eventually(t, time.Minute, "a policy for IPv6", func() error {
		if err := c.get("linux", url6(addresses["win-2022"][0])); unanswered(err) == "" {
			return fmt.Errorf("IPv4 still passes, or the pod cannot say: %w", err)
		}
		return c.get("linux", url6(addresses["win-2022"][1]))
	})
	c.mullion("down")
	c.traces().none(t, "down")
}

// checkSingleStack looks for upstream's own message of Windows Server 2019.
func (c netCluster) checkSingleStack() {
	c.t.Helper()
	for host, want := range map[string]string{
		"win-1": "This version of Windows does not support dual-stack, falling back to single-stack",
		"win-2": "kube-proxy running in dual-stack mode",
		"win-3": "kube-proxy running in dual-stack mode",
	} {
		if out := c.mullion("logs", host+"/kube-proxy"); !strings.Contains(out, want) {
			c.t.Errorf("kube-proxy of %s does not say %q: %s", host, want, out)
		}
	}
}

// node6 returns a node's IPv6 address.
func (c netCluster) node6(name string) string {
	c.t.Helper()
	list := strings.Fields(c.must("get", "node", name, "-o",
		`jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`))
	if len(list) != 2 || !strings.Contains(list[1], ":") {
		c.t.Fatalf("node %s has the addresses %q", name, list)
	}
	return "[" + list[1] + "]"
}

// url6 returns the URL of a host, with the brackets that an IPv6 address needs.
func url6(host string) string {
	if strings.Count(host, ":") > 1 && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	return "http://" + host + "/"
}

// get asks a web server from a pod.
func (c netCluster) get(pod, url string) error {
	command := []string{"/linuxprog", "get", url}
	if strings.HasPrefix(pod, "win") {
		command = []string{"curl.exe", "-g", "-s", "-f", "-o", "NUL", "-m", "5", url}
	}
	_, err := c.kubectl(c.t.Context(), append([]string{"exec", pod, "--"}, command...)...)
	return err
}
