// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package place

import (
	"slices"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// Unclear lists, for each pod of References, the images to look up in a registry,
// because neither the pod nor the image's name shows its operating system or
// build. In a cluster without Windows nodes the lists are empty, because the
// answer would have no effect.
func Unclear(p *policy.Parsed, facts policy.Facts) [][]string {
	var out [][]string
	windows := slices.ContainsFunc(facts.Nodes, func(n policy.Node) bool { return n.OS == "windows" })
	for _, p := range policy.Pods(p.Under(facts)) {
		var images []string
		if windows {
			images = unclear(p)
		}
		out = append(out, images)
	}
	return out
}

func unclear(p *policy.Pod) []string {
	os := ""
	if len(p.Signals) > 0 && p.Signals[0].Confidence > policy.Low {
		os = p.Signals[0].OS
	}
	selected := slices.ContainsFunc(policy.Required(p),
		func(r policy.Requirement) bool { return r.Key == policy.BuildLabel }) ||
		p.Facts().RuntimeClasses[p.Spec.Find("runtimeClassName").Str()].NodeSelector[policy.BuildLabel] != ""
	if os == "linux" || os == "windows" && (p.HostProcess || selected) || p.Spec.Find("nodeName").Set() ||
		leftAlone(p) != "" {
		return nil
	}
	var out []string
	for _, c := range p.Containers {
		_, known := p.Facts().Images[c.Image]
		if c.Image == "" || known || c.HasBuild || slices.Contains(out, c.Image) || os == "" && onlyLinuxHas(p, c) {
			continue
		}
		out = append(out, c.Image)
	}
	return out
}

// onlyLinuxHas reports whether the image certainly runs on Linux and has no
// hint at Windows. It may run on Windows too; that matters only to DaemonSets,
// and where Windows is the default.
func onlyLinuxHas(p *policy.Pod, c policy.Container) bool {
	present := p.Facts().PresentImages[c.Image]
	if os, _ := p.DefaultOS(); os == "windows" || p.Object.Kind == "DaemonSet" || len(present) != 1 ||
		present[0] != "linux" {
		return false
	}
	return !slices.ContainsFunc(p.Signals, func(s policy.Signal) bool { return s.OS == "windows" })
}
