// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// workloadYAML has each kind of controller that other tests do not use. No
// manifest names an operating system: placement finds the node by the image.
const workloadYAML = `apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers:
      - {name: web, image: "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2019"}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  replicas: 2
  selector: {app: old}
  template:
    metadata: {labels: {app: old}}
    spec:
      containers:
      - {name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019", command: [cmd, /c, ping -t localhost]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: three}
spec:
  completions: 3
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019", command: [cmd, /c, echo done]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: broken}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019", command: [cmd, /c, exit 3]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "* * * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
          - {name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019", command: [cmd, /c, echo tick]}
`

// TestWorkloads: each kind of controller runs its pods on Windows nodes.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	c.apply(t, ns, workloadYAML)
	for _, tc := range []struct{ name, object, path, want string }{
		{"StatefulSet", "statefulset/db", "{.status.readyReplicas}", "2"},
		{"ReplicationController", "replicationcontroller/old", "{.status.readyReplicas}", "2"},
		{"Job", "job/three", `{.status.succeeded} {.status.conditions[?(@.type=="Complete")].status}`, "3 True"},
		{"Job that fails", "job/broken", `{.status.conditions[?(@.type=="Failed")].reason}`, "BackoffLimitExceeded"},
		{"CronJob", "cronjob/nightly", "{.status.lastSuccessfulTime}", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eventually(t, 2*time.Minute, tc.object, func() error {
				got, err := c.kubectlErr(t.Context(), "get", "-n", ns, tc.object, "-o", "jsonpath="+tc.path)
				if err == nil && (got == "" || tc.want != "" && got != tc.want) {
					err = fmt.Errorf("%s is %q, want %q", tc.path, got, tc.want)
				}
				return err
			})
		})
	}
	t.Run("identity of a StatefulSet's pods", func(t *testing.T) {
		if got := strings.TrimSpace(c.exec(t, ns, "db-1", "hostname")); got != "db-1" {
			t.Errorf("hostname is %q, want db-1", got)
		}
		c.exec(t, ns, "db-1", "curl.exe", "-sf", "-o", "NUL", "http://db-0.db."+ns+".svc.cluster.local")
		before := c.get(t, ns, "db-0", "{.metadata.uid}")
		c.kubectl(t, "delete", "pod", "-n", ns, "db-0", "--wait=true")
		eventually(t, time.Minute, "the next db-0", func() error {
			out, err := c.kubectlErr(t.Context(), "get", "pod", "-n", ns, "db-0", "-o",
				`jsonpath={.metadata.uid} {.status.conditions[?(@.type=="Ready")].status}`)
			if err == nil && (!strings.HasSuffix(out, " True") || strings.HasPrefix(out, before)) {
				err = fmt.Errorf("pod is %q", out)
			}
			return err
		})
	})
}

// servicesYAML has each kind of Service that TestPodsReachServices does not use.
const servicesYAML = `apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: each}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: alias}
spec: {type: ExternalName, externalName: web.NS.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: outside}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - {name: web, image: "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2019"}
`

// TestServiceKinds: names and variables of Services, as a pod sees them.
func TestServiceKinds(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	c.apply(t, ns, strings.ReplaceAll(servicesYAML, "NS", ns))
	c.ready(t, ns, "web")
	ip, port := c.kubectl(t, "get", "service", "-n", ns, "web", "-o", "jsonpath={.spec.clusterIP}"), "80"
	// The variables are those of Services that existed before the pod.
	if got := strings.TrimSpace(c.exec(t, ns, "web", "cmd", "/c",
		"echo %WEB_SERVICE_HOST% %WEB_SERVICE_PORT%")); got != ip+" "+port {
		t.Errorf("variables are %q, want %s %s", got, ip, port)
	}
	for _, service := range []string{"web", "each", "alias", "outside"} {
		t.Run(service, func(t *testing.T) {
			eventually(t, 30*time.Second, service, func() error {
				out, err := c.kubectlErr(t.Context(), "exec", "-n", ns, "web", "--", "curl.exe", "-s", "-o", "NUL",
					"-w", "%{http_code}", "--max-time", "10", "http://"+service+"."+ns+".svc.cluster.local")
				if err == nil && strings.TrimSpace(out) != "200" {
					err = fmt.Errorf("status %q", out)
				}
				return err
			})
		})
	}
	t.Run("a headless Service is its pods", func(t *testing.T) {
		out := c.exec(t, ns, "web", "nslookup", "each."+ns+".svc.cluster.local")
		if pod := c.get(t, ns, "web", "{.status.podIP}"); !strings.Contains(out, pod) {
			t.Errorf("nslookup does not print %s: %s", pod, out)
		}
	})
}
