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

// limitsOffYAML has one server, on the first of two hosts, and a client on the other.
const limitsOffYAML = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, externalTrafficPolicy: Local, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  nodeName: win-1
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: ` + winprogImage + `, args: [answer, ":8080"], readinessProbe: {httpGet: {port: 8080}}}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  nodeName: win-2
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2022", command: [ping, -t, localhost]}
`

// TestLimitsOff: without Windows' limits, programs of a host reach its own pods by a node port. Without direct server
// return, a server sees a node through a ClusterIP, and the client by a node port with the external traffic policy
// Local, for which kube-proxy uses it in any case (localTrafficDSR in Kubernetes v1.36.3
// pkg/proxy/winkernel/proxier.go).
func TestLimitsOff(t *testing.T) {
	t.Parallel()
	dir := ownCluster(t)
	const index = 29
	c := netCluster{single: newSingle(t, "limitless", dir, index)}
	doc := fmt.Sprintf(`{"apiVersion":"mullion/v1alpha1","name":%q,"index":%d,"windows":["2019","2022"],
	  "noDSR":true,"noWindowsLimits":true}`, c.name, index)
	if err := os.WriteFile(filepath.Join(c.dir(), "cluster.json"), []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	c.up("--dsr=false", "--windows-limits=off")
	c.load(winprogArchive(t), "--nodes", "win-1")
	c.applyPod(limitsOffYAML)
	c.must("wait", "--for=condition=Ready", "pod", "--all", "--timeout=120s")
	nodes := strings.Fields(c.must("get", "nodes", "-o",
		`jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`))
	port := c.must("get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}")
	url := "http://" + nodes[0] + ":" + port
	// sees waits until the server sees a client in what a command prints.
	sees := func(what, want string, args ...string) {
		t.Helper()
		eventually(t, time.Minute, what, func() error {
			out, err := c.command(t.Context(), args...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			_, client, err := parseAnswer(string(out))
			if err == nil && client != want {
				err = fmt.Errorf("the server saw %s, want %s", client, want)
			}
			return err
		})
	}
	sees("the node port of win-1, from win-1", nodes[0], "exec", "win-1", "--", "curl.exe", "-sS", "-m", "3", url)
	sees("the ClusterIP, from a pod", nodes[1], "kubectl", "exec", "client", "--", "curl.exe", "-sS", "http://web")
	machine := fmt.Sprintf("10.89.%d.1", index)
	eventually(t, time.Minute, "the node port of win-1, from the machine", func() error {
		_, client, err := askHere(url)
		if err == nil && client != machine {
			err = fmt.Errorf("the server saw %s, want %s", client, machine)
		}
		return err
	})
	_, _, err := askHere("http://" + nodes[1] + ":" + port)
	denied(t, "win-2, which has no server", err)
}
