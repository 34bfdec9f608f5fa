// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package place

import (
	"maps"
	"slices"
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy"
)

func TestUnclear(t *testing.T) {
	facts := policy.Facts{
		Nodes: []policy.Node{{OS: "windows"}, {OS: "linux"}},
		Images: map[string]policy.Image{"known:1": {Platforms: []policy.Platform{{OS: "windows"}}},
			"knownlinux:1": {Platforms: []policy.Platform{{OS: "linux"}}}},
		PresentImages: map[string][]string{"onlinux:1": {"linux"}, "onwindows:1": {"windows"},
			"onboth:1": {"linux", "windows"}},
		RuntimeClasses: map[string]policy.RuntimeClass{"w22": {NodeSelector: map[string]string{
			"kubernetes.io/os":                 "windows",
			"node.kubernetes.io/windows-build": "10.0.20348"}}},
		Namespaces: map[string]policy.Namespace{"win": {Labels: map[string]string{policy.DefaultOSLabel: "windows"}}},
	}
	type m = map[string]any
	for _, c := range []struct {
		name   string
		kind   string // Pod if empty
		spec   m
		meta   m
		images []string
		want   []string
	}{
		{name: "nothing said", images: []string{"a:1", "b:1", "a:1"}, want: []string{"a:1", "b:1"}},
		{name: "Linux selected", spec: m{"nodeSelector": m{"kubernetes.io/os": "linux"}}, images: []string{"a:1"}},
		{name: "Windows selected, no build", spec: m{"nodeSelector": m{"kubernetes.io/os": "windows"}},
			images: []string{"a:1", "mcr.microsoft.com/windows/nanoserver:ltsc2022"}, want: []string{"a:1"}},
		{name: "build selected", spec: m{"nodeSelector": m{"node.kubernetes.io/windows-build": "10.0.17763"}},
			images: []string{"a:1"}},
		{name: "build of the RuntimeClass", spec: m{"runtimeClassName": "w22"}, images: []string{"a:1"}},
		{name: "HostProcess", spec: m{"securityContext": m{"windowsOptions": m{"hostProcess": true}}},
			images: []string{"a:1"}},
		{name: "beside a base image", images: []string{"mcr.microsoft.com/windows/servercore:ltsc2019", "sidecar:1"},
			want: []string{"sidecar:1"}},
		{name: "a name for Windows without a build", images: []string{"a:nanoserver"}, want: []string{"a:nanoserver"}},
		{name: "known", images: []string{"known:1", "a:1"}, want: []string{"a:1"}},
		{name: "known to be for Linux", images: []string{"knownlinux:1", "a:1"}},
		{name: "Linux nodes have it", images: []string{"onlinux:1", "a:1"}, want: []string{"a:1"}},
		{name: "Windows nodes have it", images: []string{"onwindows:1", "onlinux:1"},
			want: []string{"onwindows:1", "onlinux:1"}},
		{name: "all nodes have it", images: []string{"onboth:1"}, want: []string{"onboth:1"}},
		{name: "a DaemonSet may be for both", kind: "DaemonSet", images: []string{"onlinux:1"},
			want: []string{"onlinux:1"}},
		{name: "Windows is the default", meta: m{"namespace": "win"}, images: []string{"onlinux:1"},
			want: []string{"onlinux:1"}},
		{name: "on a node already", spec: m{"nodeName": "n"}, images: []string{"a:1"}},
		{name: "left alone", meta: m{"annotations": m{SkipAnnotation: "true"}}, images: []string{"a:1"}},
	} {
		var containers []any
		for _, i := range c.images {
			containers = append(containers, m{"image": i})
		}
		spec := m{"containers": containers}
		maps.Copy(spec, c.spec)
		object := m{"apiVersion": "v1", "kind": "Pod", "metadata": c.meta, "spec": spec}
		if c.kind == "DaemonSet" {
			object = m{"apiVersion": "apps/v1", "kind": c.kind, "spec": m{"template": m{"spec": spec}}}
		}
		if got := Unclear(policy.Parse(object), facts); len(got) != 1 || !slices.Equal(got[0], c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		linux := facts
		linux.Nodes = []policy.Node{{OS: "linux"}}
		if got := Unclear(policy.Parse(object), linux); len(got) != 1 || got[0] != nil {
			t.Errorf("%s, without Windows nodes: %v", c.name, got)
		}
	}
}
