// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Parsed is a parsed object: the items of a List, or the object itself, each
// with its pods. It may be evaluated any number of times, with different facts,
// and concurrently; the object must not be changed meanwhile.
type Parsed struct {
	Object map[string]any
	items  []*Object // without facts and the fields derived from them
}

// Parse parses an object.
func Parse(object map[string]any) *Parsed {
	return &Parsed{Object: object, items: parse(tree.Root(object), 0)}
}

// Len returns the number of objects: the items of a List, or one.
func (p *Parsed) Len() int { return len(p.items) }

// Objects returns the items of a List, or the object itself.
func (p *Parsed) Objects() []tree.Value {
	out := make([]tree.Value, len(p.items))
	for i, o := range p.items {
		out[i] = o.Value
	}
	return out
}

// DropPatches removes the objects that are only patches of others, and returns
// them. No container of a patch has an image. Unless an object is certainly meant to
// be one, as by a user who names its file, a workload counts as a patch too that has no
// selector, and no labels or no pod in its template: one that replaces an image, or adds
// labels.
func (p *Parsed) DropPatches(certain bool) []tree.Value {
	var patches []tree.Value
	p.items = slices.DeleteFunc(p.items, func(o *Object) bool {
		patch := slices.ContainsFunc(o.Pods, (*Pod).patch) || !certain && o.lacksSelector()
		if patch {
			patches = append(patches, o.Value)
		}
		return patch
	})
	return patches
}

// lacksSelector reports whether a workload has neither the selector that it must
// have nor a template with a pod and the labels that would have to match it.
func (o *Object) lacksSelector() bool {
	return o.Find("apiVersion").Str() == "apps/v1" && kinds[kindOf(o.APIVersion, o.Kind)].fixed &&
		!o.Find("spec", "selector").Set() && (!o.Find("spec", "template", "metadata", "labels").Set() ||
		!o.Find("spec", "template", "spec").Set())
}

// patch reports whether p is not a whole pod but a patch of one.
func (p *Pod) patch() bool {
	list := p.Spec.Get("containers")
	if list.Set() && !IsList(list) {
		return false // malformed
	}
	return !slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Image != "" })
}

// Under returns the items under the given facts, with the operating systems of
// their pods.
func (p *Parsed) Under(facts Facts) []*Object {
	out := make([]*Object, len(p.items))
	for i, item := range p.items {
		o := *item
		o.Facts = facts
		o.Facts.Related.viewer = viewer{facts.Location, identify(o.Kind, o.Namespace, o.Name)}
		o.Pods = make([]*Pod, len(item.Pods))
		for j, bare := range item.Pods {
			pod := *bare
			pod.Object = &o
			pod.Signals = signals(&pod)
			if len(pod.Signals) > 0 {
				pod.OS = pod.Signals[0].OS
			}
			o.Pods[j] = &pod
		}
		out[i] = &o
	}
	return out
}

// Object is one object with the pods that it creates.
type Object struct {
	tree.Value
	APIVersion, Kind, Namespace, Name string
	Facts                             Facts
	Pods                              []*Pod

	unseen bool // there are containers, but in no pod template
}

// Pod is a pod, or a template of one.
type Pod struct {
	Object     *Object
	Meta, Spec tree.Value
	Bare       bool // a Pod itself, not a template
	Containers []Container

	OS          string // effective: windows, linux or ""
	Declared    bool   // spec.os.name is windows: the API server validates
	HostProcess bool   // at least one container is one
	Signals     []Signal

	candidateNodes  []*Node // see candidates
	candidatesKnown bool
}

// Container is one of a pod's containers of any sort.
type Container struct {
	tree.Value
	List  string // containers, initContainers, ephemeralContainers
	Name  string
	Image string

	Build    winver.Build // of a Windows image, by its name
	HasBuild bool
}

// Windows reports whether the pod is meant for Windows.
func (p *Pod) Windows() bool { return p.OS == "windows" }

// Facts returns the facts under which the pod is evaluated.
func (p *Pod) Facts() *Facts { return &p.Object.Facts }

// maxDepth bounds the search for pod templates in custom resources, and Lists
// in Lists. Deeper than this no published resource keeps one.
const maxDepth = 32

// parse takes Lists apart and finds the pods of every object.
func parse(root tree.Value, depth int) []*Object {
	kind, version := root.Get("kind").Str(), root.Get("apiVersion").Str()
	if items := root.Find("items"); strings.HasSuffix(kind, "List") && items.Set() && depth < maxDepth {
		var out []*Object
		for _, item := range items.Items() {
			out = append(out, parse(item, depth+1)...)
		}
		return out
	}
	o := &Object{
		Value: root, APIVersion: version, Kind: kind,
		Namespace: root.Get("metadata", "namespace").Str(), Name: root.Get("metadata", "name").Str(),
	}
	o.find()
	return []*Object{o}
}

func (o *Object) add(template tree.Value, bare bool) {
	p := &Pod{Object: o, Meta: template.Get("metadata"), Spec: template.Get("spec"), Bare: bare}
	if p.Spec.Len() == 0 {
		return
	}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, c := range p.Spec.Find(list).Items() {
			image := c.Get("image").Str()
			build, ok := imageBuild(image)
			p.Containers = append(p.Containers, Container{
				Value:    c,
				List:     list,
				Name:     c.Get("name").Str(),
				Image:    image,
				Build:    build,
				HasBuild: ok,
			})
		}
	}
	for _, c := range p.Containers {
		p.HostProcess = p.HostProcess || p.IsHostProcess(c)
	}
	p.Declared = p.Spec.Get("os", "name").Str() == "windows"
	o.Pods = append(o.Pods, p)
}

// IsHostProcess is the effective setting of a container: its own, or the pod's.
func (p *Pod) IsHostProcess(c Container) bool {
	if own := c.Find("securityContext", "windowsOptions", "hostProcess"); own.Set() {
		return own.True()
	}
	return p.Spec.Find("securityContext", "windowsOptions", "hostProcess").True()
}

// Option is the effective Windows option of a container: its own, or the
// pod's.
func (p *Pod) Option(c Container, name string) tree.Value {
	if own := c.Find("securityContext", "windowsOptions", name); own.Set() {
		return own
	}
	return p.Spec.Find("securityContext", "windowsOptions", name)
}

// NonRoot is the effective runAsNonRoot of a container.
func (p *Pod) NonRoot(c Container) tree.Value {
	if own := c.Find("securityContext", "runAsNonRoot"); own.Set() {
		return own
	}
	return p.Spec.Find("securityContext", "runAsNonRoot")
}

// IsMap reports whether a value is a map, or missing.
func IsMap(v tree.Value) bool {
	_, ok := v.Raw().(map[string]any)
	return ok || v.Raw() == nil
}

// IsList reports whether a value is a list, or missing.
func IsList(v tree.Value) bool {
	_, ok := v.Raw().([]any)
	return ok || v.Raw() == nil
}
