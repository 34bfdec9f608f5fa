// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// Confidence is how far a signal can be trusted.
type Confidence int

// The confidences, weakest first.
const (
	Low     Confidence = iota // paths, names of programs, images on nodes, defaults
	Medium                    // names of images
	High                      // RuntimeClass, build labels, a registry's answer
	Certain                   // stated in the pod
)

// Signal is something in a pod that indicates its operating system.
type Signal struct {
	OS         string
	What       string // "spec.os.name is windows"
	Short      string // "spec.os.name"
	At         tree.Value
	Confidence Confidence
	Origin     Origin
}

// Origin is the kind of a signal; conflicts depend on it.
type Origin int

const (
	fromName Origin = iota
	FromOptions
	fromSelector
	fromRuntimeClass
	fromBuildLabel
	fromRegistry
	fromImageName
	FromIsolation
	fromPresence
	fromProgram  // something that only a Windows container starts or mounts
	FromContents // something that hints at one
	FromDefault
)

// isolationAnnotation requested Hyper-V isolation from dockershim.
const isolationAnnotation = "experimental.windows.kubernetes.io/isolation-type"

// signals lists the signals that indicate the pod's operating system, most
// trustworthy first.
func signals(p *Pod) []Signal {
	var s signalList
	if v := p.Spec.Find("os", "name"); v.Set() {
		s.add(fromName, Certain, v.Str(), v, "spec.os.name", "spec.os.name is %s", v.Str())
	}
	for _, at := range WindowsOptions(p) {
		s.add(FromOptions, Certain, "windows", at, "windowsOptions", "windowsOptions are set")
	}
	for _, r := range Required(p) {
		short := r.How + " " + r.Key + "=" + r.Value
		switch {
		case IsOSLabel(r.Key):
			s.add(fromSelector, Certain, r.Value, r.At, short, "%s selects %s=%s", r.How, r.Key, r.Value)
		case r.Key == BuildLabel, r.Key == "kubernetes.azure.com/os-sku" && strings.HasPrefix(r.Value, "Windows"):
			s.add(fromBuildLabel, High, "windows", r.At, short, "%s selects %s=%s", r.How, r.Key, r.Value)
		case r.Key == "cloud.google.com/gke-windows-os-version":
			s.add(fromBuildLabel, High, "windows", r.At, short, "%s selects %s=%s", r.How, r.Key, r.Value)
		case r.Key == "kubernetes.azure.com/os", r.Key == "cattle.io/os":
			s.add(fromBuildLabel, High, r.Value, r.At, short, "%s selects %s=%s", r.How, r.Key, r.Value)
		}
	}
	if name := p.Spec.Find("runtimeClassName"); name.Set() {
		class, ok := p.Facts().RuntimeClasses[name.Str()]
		short := "RuntimeClass " + name.Str()
		switch {
		case ok && class.NodeSelector["kubernetes.io/os"] != "":
			s.add(fromRuntimeClass, High, class.NodeSelector["kubernetes.io/os"], name, short,
				"RuntimeClass %s selects kubernetes.io/os=%s", name.Str(), class.NodeSelector["kubernetes.io/os"])
		case ok && strings.HasPrefix(class.Handler, "runhcs-wcow-"):
			s.add(fromRuntimeClass, High, "windows", name, short, "RuntimeClass %s has the handler %s", name.Str(),
				class.Handler)
		}
	}
	imageSignals(p, &s)
	if len(s) == 0 {
		contentSignals(p, &s)
		if os, from := p.DefaultOS(); os != "" {
			s.add(FromDefault, Low, os, tree.Value{}, "default of "+from, "the default of %s is %s", from, os)
		}
	}
	return s
}

// signalList collects signals; add drops signals for unknown operating systems.
type signalList []Signal

func (s *signalList) add(src Origin, c Confidence, os string, at tree.Value, short, format string, args ...any) {
	if os = strings.ToLower(os); os == "windows" || os == "linux" {
		*s = append(*s, Signal{
			OS:         os,
			What:       fmt.Sprintf(format, args...),
			Short:      short,
			At:         at,
			Confidence: c,
			Origin:     src,
		})
	}
}

// imageSignals adds the signals of the images: from registries, from their
// names, and from the nodes that have them.
func imageSignals(p *Pod, s *signalList) {
	for _, c := range p.Containers {
		if os, ok := RegistryOS(p.Facts().Images[c.Image]); ok {
			s.add(fromRegistry, High, os, c.Get("image"), "the image of container "+c.Name,
				"the image %s is only for %s", c.Image, os)
		}
	}
	for _, c := range p.Containers {
		if WindowsImage(c.Image) {
			s.add(fromImageName, Medium, "windows",
				c.Get("image"), "the image of container "+c.Name, "the image %s is a Windows image by its name",
				c.Image)
		}
	}
	for _, meta := range []tree.Value{p.Meta, p.Object.Get("metadata")} {
		if a := meta.Find("annotations", isolationAnnotation); a.Str() != "" {
			s.add(FromIsolation, Medium, "windows", a, "annotation isolation-type",
				"the annotation isolation-type is %s", a.Str())
			break
		}
	}
	for _, c := range p.Containers {
		// A registry that names both operating systems takes precedence over the nodes that happen to have the
		// image.
		if oses := p.Facts().PresentImages[c.Image]; len(oses) == 1 && len(p.Facts().Images[c.Image].Platforms) == 0 {
			s.add(fromPresence, Low, oses[0], c.Get("image"), "nodes have the image of container "+c.Name,
				"only %s nodes have the image %s", oses[0], c.Image)
		}
	}
}

