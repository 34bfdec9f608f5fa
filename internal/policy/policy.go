// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package policy has the vocabulary of the rules for Kubernetes objects on Windows
// nodes: facts about a cluster and its images, parsed objects with their pods and
// the signals for an operating system, and findings. Package rule finds what cannot
// work on Windows; package place finds where a pod goes. Lint, admission and the
// diagnosis of clusters use all three.
//
// They are pure: they have no side effects and keep no state. Objects are trees as
// encoding/json decodes them into an any, not Go types: for most fields it
// matters whether they are set at all (even to false), and fields that are
// newer than this program must survive (docs/adr/0090-rules-read-trees.md).
package policy

import (
	"fmt"
	"strings"

	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Version is a minor version of Kubernetes 1, such as 36 for 1.36; 0 if
// unknown.
type Version int

// ParseVersion reads "1.36", "v1.36.3" and the like.
func ParseVersion(s string) (Version, error) {
	var major, minor int
	if _, err := fmt.Sscanf(strings.TrimPrefix(s, "v"), "%d.%d", &major, &minor); err != nil || major != 1 ||
		minor < 1 || minor > 999 {
		return 0, fmt.Errorf("version of Kubernetes %q: want for example 1.36", s)
	}
	return Version(minor), nil
}

func (v Version) String() string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("1.%d", int(v))
}

// Facts holds the known facts about the cluster and the images. The zero value,
// of each field too, means unknown: a rule that needs a fact reports no finding
// without it.
type Facts struct {
	Kubernetes     Version
	Nodes          []Node
	RuntimeClasses map[string]RuntimeClass // nil: unknown; an empty map: the cluster has no RuntimeClass
	SomeClasses    bool                    // RuntimeClasses may lack some
	Images         map[string]Image        // answers of registries, by the reference as written in the pod
	// the operating systems of the nodes that report an image, by the reference as written in the pod
	PresentImages map[string][]string
	Namespaces    map[string]Namespace // the known ones
	Related       Related              // objects of the same input
	Location      Location             // of the object in the input
	Objects       Known                // objects that pods refer to
	// of pods without a signal, in namespaces without the label DefaultOSLabel; "" if not configured
	DefaultOS    string
	Platform     string // the kind of cluster: "eks", "openshift", …; "" if not known
	Subresource  string // of the admission request: "resize"
	NoPrivileged bool   // kube-apiserver runs with --allow-privileged=false
}

// Node holds the properties of a node that matter to the rules.
type Node struct {
	Name       string
	OS         string // linux or windows
	Build      winver.Build
	Containerd string   // "1.7.13"; "" if not known
	Handlers   []string // runtime handlers of status.runtimeHandlers; nil if not known
	Taints     []Taint
	Labels     map[string]string // nil if not known
	NoDSR      bool              // kube-proxy runs without --enable-dsr, or HNS lacks it
}

// RuntimeClass holds the properties of a RuntimeClass that matter to the rules.
type RuntimeClass struct {
	Handler      string
	NodeSelector map[string]string
	Tolerations  []Toleration
}

// ClassKnown reports whether a RuntimeClass is known, or known not to exist.
func (f *Facts) ClassKnown(name string) bool {
	_, ok := f.RuntimeClasses[name]
	return ok || f.RuntimeClasses != nil && !f.SomeClasses
}

// WindowsNodes returns the nodes that run Windows.
func (f *Facts) WindowsNodes() []*Node { return f.NodesRunning("windows") }

// Node returns the node with the given name, or nil if it is unknown.
func (f *Facts) Node(name string) *Node {
	for i := range f.Nodes {
		if f.Nodes[i].Name == name {
			return &f.Nodes[i]
		}
	}
	return nil
}

// NodesRunning returns the nodes that run an operating system.
func (f *Facts) NodesRunning(os string) []*Node {
	var out []*Node
	for i := range f.Nodes {
		if f.Nodes[i].OS == os {
			out = append(out, &f.Nodes[i])
		}
	}
	return out
}
