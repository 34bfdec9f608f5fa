// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Candidates returns the Windows nodes that the pod allows by its nodeName,
// nodeSelector, required affinity and RuntimeClass. Unknown properties of a
// node do not exclude it.
func (p *Pod) Candidates() []*Node {
	if !p.candidatesKnown {
		p.candidateNodes = Candidates(p, p.Facts().RuntimeClasses[p.Spec.Find("runtimeClassName").Str()])
		p.candidatesKnown = true
	}
	return p.candidateNodes
}

// NodesForImages returns the nodes to compare the images with: the candidates. If there
// is no candidate because no node has the build that the pod selects, it returns all
// Windows nodes; if there is no candidate for another reason (an empty node pool), they
// are unknown.
func (p *Pod) NodesForImages() []*Node {
	nodes := p.Candidates()
	if len(nodes) > 0 {
		return nodes
	}
	if p.SelectsBuild() {
		return p.Facts().WindowsNodes()
	}
	return nil
}

// SelectsBuild reports whether the pod or its RuntimeClass selects one build.
func (p *Pod) SelectsBuild() bool {
	class := p.Facts().RuntimeClasses[p.Spec.Find("runtimeClassName").Str()]
	return class.NodeSelector[BuildLabel] != "" || slices.ContainsFunc(Required(p), func(r Requirement) bool {
		return r.Key == BuildLabel
	})
}

// Candidates is like Pod.candidates, with another RuntimeClass.
func Candidates(p *Pod, class RuntimeClass) []*Node {
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
	for _, t := range AffinityTerms(p) {
		terms = append(terms, readTerm(t))
	}
	var out []*Node
	for i := range p.Facts().Nodes {
		n := &p.Facts().Nodes[i]
		if n.OS != "windows" || nodeName != "" && n.Name != nodeName {
			continue
		}
		ok := len(terms) == 0
		for i := range terms {
			ok = ok || n.matches(&terms[i])
		}
		for k, want := range labels {
			ok = ok && n.MayHave(k, want)
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
	case IsOSLabel(key):
		return n.OS, true, true
	case key == BuildLabel && n.Build.Number != 0:
		return n.Build.Label(), n.OS == "windows", true
	}
	value, set = n.Labels[key]
	return value, set, set || n.Labels != nil
}

// VendorBuild returns the build that a label of AKS or GKE selects.
func VendorBuild(key, value string) (winver.Build, bool) {
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

// MayHave reports whether a node may have a label with a value.
func (n *Node) MayHave(key, want string) bool {
	value, set, known := n.label(key)
	if b, ok := VendorBuild(key, want); ok && !known && n.Build.Number != 0 {
		return b.Number == n.Build.Number
	}
	return !known || set && value == want
}

// matches reports whether the node may fit a term of a required affinity.
func (n *Node) matches(t *nodeTerm) bool {
	if len(t.labels)+len(t.fields) == 0 {
		return false // the API: an empty term matches no node
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

// AnyMatches reports whether one of the nodes may fit one of the terms of a required affinity.
func AnyMatches(nodes []*Node, terms []tree.Value) bool {
	for _, term := range terms {
		t := readTerm(term)
		if slices.ContainsFunc(nodes, func(n *Node) bool { return n.matches(&t) }) {
			return true
		}
	}
	return false
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

// Pinned returns the one node that the pod's affinity names in the form that
// the DaemonSet controller uses.
func (p *Pod) Pinned() (node string, ok bool) {
	terms := AffinityTerms(p)
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

// Runs reports whether a node can run the image of a container. Unknown
// properties do not exclude the node.
func (p *Pod) Runs(c *Container, n *Node, hyperV bool) bool {
	i := p.Facts().Images[c.Image]
	if n.Build.Number == 0 || p.HostProcess && !i.Index && (len(i.Platforms) > 0 || !p.PulledByBuild(c)) {
		return true
	}
	if missesABI(n, c, i) {
		return false
	}
	if HasOS(i, "windows") {
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
	return !c.HasBuild || hyperV && c.Build.Number <= n.Build.Number || winver.Compatible(n.Build, c.Build)
}

// missesABI reports whether the node's containerd does not support images of
// 2022 on Windows Server 2025: before 1.7.6 it finds no such platform in an
// index (WIN703). A tag that names its build is assumed to be an index, as
// Microsoft's tags are.
func missesABI(n *Node, c *Container, i Image) bool {
	if n.Build.Number != 26100 || n.Containerd == "" || !Older(n.Containerd, 7, 6) {
		return false
	}
	if len(i.Platforms) == 0 {
		return c.HasBuild && c.Build.Number == 20348
	}
	return i.Index && !slices.ContainsFunc(i.Platforms, func(pl Platform) bool {
		return pl.OS == "windows" && (pl.OSVersion == "" || strings.HasPrefix(pl.OSVersion, n.Build.Label()))
	})
}

// Fitting returns the nodes that can run all containers of the pod.
func (p *Pod) Fitting(nodes []*Node, hyperV bool) []*Node {
	var out []*Node
	type sort struct { // the only properties of a node that matter here
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
				fits = fits && p.Runs(&p.Containers[i], n, hyperV)
			}
			known[s] = fits
		}
		if fits {
			out = append(out, n)
		}
	}
	return out
}

// BuildsOf returns the known builds of the nodes, oldest first.
func BuildsOf(nodes []*Node) []winver.Build {
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

// Older compares a version like "1.7.13" or "1.7.0-rc.1" with 1.minor.patch. A
// version that cannot be parsed is not older.
func Older(version string, minor, patch int) bool {
	var a, b, c int
	if n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d.%d", &a, &b, &c); n < 2 {
		return false
	}
	return slices.Compare([]int{a, b, c}, []int{1, minor, patch}) < 0
}
