// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"
)

// dashboardSeries returns the names of the series that examples/grafana/nodes.json asks for.
func dashboardSeries(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "examples", "grafana", "nodes.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	series := regexp.MustCompile(`\b(?:node|pod|container|kubelet|resource)_[a-z_]+\b`)
	var names []string
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			found := series.FindAllString(target.Expr, -1)
			if len(found) == 0 {
				t.Errorf("panel %q has no series in %q", p.Title, target.Expr)
			}
			names = append(names, found...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkDashboard: kubelets of both systems, each with a pod, have all series of the
// dashboard.
func checkDashboard(t *testing.T, c *shared) {
	series := dashboardSeries(t)
	if len(series) < 8 {
		t.Fatalf("the dashboard has only the series %v", series)
	}
	for _, node := range []string{"win-1", "linux-1"} {
		base := "/api/v1/nodes/" + node + "/proxy/metrics"
		eventually(t, time.Minute, "series of "+node, func() error {
			text := c.kubectl(t, "get", "--raw", base) + c.kubectl(t, "get", "--raw", base+"/resource")
			for _, s := range series {
				if !regexp.MustCompile(`(?m)^` + s + `[{ ]`).MatchString(text) {
					return fmt.Errorf("no %s", s)
				}
			}
			return nil
		})
	}
}

// usage is a part of a summary that counts something.
type usage struct {
	UsageCoreNanoSeconds, WorkingSetBytes, UsedBytes, CapacityBytes, RxBytes *uint64
}

// summaryStats holds the figures that a kubelet's /stats/summary must have.
type summaryStats struct {
	Node struct {
		CPU, Memory, FS usage
		Network         struct{ Interfaces []usage }
		Runtime         struct{ ImageFS usage }
	}
	Pods []struct {
		PodRef               struct{ Name, Namespace string }
		CPU, Memory, Network usage
		Volume               []struct {
			Name string
			usage
		}
		Containers []struct {
			Name                      string
			CPU, Memory, RootFS, Logs usage
		}
	}
}

// checkSummary: the kubelet's summary of win-1 counts the node, the pod two of a
// namespace, each of its containers, its network and its volume.
func checkSummary(t *testing.T, c *shared, ns string) {
	eventually(t, time.Minute, "summary of win-1", func() error {
		var s summaryStats
		text := c.kubectl(t, "get", "--raw", "/api/v1/nodes/win-1/proxy/stats/summary")
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return err
		}
		counted := map[string]*uint64{
			"node cpu": s.Node.CPU.UsageCoreNanoSeconds, "node memory": s.Node.Memory.WorkingSetBytes,
			"node drive": s.Node.FS.CapacityBytes, "images": s.Node.Runtime.ImageFS.UsedBytes,
		}
		if len(s.Node.Network.Interfaces) == 0 {
			return fmt.Errorf("no interfaces in %s", text)
		}
		for _, p := range s.Pods {
			if p.PodRef.Namespace != ns || p.PodRef.Name != "two" {
				continue
			}
			counted["pod cpu"], counted["pod memory"] = p.CPU.UsageCoreNanoSeconds, p.Memory.WorkingSetBytes
			counted["pod network"] = p.Network.RxBytes
			for _, v := range p.Volume {
				counted["volume "+v.Name] = v.CapacityBytes
			}
			for _, k := range p.Containers {
				counted[k.Name+" cpu"], counted[k.Name+" memory"] = k.CPU.UsageCoreNanoSeconds, k.Memory.WorkingSetBytes
				counted[k.Name+" rootfs"], counted[k.Name+" logs"] = k.RootFS.UsedBytes, k.Logs.UsedBytes
			}
		}
		for _, what := range []string{"node cpu", "node memory", "node drive", "images", "pod cpu", "pod memory",
			"pod network", "volume scratch", "a cpu", "a memory", "a rootfs", "a logs", "b cpu", "b memory", "b rootfs",
			"b logs"} {
			if n := counted[what]; n == nil || *n == 0 && what != "pod network" {
				return fmt.Errorf("%s is not counted: %v", what, counted)
			}
		}
		return nil
	})
}
