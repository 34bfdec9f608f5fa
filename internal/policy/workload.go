// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// Workload is a pod or a pod template for Windows, as far as other objects depend
// on it: a Service selects it, a volume is mounted by it.
type Workload struct {
	Kind, Namespace, Name string
	Labels                []Label
	Claims                []string // names of the PersistentVolumeClaims that it mounts
	Classes               []string // StorageClasses of the claims that it makes
	Ports                 []string // names of the ports of its containers
	Location              Location
}

// Label is a label of a workload's pods.
type Label struct{ Name, Value string }

// Claim is a PersistentVolumeClaim. It connects a pod with a volume.
type Claim struct {
	Namespace, Name, Class, Volume string
	Location                       Location
}

// Source is a ConfigMap or a Secret with keys that pods refer to.
type Source struct {
	Kind, Namespace, Name string
	Keys                  []string // nil: not known, because another program may add some
	Location              Location
}

// Workloads returns the pods and pod templates of an object that are for
// Windows.
func (p *Parsed) Workloads(facts Facts) []Workload {
	var out []Workload
	for _, pod := range Pods(p.Under(facts)) {
		if !pod.Windows() {
			continue
		}
		o := pod.Object
		w := Workload{
			Kind:      o.Kind,
			Namespace: o.Namespace,
			Name:      o.Name,
			Location:  facts.Location,
		}
		for name, value := range pod.Meta.Find("labels").Strings() {
			w.Labels = append(w.Labels, Label{Name: name, Value: value})
		}
		for _, c := range pod.Containers {
			for _, p := range c.Find("ports").Items() {
				if name := p.Find("name").Str(); name != "" {
					w.Ports = append(w.Ports, name)
				}
			}
		}
		claims := o.Find("spec", "volumeClaimTemplates").Items()
		for _, v := range pod.Spec.Find("volumes").Items() {
			if name := v.Find("persistentVolumeClaim", "claimName").Str(); name != "" {
				w.Claims = append(w.Claims, name)
			}
			if t := v.Find("ephemeral", "volumeClaimTemplate"); t.Set() {
				claims = append(claims, t)
			}
		}
		for _, c := range claims {
			if class := c.Find("spec", "storageClassName").Str(); class != "" {
				w.Classes = append(w.Classes, class)
			}
		}
		out = append(out, w)
	}
	return out
}

// Claims returns the PersistentVolumeClaims of an object.
func (p *Parsed) Claims(at Location) []Claim {
	var out []Claim
	for _, o := range p.items {
		if o.Kind == "PersistentVolumeClaim" {
			out = append(out, Claim{
				Namespace: o.Namespace,
				Name:      o.Name,
				Class:     o.Find("spec", "storageClassName").Str(),
				Volume:    o.Find("spec", "volumeName").Str(),
				Location:  at,
			})
		}
	}
	return out
}

// Sources returns the ConfigMaps and Secrets of an object.
func (p *Parsed) Sources(at Location) []Source {
	var out []Source
	for _, o := range p.items {
		if o.Kind == "ConfigMap" || o.Kind == "Secret" {
			out = append(out, Source{
				Kind:      o.Kind,
				Namespace: o.Namespace,
				Name:      o.Name,
				Keys:      o.keys(),
				Location:  at,
			})
		}
	}
	return out
}

// keys returns the keys of a ConfigMap or a Secret, or nil if it has no keys yet
// or another program may add some.
func (o *Object) keys() []string {
	if t := o.Find("type").Str(); t != "" && t != "Opaque" {
		return nil
	}
	for _, notes := range []string{"annotations", "labels"} {
		for _, key := range o.Find("metadata", notes).Keys() {
			for _, word := range []string{"inject", "replicat", "reflect", "sync", "vault", "secret", "operator"} {
				if strings.Contains(key, word) {
					return nil
				}
			}
		}
	}
	var out []string
	for _, part := range []string{"data", "binaryData", "stringData"} {
		out = append(out, o.Find(part).Keys()...)
	}
	return out
}

// AnyWindows reports whether there is a node or a workload for Windows.
func (f *Facts) AnyWindows() bool { return len(f.Related.workloads) > 0 || len(f.WindowsNodes()) > 0 }

// SameNamespace reports whether two objects are or may be in one namespace:
// manifests often leave it to the command that applies them.
func SameNamespace(a, b string) bool { return a == b || a == "" || b == "" }

// Selected returns the workload for Windows that a selector of labels picks in a
// namespace. It returns false if there is no such workload or the selector is
// empty.
func (f *Facts) Selected(namespace string, selector tree.Value) (Workload, bool) {
	for w := range f.Related.Selected(namespace, selector.Strings()) {
		return w, true
	}
	return Workload{}, false
}

// Mounts returns the workload for Windows that mounts a claim.
func (f *Facts) Mounts(c Claim) (Workload, bool) {
	for w := range f.Related.find(key{what: claimOf, name: c.Name}) {
		if SameNamespace(w.Namespace, c.Namespace) {
			return w, true
		}
	}
	return Workload{}, false
}

// String is the workload as messages name it.
func (w Workload) String() string { return w.Kind + " " + w.Name }
