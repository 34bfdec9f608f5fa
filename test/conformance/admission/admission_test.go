// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package admission_test holds the webhooks against a real API server: objects
// are written with kubectl, and what the user sees and what is stored is looked
// at.
package admission_test

import (
	"strings"
	"testing"
)

func TestAdmission(t *testing.T) {
	c := startCluster(t)
	m, _ := c.startManager(nil)
	c.ready(m)
	out, code := c.kubectl(`apiVersion: v1
kind: Pod
metadata: {name: refused, namespace: default}
spec:
  os: {name: windows}
  hostIPC: true
  containers: [{name: c, image: "mcr.microsoft.com/windows/nanoserver:ltsc2022", resources: {limits: {"nvidia.com/gpu": 1}}, volumeMounts: [{name: v, mountPath: /x}]}]
  volumes: [{name: v, emptyDir: {medium: Memory}}]
`, "apply", "-f", "-")
	t.Log(code, out)
	out, code = c.kubectl(`apiVersion: apps/v1
kind: Deployment
metadata: {name: refused, namespace: default}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      os: {name: windows}
      hostIPC: true
      containers: [{name: c, image: "mcr.microsoft.com/windows/nanoserver:ltsc2022", securityContext: {privileged: true}, volumeMounts: [{name: v, mountPath: /x}]}]
      volumes: [{name: v, emptyDir: {medium: Memory}}]
`, "apply", "-f", "-")
	t.Log(code, out)
	out, code = c.kubectl("", "get", "mutatingwebhookconfigurations,validatingwebhookconfigurations,secrets,crd", "-A")
	t.Log(code, out)
	t.Log(c.log.String()[strings.LastIndex(c.log.String(), "probe"):])
}
