// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

const name = "bench"

// cluster is a cluster that is started and measured.
type cluster struct {
	b   *testing.B
	dir string
}

// newCluster returns a cluster that has not been started. It is removed after the
// benchmark.
func newCluster(b *testing.B) cluster {
	b.Helper()
	testenv.Need(b, testenv.Root, testenv.Wine, testenv.Runc, testenv.Nft, testenv.Built)
	dir, err := os.MkdirTemp("", "mullion-bench-")
	if err != nil {
		b.Fatal(err)
	}
	c := cluster{b, dir}
	b.Cleanup(func() {
		c.mullion("down", "--purge")
		if err := os.RemoveAll(dir); err != nil {
			b.Error(err)
		}
	})
	return c
}

func (c cluster) mullion(args ...string) {
	c.b.Helper()
	out, err := exec.Command(testenv.Bin("mullion"), append(args, "--name", name, "--data-dir", c.dir)...).
		CombinedOutput()
	if err != nil {
		c.b.Fatalf("mullion %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (c cluster) kubectl(args ...string) {
	c.b.Helper()
	cmd := exec.Command(testenv.Bin("mullion"), append([]string{"kubectl", "--name", name, "--data-dir", c.dir},
		args...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		c.b.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
}

// run returns a path in the cluster's run directory.
func (c cluster) run(elem ...string) string {
	return filepath.Join(append([]string{c.dir, "clusters", name, "run"}, elem...)...)
}

// ready is when the component became ready, by the supervisor's own record.
func (c cluster) ready(component string) time.Time {
	c.b.Helper()
	var st struct {
		Components []struct {
			Name  string    `json:"name"`
			Since time.Time `json:"since"`
		} `json:"components"`
	}
	content, err := exec.Command(testenv.Bin("mullion"), "status", "-o", "json", "--name", name, "--data-dir",
		c.dir).Output()
	if err == nil {
		err = json.Unmarshal(content, &st)
	}
	if err != nil {
		c.b.Fatal(err)
	}
	for _, x := range st.Components {
		if x.Name == component {
			return x.Since
		}
	}
	c.b.Fatalf("no component %s", component)
	return time.Time{}
}

// BenchmarkCluster measures one life of a cluster of two hosts (the default has
// three) with everything built and cached: start, first page of the guide's web
// server, idle cost, pod starts.
func BenchmarkCluster(b *testing.B) {
	c := newCluster(b)
	// The first start fills the cache and is not measured.
	c.mullion("up", "--windows", "2019,2019", "--linux", "0", "--kubeconfig", "none")
	c.forget()
	for b.Loop() {
		began := time.Now()
		c.mullion("up", "--windows", "2019,2019", "--linux", "0", "--kubeconfig", "none")
		b.ReportMetric(c.ready("server").Sub(began).Seconds(), "s/control-plane-ready")
		b.ReportMetric(max(c.ready("win-1").Sub(began).Seconds(), c.ready("win-2").Sub(began).Seconds()),
			"s/nodes-ready")
		c.webServer()
		c.idle()
		c.podStarts(20, workload{"windows", "mcr.microsoft.com/windows/servercore:ltsc2019"}, "--command", "--",
			"ping.exe", "-t", "localhost")
	}
	b.ReportMetric(0, "ns/op") // meaningless for a sum of different things
}

// webServer measures from `kubectl apply` of the guide's manifest to its page.
func (c cluster) webServer() {
	began := time.Now()
	c.kubectl("apply", "-f", testenv.Repo("test", "e2e", "testdata", "guide", "win-webserver.yaml"))
	url := ""
	for {
		if url == "" {
			out, err := exec.Command(testenv.Bin("mullion"), "url", "win-webserver", "--name", name, "--data-dir",
				c.dir).Output()
			if err == nil {
				url = strings.TrimSpace(string(out))
			}
		}
		if url != "" {
			client := http.Client{Timeout: time.Second}
			if resp, err := client.Get(url); err == nil {
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err == nil && strings.Contains(string(body), "Windows Container Web Server") {
					break
				}
			}
		}
		if time.Since(began) > 2*time.Minute {
			c.b.Fatal("the web server does not answer")
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.b.ReportMetric(time.Since(began).Seconds(), "s/web-server-answers")
	c.kubectl("delete", "-f", testenv.Repo("test", "e2e", "testdata", "guide", "win-webserver.yaml"))
}

// idle measures the memory of a cluster that does nothing.
func (c cluster) idle() {
	held := c.settled("win-1", "win-2")
	c.b.ReportMetric(held.server, "MB-PSS/server-idle")
	c.b.ReportMetric((held.nodes["win-1"]+held.nodes["win-2"])/2, "MB-PSS/host-idle")
}

func (c cluster) initPID(node string) int {
	var st struct {
		InitPID int `json:"initPID"`
	}
	content, err := os.ReadFile(c.run(node + ".json"))
	if err == nil {
		err = json.Unmarshal(content, &st)
	}
	if err != nil {
		c.b.Fatal(err)
	}
	return st.InitPID
}

// workload says of which image podStarts makes pods.
type workload struct{ os, image string }

// podStarts creates n pods, one a second, and measures from creation to
// "containers started" as Kubernetes' own SLI does: by the pod's conditions
// and its container's start time, which have a resolution of one second on the
// wire; so the watch's arrival time is taken instead.
func (c cluster) podStarts(n int, w workload, command ...string) {
	watch := exec.Command(testenv.Bin("mullion"), "kubectl", "--name", name, "--data-dir", c.dir, "get", "pods", "-l",
		"bench=start", "-w",
		"-o", `jsonpath={.metadata.name} {.status.containerStatuses[0].started}{"\n"}`)
	out, err := watch.StdoutPipe()
	if err != nil {
		c.b.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		c.b.Fatal(err)
	}
	type event struct {
		pod string
		at  time.Time
	}
	events := make(chan event, 4*n)
	go func() {
		defer close(events)
		for {
			var pod, started string
			// Short lines: the container's status is not there yet.
			if k, err := fmt.Fscanln(out, &pod, &started); err != nil && k == 0 && errors.Is(err, io.EOF) {
				return
			}
			if started == "true" {
				events <- event{pod, time.Now()}
			}
		}
	}()
	created := map[string]time.Time{}
	for i := range n {
		pod := fmt.Sprintf("start-%d", i)
		created[pod] = time.Now()
		c.kubectl(append([]string{"run", pod, "--labels=bench=start", "--image=" + w.image,
			`--overrides={"spec":{"os":{"name":"` + w.os + `"},"nodeSelector":{"kubernetes.io/os":"` + w.os +
				`"},"terminationGracePeriodSeconds":1}}`}, command...)...)
		// No multiple of the second in which the kubelet looks at its containers, so
		// that the figure does not depend on where in that second the first pod fell.
		time.Sleep(time.Until(created[pod].Add(1130 * time.Millisecond)))
	}
	var took []float64
	seen := map[string]bool{}
	limit := time.After(2 * time.Minute)
wait:
	for len(seen) < n {
		select {
		case e := <-events:
			if !seen[e.pod] && !e.at.IsZero() {
				seen[e.pod] = true
				took = append(took, e.at.Sub(created[e.pod]).Seconds())
			}
		case <-limit:
			c.b.Errorf("only %d of %d pods started", len(seen), n)
			break wait
		}
	}
	_ = watch.Process.Kill()
	_ = watch.Wait() // killed
	c.kubectl("delete", "pods", "-l", "bench=start", "--wait=true")
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	c.b.ReportMetric(took[len(took)/2], "s-p50/pod-start")
	c.b.ReportMetric(took[min(len(took)-1, len(took)*99/100)], "s-p99/pod-start")
}
