// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cluster"
	"github.com/mullion-k8s/mullion/internal/host/imageload"
)

func TestHostsFor(t *testing.T) {
	cfg := cluster.Config{Name: "x", Windows: []string{"2019", "2022", "2025"}, Linux: 1}
	old := imageload.Image{OS: "windows", Arch: "amd64", OSVersion: "10.0.17763.6893"}
	newer := imageload.Image{OS: "windows", Arch: "amd64", OSVersion: "10.0.20348.2762"}
	oldest := imageload.Image{OS: "windows", Arch: "amd64", OSVersion: "10.0.14393.0"}
	linux := imageload.Image{OS: "linux", Arch: "amd64"}
	for _, c := range []struct {
		images []imageload.Image
		want   string // hosts, or what the error has
	}{
		{[]imageload.Image{old}, "win-1"},
		{[]imageload.Image{newer}, "win-2 win-3"},
		{[]imageload.Image{{OS: "windows"}}, "win-1 win-2 win-3"},
		{[]imageload.Image{old, linux}, "win-1 linux-1"},
		{[]imageload.Image{oldest, linux}, "linux-1"},
		{[]imageload.Image{oldest}, `for windows/amd64 10.0.14393.0, and no host of cluster "x" can run them`},
	} {
		got, err := hostsFor(cfg, c.images)
		if err != nil && !strings.Contains(err.Error(), c.want) ||
			err == nil && !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%v: %v, %v, want %s", c.images, got, err, c.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	image := func(name string, noBase bool) imageload.Image {
		return imageload.Image{Names: []string{name}, OS: "windows", NoBase: noBase}
	}
	got := warnings([]imageload.Image{image("x.test/a:1", true), image("x.test/a:1", true),
		image("x.test/b:latest", false), image("x.test/c:1", false)})
	if len(got) != 2 || !strings.HasPrefix(got[0], "x.test/a:1: no host recognizes layers of Microsoft's") ||
		!strings.HasPrefix(got[1], "x.test/b:latest: Kubernetes pulls") {
		t.Errorf("%q", got)
	}
}
