// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"
)

// metricsPods has pods of each kind, and one that has ended: neither it nor the
// HostProcess pod may take the figures of the others away.
const metricsPods = `apiVersion: v1
kind: Pod
metadata: {name: two}
spec:
  nodeSelector: {kubernetes.io/hostname: win-1}
  containers:
  - {name: a, image: "mcr.microsoft.com/windows/servercore:ltsc2019", command: [cmd, /c, ping -t localhost]}
  - name: b
    image: mcr.microsoft.com/windows/servercore:ltsc2019
    command: [cmd, /c, ping -t localhost]
    volumeMounts: [{name: scratch, mountPath: 'C:\scratch'}]
  volumes: [{name: scratch, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: ended}
spec:
  nodeSelector: {kubernetes.io/hostname: win-1}
  restartPolicy: Never
  containers:
  - {name: gone, image: "mcr.microsoft.com/windows/servercore:ltsc2019", command: [cmd, /c, exit 1]}
  - {name: stays, image: "mcr.microsoft.com/windows/servercore:ltsc2019", command: [cmd, /c, ping -t localhost]}
---
apiVersion: v1
kind: Pod
metadata: {name: host}
spec:
  nodeSelector: {kubernetes.io/hostname: win-1}
  hostNetwork: true
  securityContext: {windowsOptions: {hostProcess: true, runAsUserName: 'NT AUTHORITY\SYSTEM'}}
  containers:
  - name: main
    image: mcr.microsoft.com/oss/kubernetes/windows-host-process-containers-base-image:v1.0.0
    command: [cmd, /c, ping -t localhost]
---
`

// TestMetrics: kubectl top has figures for nodes and pods of both systems.
func TestMetrics(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withLinuxprog(t)
	ns := c.namespace(t)
	c.apply(t, ns, metricsPods+linuxPod("linux", "serve"))
	c.ready(t, ns, "two", "host", "linux")
	for _, tc := range []struct {
		args  []string
		lines []string
	}{
		{[]string{"nodes"}, []string{"^win-1 +[0-9]+m .*Mi", "^linux-1 +[0-9]+m .*Mi"}},
		{[]string{"pods", "-n", ns, "--containers"}, []string{`^two +a +\d+m +[1-9]\d*Mi`, `^two +b +\d+m +[1-9]\d*Mi`,
			`^ended +stays +\d+m +[1-9]\d*Mi`, `^host +main +\d+m +[1-9]\d*Mi`, `^linux +main +\d+m +[1-9]\d*Mi`}},
	} {
		eventually(t, 90*time.Second, "kubectl top "+tc.args[0], func() error {
			out, err := c.kubectlErr(t.Context(), append([]string{"top"}, tc.args...)...)
			for _, want := range tc.lines {
				if err == nil && !regexp.MustCompile(`(?m)`+want).MatchString(out) {
					err = fmt.Errorf("no line %s:\n%s", want, out)
				}
			}
			return err
		})
	}
	t.Run("dashboard", func(t *testing.T) { checkDashboard(t, c) })
	t.Run("summary", func(t *testing.T) { checkSummary(t, c, ns) })
	c.kubectl(t, "delete", "pod", "-n", ns, "--all", "--grace-period=0", "--force")
}

// TestAutoscaling applies examples/hpa.yaml: load makes three replicas of one, and its
// end one of three.
func TestAutoscaling(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	manifest, err := os.ReadFile(filepath.Join("..", "..", "examples", "hpa.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// Another HPA looks at memory: a megabyte is exceeded at once.
	c.apply(t, ns, string(manifest)+`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: large}
spec:
  selector: {matchLabels: {app: large}}
  template:
    metadata: {labels: {app: large}}
    spec:
      containers:
      - name: main
        image: mcr.microsoft.com/windows/servercore:ltsc2019
        command: [cmd, /c, ping -t localhost]
        resources: {requests: {memory: 100Mi}, limits: {memory: 300Mi}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: large}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: large}
  minReplicas: 1
  maxReplicas: 2
  metrics: [{type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Mi}}}]
`)
	c.kubectl(t, "rollout", "status", "-n", ns, "deployment/busy", "--timeout=180s")
	replicas := func(deployment, want string) {
		t.Helper()
		eventually(t, 2*time.Minute, want+" replicas of "+deployment, func() error {
			got, err := c.kubectlErr(t.Context(), "get", "deployment", "-n", ns, deployment, "-o",
				"jsonpath={.spec.replicas}")
			if err == nil && got != want {
				hpa, _ := c.kubectlErr(t.Context(), "get", "hpa", "-n", ns)
				err = fmt.Errorf("%s replicas:\n%s", got, hpa)
			}
			return err
		})
	}
	began := time.Now()
	end := load(t, c.url(t, "-n", ns, "busy"))
	replicas("busy", "3")
	t.Logf("three replicas %s after load began", time.Since(began).Round(time.Second))
	end()
	replicas("large", "2")
	replicas("busy", "1")
	c.kubectl(t, "delete", "deployment,hpa", "-n", ns, "--all")
}

// load asks for a page again and again until the returned function is called.
func load(t *testing.T, url string) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
				if err != nil {
					return
				}
				// A connection each, so that kube-proxy chooses again.
				req.Close = true
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					time.Sleep(50 * time.Millisecond) // a pod that has just gone
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	stop := func() {
		cancel()
		clients.Wait()
	}
	t.Cleanup(stop)
	return stop
}
