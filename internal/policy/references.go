// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"slices"
)

// References lists the objects and images to which one pod or pod template
// refers.
type References struct {
	Images         []string // of all containers, as written in the pod, each once
	PullSecrets    []string // names of Secrets in its namespace
	ServiceAccount string   // "" for the default
	RuntimeClass   string   // "" if not set
}

// References returns the references of the pods and templates of an object, in
// order: the facts that are worth collecting for Evaluate and Place.
func (p *Parsed) References() []References {
	var out []References
	for _, p := range Pods(p.items) {
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

// Pods returns the pods and templates of objects, in order.
func Pods(objects []*Object) []*Pod {
	var out []*Pod
	for _, o := range objects {
		out = append(out, o.Pods...)
	}
	return out
}
