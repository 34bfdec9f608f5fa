// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package facts

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/registry"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// describeNode converts a node to the facts of package policy.
func describeNode(n *corev1.Node) policy.Node {
	info := &n.Status.NodeInfo
	out := policy.Node{
		Name:   n.Name,
		OS:     cmp.Or(n.Labels[corev1.LabelOSStable], info.OperatingSystem),
		Labels: n.Labels,
	}
	if out.OS == string(corev1.Windows) {
		out.Build = nodeBuild(n)
	}
	if v, ok := strings.CutPrefix(info.ContainerRuntimeVersion, "containerd://"); ok {
		out.Containerd = v
	}
	for _, h := range n.Status.RuntimeHandlers {
		out.Handlers = append(out.Handlers, h.Name)
	}
	for _, t := range n.Spec.Taints {
		out.Taints = append(out.Taints, policy.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return out
}

// nodeBuild reads the build from the label that the kubelet makes, or from the
// field that the label is made of. A build that is newer than this program has
// its number and a general name.
func nodeBuild(n *corev1.Node) winver.Build {
	for _, text := range []string{n.Labels[corev1.LabelWindowsBuild], n.Status.NodeInfo.KernelVersion} {
		v, err := winver.ParseOSVersion(text)
		if err != nil {
			continue
		}
		b, ok := winver.Find(v.Build)
		if !ok {
			b = winver.Build{Number: v.Build, Product: "Windows"}
		}
		if v.HasUBR {
			b = b.WithUBR(v.UBR)
		}
		return b
	}
	return winver.Build{}
}

// platforms returns the labels by which providers of clusters mark their nodes.
func platforms() map[string]string {
	return map[string]string{
		"eks.amazonaws.com/": "eks", "kubernetes.azure.com/": "aks", "cloud.google.com/gke-": "gke",
		"node.openshift.io/": "openshift",
	}
}

// nodePlatform returns the kind of cluster of a node; "" if its labels do not
// show it.
func nodePlatform(n *corev1.Node) string {
	for prefix, name := range platforms() {
		for label := range n.Labels {
			if strings.HasPrefix(label, prefix) {
				return name
			}
		}
	}
	return ""
}

// nodes holds all nodes in the form that policy needs, and the images that they
// have.
type nodes struct {
	mu      sync.RWMutex
	byName  map[string]nodeEntry // guarded by mu
	list    []policy.Node        // guarded by mu; by name; replaced, never changed; nil if it must be made again
	owner   string               // guarded by mu; of list: whose cluster it is
	present presence             // guarded by mu
}

type nodeEntry struct {
	node     policy.Node
	platform string
	images   []string // normalised references
}

// presence counts the nodes of each operating system that have an image, by its
// normalised reference.
type presence map[string]map[string]int

func newNodes() *nodes { return &nodes{byName: map[string]nodeEntry{}, present: presence{}} }

// set takes a node in, or its change.
func (s *nodes) set(n *corev1.Node) {
	e := nodeEntry{node: describeNode(n), platform: nodePlatform(n), images: nodeImages(n)}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.byName[n.Name]
	if !known || !reflect.DeepEqual(old.node, e.node) || old.platform != e.platform {
		s.list = nil
	}
	if !known || old.node.OS != e.node.OS || !slices.Equal(old.images, e.images) {
		s.present.count(old.node.OS, old.images, -1)
		s.present.count(e.node.OS, e.images, 1)
	}
	s.byName[n.Name] = e
}

func (s *nodes) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.byName[name]
	if !known {
		return
	}
	s.present.count(old.node.OS, old.images, -1)
	delete(s.byName, name)
	s.list = nil
}

func (p presence) count(os string, images []string, by int) {
	for _, image := range images {
		oses := p[image]
		if oses == nil {
			oses = map[string]int{}
			p[image] = oses
		}
		if oses[os] += by; oses[os] <= 0 {
			delete(oses, os)
		}
		if len(oses) == 0 {
			delete(p, image)
		}
	}
}

// oses are the operating systems of the nodes that have the image, sorted.
func (p presence) oses(image string) []string {
	return slices.Sorted(maps.Keys(p[image]))
}

// all are the nodes by name, not nil, and whose cluster it is. The slice is
// shared and must not be changed.
func (s *nodes) all() (list []policy.Node, platform string) {
	s.mu.RLock()
	list, platform = s.list, s.owner
	s.mu.RUnlock()
	if list != nil {
		return list, platform
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list == nil {
		s.list, s.owner = make([]policy.Node, 0, len(s.byName)), ""
		for _, e := range s.byName {
			s.list = append(s.list, e.node)
			s.owner = max(s.owner, e.platform)
		}
		slices.SortFunc(s.list, func(a, b policy.Node) int { return strings.Compare(a.Name, b.Name) })
	}
	return s.list, s.owner
}

// where returns the operating systems of the nodes that have the image.
func (s *nodes) where(image string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.present.oses(image)
}

// everywhere reports whether an image is on all Windows nodes, of which there is
// at least one, and on no other node: all that a registry could add is known.
func (s *nodes) everywhere(image string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	windows := 0
	for _, e := range s.byName {
		if e.node.OS == "windows" {
			windows++
		}
	}
	oses := s.present[image]
	return windows > 0 && len(oses) == 1 && oses["windows"] == windows
}

// maxNodeImages bounds the images kept of one node: a kubelet reports 50 images by
// default (nodeStatusMaxImages), with up to 5 names each (MaxNamesPerImageInNodeStatus).
const maxNodeImages = 1000

// nodeImages are the normalised names of the images that the node reports,
// sorted, each once.
func nodeImages(n *corev1.Node) []string {
	var out []string
	for _, i := range n.Status.Images {
		for _, name := range i.Names {
			if len(out) == maxNodeImages {
				break
			}
			if ref, err := registry.Normalise(name); err == nil {
				out = append(out, ref)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
