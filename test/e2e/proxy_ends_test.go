// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"testing"
	"time"
)

// TestProxyEnds stops kube-proxy.exe of a node: after a moment no new connection is lost, whichever node it would
// have gone to. The agent starts the service again. The test is not parallel, because kube-proxy.exe begins by removing
// all Services of its node.
func TestProxyEnds(t *testing.T) {
	c := alone(t)
	c.withWinprog(t)
	s := services{c, c.namespace(t)}
	const container = `{name: main, image: "` + winprogImage + `", args: [answer, ":8080"],
    readinessProbe: {httpGet: {port: 8080}}}`
	s.apply(t, s.ns, `
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: answers}}
spec: {nodeName: win-1, containers: [`+container+`]}
---
apiVersion: v1
kind: Pod
metadata: {name: two, labels: {app: answers}}
spec: {nodeName: win-2, containers: [`+container+`]}
---
apiVersion: v1
kind: Service
metadata: {name: spread}
spec: {type: LoadBalancer, selector: {app: answers}, ports: [{port: 80, targetPort: 8080}]}
`)
	s.ready(t, s.ns, "one", "two")
	url := "http://" + s.address(t, "spread")
	both(t, func() (server, client string, err error) { return askHere(url) })
	s.kill(t, "kube-proxy.exe", "win-1", true)
	time.Sleep(10 * time.Second) // what the test is about
	for range 100 {
		if _, _, err := askHere(url); err != nil {
			t.Error(err)
		}
	}
}
