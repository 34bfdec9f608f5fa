// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import "slices"

// References lists the objects and images to which one pod or pod template
// refers.
type References struct {
	Images         []string // of all containers, as written in the pod, each once
	PullSecrets    []string // names of Secrets in its namespace
	ServiceAccount string   // "" for the default
	RuntimeClass   string   // "" for none
}

// References returns the references of the pods and templates of an object, in
// order: the facts that are worth collecting for Evaluate and Place.
func (p *Parsed) References() []References {
	var out []References
	for _, p := range pods(p.items) {
		r := References{
			ServiceAccount: p.Spec.Find("serviceAccountName").Str(),
			RuntimeClass:   p.Spec.Find("runtimeClassName").Str(),
		}
		if r.ServiceAccount == "" {
			r.ServiceAccount = p.Spec.Find("serviceAccount").Str() // its deprecated name
		}
		for _, c := range p.Containers {
			if c.Image != "" && !slices.Contains(r.Images, c.Image) {
				r.Images = append(r.Images, c.Image)
			}
		}
		for _, s := range p.Spec.Find("imagePullSecrets").Items() {
			if name := s.Get("name").Str(); name != "" {
				r.PullSecrets = append(r.PullSecrets, name)
			}
		}
		out = append(out, r)
	}
	return out
}

// Unclear lists, for each pod of References, the images that a registry should be
// asked about: those whose operating system or build is clear neither from the
// pod nor from their names. In a cluster without Windows nodes there are none,
// because the answer would change nothing.
func (p *Parsed) Unclear(facts Facts) [][]string {
	var out [][]string
	windows := slices.ContainsFunc(facts.Nodes, func(n Node) bool { return n.OS == "windows" })
	for _, p := range pods(p.under(facts)) {
		var images []string
		if windows {
			images = p.unclear()
		}
		out = append(out, images)
	}
	return out
}

func pods(objects []*object) []*pod {
	var out []*pod
	for _, o := range objects {
		out = append(out, o.Pods...)
	}
	return out
}

func (p *pod) unclear() []string {
	os := ""
	if len(p.Signals) > 0 && p.Signals[0].Confidence > Low {
		os = p.Signals[0].OS
	}
	selected := slices.ContainsFunc(required(p), func(r requirement) bool { return r.key == buildLabel }) ||
		p.facts().RuntimeClasses[p.Spec.Find("runtimeClassName").Str()].NodeSelector[buildLabel] != ""
	if os == "linux" || os == "windows" && (p.HostProcess || selected) || p.Spec.Find("nodeName").Set() ||
		leftAlone(p) != "" {
		return nil
	}
	var out []string
	for _, c := range p.Containers {
		_, known := p.facts().Images[c.Image]
		if c.Image == "" || known || c.HasBuild || slices.Contains(out, c.Image) || os == "" && p.onlyLinuxHas(c) {
			continue
		}
		out = append(out, c.Image)
	}
	return out
}

// onlyLinuxHas reports whether the image certainly runs on Linux and nothing
// hints at Windows. It may run on Windows too; that matters only to DaemonSets,
// and where Windows is the default.
func (p *pod) onlyLinuxHas(c container) bool {
	present := p.facts().PresentImages[c.Image]
	if os, _ := p.defaultOS(); os == "windows" || p.Object.Kind == "DaemonSet" || len(present) != 1 ||
		present[0] != "linux" {
		return false
	}
	return !slices.ContainsFunc(p.Signals, func(s signal) bool { return s.OS == "windows" })
}
