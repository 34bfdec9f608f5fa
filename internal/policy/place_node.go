// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// candidates returns the Windows nodes that the pod allows by its nodeName,
// nodeSelector, required affinity and RuntimeClass. Unknown properties of a
// node do not exclude it.
func (p *pod) candidates() []*Node {
	if !p.candidatesKnown {
		p.candidateNodes = candidates(p, p.facts().RuntimeClasses[p.Spec.Find("runtimeClassName").Str()])
		p.candidatesKnown = true
	}
	return p.candidateNodes
}

// nodesForImages returns the nodes to compare the images with: the candidates. If there
// are none because no node has the build that the pod selects, these are all
// Windows nodes; if there are none for another reason (an empty node pool),
// they are unknown.
func (p *pod) nodesForImages() []*Node {
	nodes := p.candidates()
	if len(nodes) > 0 {
		return nodes
	}
	if p.selectsBuild() {
		return p.facts().windows()
	}
	return nil
}

// selectsBuild reports whether the pod or its RuntimeClass selects one build.
func (p *pod) selectsBuild() bool {
	class := p.facts().RuntimeClasses[p.Spec.Find("runtimeClassName").Str()]
	return class.NodeSelector[buildLabel] != "" || slices.ContainsFunc(required(p), func(r requirement) bool {
		return r.key == buildLabel
	})
}

// candidates is like Pod.candidates, with another RuntimeClass.
func candidates(p *pod, class RuntimeClass) []*Node {
	nodeName := p.Spec.Find("nodeName").Str()
	labels := maps.Clone(class.NodeSelector)
	if labels == nil {
		labels = map[string]string{}
	}
	own := p.Spec.Find("nodeSelector").Map()
	for k, v := range own {
		labels[k], _ = v.(string)
	}
	var terms []nodeTerm
	for _, t := range affinityTerms(p) {
		terms = append(terms, readTerm(t))
	}
	var out []*Node
	for i := range p.facts().Nodes {
		n := &p.facts().Nodes[i]
		if n.OS != "windows" || nodeName != "" && n.Name != nodeName {
			continue
		}
		ok := len(terms) == 0
		for i := range terms {
			ok = ok || n.matches(&terms[i])
		}
		for k, want := range labels {
			ok = ok && n.mayHave(k, want)
		}
		if ok {
			out = append(out, n)
		}
	}
	return out
}

// nodeTerm is one of the alternatives of a required affinity.
type nodeTerm struct{ labels, fields []nodeExpression }

type nodeExpression struct {
	key, operator string
	values        []string
}

func readTerm(v tree.Value) nodeTerm {
	read := func(list tree.Value) []nodeExpression {
		var out []nodeExpression
		for _, e := range list.Items() {
			x := nodeExpression{key: e.Get("key").Str(), operator: e.Get("operator").Str()}
			for _, value := range e.Get("values").Items() {
				x.values = append(x.values, value.Str())
			}
			out = append(out, x)
		}
		return out
	}
	return nodeTerm{read(v.Get("matchExpressions")), read(v.Get("matchFields"))}
}

// label returns a label of the node. Labels that the kubelet or mullion sets
// are known for every node, others only if the facts include labels.
func (n *Node) label(key string) (value string, set, known bool) {
	switch {
	case osLabel(key):
		return n.OS, true, true
	case key == buildLabel && n.Build.Number != 0:
		return n.Build.Label(), n.OS == "windows", true
	}
	value, set = n.Labels[key]
	return value, set, set || n.Labels != nil
}

// vendorBuild returns the build that a label of AKS or GKE selects.
func vendorBuild(key, value string) (winver.Build, bool) {
	switch key {
	case "kubernetes.azure.com/os-sku", "kubernetes.azure.com/os-sku-requested",
		"kubernetes.azure.com/os-sku-effective":
		value = strings.TrimPrefix(value, "Windows")
	case "cloud.google.com/gke-windows-os-version":
	default:
		return winver.Build{}, false
	}
	b, err := winver.Parse(value)
	return b, err == nil
}

func (n *Node) mayHave(key, want string) bool {
	value, set, known := n.label(key)
	if b, ok := vendorBuild(key, want); ok && !known && n.Build.Number != 0 {
		return b.Number == n.Build.Number
	}
	return !known || set && value == want
}

// matches reports whether the node may fit a term of a required affinity.
func (n *Node) matches(t *nodeTerm) bool {
	if len(t.labels)+len(t.fields) == 0 {
		return false // the API: an empty term matches nothing
	}
	for i := range t.labels {
		if value, set, known := n.label(t.labels[i].key); known && !t.labels[i].satisfied(value, set) {
			return false
		}
	}
	for i := range t.fields {
		if t.fields[i].key == "metadata.name" && !t.fields[i].satisfied(n.Name, true) {
			return false
		}
	}
	return true
}

