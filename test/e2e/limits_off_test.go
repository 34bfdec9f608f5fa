// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// limitsOffYAML has one server, on the first of two hosts.
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
`

// TestLimitsOff: without Windows' limits, programs of a host reach its own pods by a node port. Without direct server
// return, the external traffic policy Local counts as Cluster: each node answers, and the server sees a node.
func TestLimitsOff(t *testing.T) {
	t.Parallel()
	const index = 29
	c := netCluster{single: newSingle(t, "limitless", dataDir(t), index)}
	doc := fmt.Sprintf(`{"apiVersion":"mullion/v1alpha1","name":%q,"index":%d,"windows":["2019","2022"],
	  "noDSR":true,"noWindowsLimits":true}`, c.name, index)
	if err := os.WriteFile(filepath.Join(c.dir(), "cluster.json"), []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	c.mullion("up", "--dsr=false", "--windows-limits=off")
	c.load(winprogArchive(t), "--nodes", "win-1")
	c.applyPod(limitsOffYAML)
	c.must("wait", "--for=condition=Ready", "pod", "--all", "--timeout=120s")
	port := c.must("get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}")
	nodes := strings.Fields(c.must("get", "nodes", "-o",
		`jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`))
	for i, node := range nodes {
		url := "http://" + node + ":" + port
		eventually(t, time.Minute, fmt.Sprintf("node port of win-%d", i+1), func() error {
			_, client, err := askHere(url)
			if err == nil && client != node {
				err = fmt.Errorf("the server saw %s, want the node, %s", client, node)
			}
			return err
		})
		eventually(t, time.Minute, fmt.Sprintf("node port of win-%d, from win-1", i+1), func() error {
			curl := c.command(t.Context(), "exec", "win-1", "--", "curl.exe", "-sS", "--max-time", "3", url)
			out, err := curl.CombinedOutput()
			if err == nil && !strings.Contains(string(out), "asked by") {
				err = errors.New("no answer")
			}
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		})
	}
}