// contentSignals adds guesses from the programs and mounts of the containers.
func contentSignals(p *Pod, s *signalList) {
	for _, c := range p.Containers {
		if at := windowsProgram(c); at.Set() {
			s.add(fromProgram, Low, "windows", at, at.Path().String(), "it uses %s", at.Path())
		}
	}
	for _, c := range p.Containers {
		if at := windowsContents(c); at.Set() && len(*s) == 0 {
			s.add(FromContents, Low, "windows", at, at.Path().String(), "it uses %s", at.Path())
		}
	}
}

// DefaultOS returns the operating system of pods without a signal, and the
// setting it comes from, or "" if there is no default.
func (p *Pod) DefaultOS() (os, from string) {
	if os := p.Facts().Namespaces[p.Object.Namespace].Labels[DefaultOSLabel]; os != "" {
		return os, "namespace " + p.Object.Namespace
	}
	return p.Facts().DefaultOS, "the cluster"
}

// Signal returns the first signal from one of the sources.
func (p *Pod) Signal(sources ...Origin) (Signal, bool) {
	for _, s := range p.Signals {
		if slices.Contains(sources, s.Origin) {
			return s, true
		}
	}
	return Signal{}, false
}

// WindowsOptions returns the windowsOptions that are set, of the pod and of its containers.
func WindowsOptions(p *Pod) []tree.Value {
	var out []tree.Value
	for _, at := range append([]tree.Value{p.Spec}, ContainerValues(p.Containers)...) {
		if v := at.Find("securityContext", "windowsOptions"); v.Len() > 0 {
			out = append(out, v)
		}
	}
	return out
}

// ContainerValues returns the containers as values.
func ContainerValues(containers []Container) []tree.Value {
	out := make([]tree.Value, len(containers))
	for i, c := range containers {
		out[i] = c.Value
	}
	return out
}

// BuildLabel is the label that the kubelet of a Windows node sets.
const BuildLabel = "node.kubernetes.io/windows-build"

// IsOSLabel reports whether a label of nodes names the operating system.
func IsOSLabel(key string) bool { return key == "kubernetes.io/os" || key == "beta.kubernetes.io/os" }

// Requirement is one label that a node must have for the pod.
type Requirement struct {
	Key, Value string
	At         tree.Value
	How        string // nodeSelector or nodeAffinity
}

// Required lists the labels that a node must have for the pod: its
// nodeSelector, and the labels that all terms of its required affinity share.
func Required(p *Pod) []Requirement {
	var out []Requirement
	sel := p.Spec.Find("nodeSelector")
	for _, k := range sel.Keys() {
		out = append(out, Requirement{k, sel.Get(k).Str(), sel.Get(k), "nodeSelector"})
	}
	terms := AffinityTerms(p)
	if len(terms) == 0 {
		return out
	}
	for _, r := range single(terms[0]) {
		everywhere := true
		for _, other := range terms[1:] {
			found := false
			for _, o := range single(other) {
				found = found || o.Key == r.Key && o.Value == r.Value
			}
			everywhere = everywhere && found
		}
		if everywhere {
			out = append(out, r)
		}
	}
	return out
}

// AffinityTerms returns the terms of the required node affinity, which are alternatives.
func AffinityTerms(p *Pod) []tree.Value {
	return p.Spec.Find("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
		"nodeSelectorTerms").Items()
}

// single lists the expressions of a term that allow only one value of a label.
func single(term tree.Value) []Requirement {
	var out []Requirement
	for _, e := range term.Get("matchExpressions").Items() {
		vals := e.Get("values").Items()
		key := e.Get("key").Str()
		if len(vals) != 1 {
			continue
		}
		switch e.Get("operator").Str() {
		case "In":
			out = append(out, Requirement{key, vals[0].Str(), vals[0], "nodeAffinity"})
		case "NotIn": // there are two operating systems
			if other := map[string]string{"windows": "linux", "linux": "windows"}[vals[0].Str()]; IsOSLabel(key) &&
				other != "" {
				out = append(out, Requirement{key, other, vals[0], "nodeAffinity"})
			}
		}
	}
	return out
}

// Confident reports whether the operating system is certain enough to be
// written into the pod.
func (p *Pod) Confident() bool { return len(p.Signals) > 0 && p.Signals[0].Confidence >= Medium }

// SelectsOS reports whether the scheduler gets the operating system from the pod.
func SelectsOS(p *Pod) bool {
	_, ok := p.Signal(fromSelector, fromBuildLabel, fromRuntimeClass)
	return ok
}