// satisfied applies the scheduler's rule. It returns true for operators that
// are unknown here.
func (e *nodeExpression) satisfied(value string, set bool) bool {
	switch e.operator {
	case "In":
		return set && slices.Contains(e.values, value)
	case "NotIn":
		return !set || !slices.Contains(e.values, value)
	case "Exists":
		return set
	case "DoesNotExist":
		return !set
	}
	return true
}

// pinned returns the one node that the pod's affinity names in the form that
// the DaemonSet controller uses.
func (p *pod) pinned() (node string, ok bool) {
	terms := affinityTerms(p)
	for _, t := range terms {
		name := ""
		for _, f := range t.Get("matchFields").Items() {
			if vals := f.Get("values").Items(); f.Get("key").Str() == "metadata.name" &&
				f.Get("operator").Str() == "In" && len(vals) == 1 {
				name = vals[0].Str()
			}
		}
		if name == "" || node != "" && name != node {
			return "", false
		}
		node = name
	}
	return node, node != ""
}

// runs reports whether a node can run the image of a container. Unknown
// properties do not exclude the node.
func (p *pod) runs(c *container, n *Node, hyperV bool) bool {
	i := p.facts().Images[c.Image]
	if n.Build.Number == 0 || p.HostProcess && !i.Index && (len(i.Platforms) > 0 || !p.pulledByBuild(c)) {
		return true
	}
	if missesABI(n, c, i) {
		return false
	}
	if hasOS(i, "windows") {
		return slices.ContainsFunc(i.Platforms, func(pl Platform) bool {
			if pl.OS != "windows" {
				return false
			}
			if v, err := winver.ParseOSVersion(pl.OSVersion); hyperV && err == nil {
				return v.Build <= n.Build.Number
			}
			return winver.CompatibleOSVersion(n.Build, pl.OSVersion)
		})
	}
	if !c.HasBuild {
		return true
	}
	return hyperV && c.Build.Number <= n.Build.Number || winver.Compatible(n.Build, c.Build)
}

// missesABI reports whether the node's containerd does not know that Windows
// Server 2025 runs images of 2022: before 1.7.6 it finds no such platform in an
// index (WIN703). A tag that names its build is assumed to be an index, as
// Microsoft's tags are.
func missesABI(n *Node, c *container, i Image) bool {
	if n.Build.Number != 26100 || n.Containerd == "" || !older(n.Containerd, 7, 6) {
		return false
	}
	if len(i.Platforms) == 0 {
		return c.HasBuild && c.Build.Number == 20348
	}
	return i.Index && !slices.ContainsFunc(i.Platforms, func(pl Platform) bool {
		return pl.OS == "windows" && (pl.OSVersion == "" || strings.HasPrefix(pl.OSVersion, n.Build.Label()))
	})
}

// fitting returns the nodes that can run all containers of the pod.
func (p *pod) fitting(nodes []*Node, hyperV bool) []*Node {
	var out []*Node
	type sort struct { // nothing else of a node matters here
		build      int
		containerd string
	}
	known := map[sort]bool{}
	for _, n := range nodes {
		s := sort{n.Build.Number, n.Containerd}
		fits, ok := known[s]
		if !ok {
			fits = true
			for i := range p.Containers {
				fits = fits && p.runs(&p.Containers[i], n, hyperV)
			}
			known[s] = fits
		}
		if fits {
			out = append(out, n)
		}
	}
	return out
}

// buildsOf returns the known builds of the nodes, oldest first.
func buildsOf(nodes []*Node) []winver.Build {
	var out []winver.Build
	seen := map[int]bool{}
	for _, n := range nodes {
		if n.Build.Number != 0 && !seen[n.Build.Number] {
			seen[n.Build.Number] = true
			out = append(out, n.Build)
		}
	}
	slices.SortFunc(out, func(a, b winver.Build) int { return a.Number - b.Number })
	return out
}

// NamesOS reports whether a taint is meant to keep away pods for the other
// operating system. Vendors and users spell it os=windows, OS=Windows,
// node.kubernetes.io/os=windows, kubernetes.azure.com/os=windows, windows=true,
// sku=windows2022, cattle.io/os=linux.
func (t Taint) NamesOS(os string) bool {
	key := strings.ToLower(t.Key[strings.LastIndexByte(t.Key, '/')+1:])
	value := strings.ToLower(t.Value)
	switch key {
	case os:
		return true
	case "os", "sku", "os-sku", "os-type", "ostype", "operating-system", "operatingsystem", "platform":
		return strings.HasPrefix(value, os)
	}
	return value == os
}
