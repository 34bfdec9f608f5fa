// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package windowsnode adds to Windows nodes the data that placement reads and
// the kubelet may not have written: the label node.kubernetes.io/windows-build,
// and the taint that the cluster's owner wants on every Windows node.
//
// An existing label is never changed. The taint of the policy is kept as long
// as the policy holds. TaintAnnotation records that the controller added it, so
// that only this taint is removed when the policy is changed or turned off
// (docs/internals/controllers.md).
//
// Patch is pure; Controller feeds it.
package windowsnode

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// TaintAnnotation of a node records the taint that was added to it, as kubectl
// writes it: "os=windows:NoSchedule".
const TaintAnnotation = "placement.mullion.dev/taint"

// Rules are the rights that the controller needs.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"},
		Verbs: []string{"list", "patch", "watch"}}}
}

// windows reports whether a node runs Windows.
func windows(n *corev1.Node) bool {
	return n.Labels[corev1.LabelOSStable] == string(corev1.Windows) ||
		n.Status.NodeInfo.OperatingSystem == string(corev1.Windows)
}

// build is the value of the build's label as the kubelet makes it: the first
// three of the four numbers of status.nodeInfo.kernelVersion
// (k8s.io/kubernetes pkg/kubelet/winstats: GetBuild and GetPatchVersion).
// ok is false while the kubelet has not reported them.
func build(n *corev1.Node) (label string, ok bool) {
	v, err := winver.ParseOSVersion(n.Status.NodeInfo.KernelVersion)
	if err != nil {
		return "", false
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Build), true
}

// patch is a JSON merge patch (RFC 7386). The resourceVersion makes the API
// server refuse it (409) if the node has changed since: the list of taints is
// replaced as a whole.
type patch struct {
	Metadata struct {
		ResourceVersion string             `json:"resourceVersion"`
		Labels          map[string]string  `json:"labels,omitempty"`
		Annotations     map[string]*string `json:"annotations,omitempty"` // nil removes
	} `json:"metadata"`
	Spec *taintsPatch `json:"spec,omitempty"`
}

type taintsPatch struct {
	Taints []corev1.Taint `json:"taints"` // nil, which JSON writes as null, removes the field
}

// Patch is the JSON merge patch that a node needs under a taint policy (the
// zero Taint means that there is none), or nil if it needs no change. note explains to users
// why the policy cannot be applied to this node; it is usually "".
func Patch(n *corev1.Node, want policy.Taint) (data []byte, note string, err error) {
	if !windows(n) {
		return nil, "", nil
	}
	var p patch
	p.Metadata.ResourceVersion = n.ResourceVersion
	changed := false
	if label, ok := build(n); ok && n.Labels[corev1.LabelWindowsBuild] == "" {
		p.Metadata.Labels = map[string]string{corev1.LabelWindowsBuild: label}
		changed = true
	}
	taints, record, note := desiredTaints(n, want)
	if !slices.EqualFunc(taints, n.Spec.Taints, func(a, b corev1.Taint) bool { return toPolicy(a) == toPolicy(b) }) {
		p.Spec = &taintsPatch{taints}
		changed = true
	}
	if old, had := n.Annotations[TaintAnnotation]; record != old || had && record == "" {
		p.Metadata.Annotations = map[string]*string{TaintAnnotation: nil}
		if record != "" {
			p.Metadata.Annotations[TaintAnnotation] = &record
		}
		changed = true
	}
	if !changed {
		return nil, note, nil
	}
	if data, err = json.Marshal(p); err != nil {
		return nil, "", fmt.Errorf("write patch of node %s: %w", n.Name, err)
	}
	return data, note, nil
}

// desiredTaints returns the taints that a node must have, and the record to keep of
// them.
func desiredTaints(n *corev1.Node, want policy.Taint) (taints []corev1.Taint, record, note string) {
	taints = slices.Clone(n.Spec.Taints)
	recorded := n.Annotations[TaintAnnotation]
	none := policy.Taint{}
	if recorded != "" && (want == none || recorded != want.String()) {
		taints = slices.DeleteFunc(taints, func(t corev1.Taint) bool { return toPolicy(t).String() == recorded })
		recorded = ""
	}
	if len(taints) == 0 {
		taints = nil
	}
	if want == none {
		return taints, "", ""
	}
	// A node has at most one taint of a key and effect (k8s.io/kubernetes
	// pkg/apis/core/validation, validateNodeTaints).
	i := slices.IndexFunc(taints, func(t corev1.Taint) bool {
		return t.Key == want.Key && string(t.Effect) == want.Effect
	})
	switch {
	case i < 0:
		return append(taints, corev1.Taint{Key: want.Key, Value: want.Value, Effect: corev1.TaintEffect(want.Effect)}),
			want.String(), ""
	case taints[i].Value != want.Value:
		return taints, "", fmt.Sprintf("the node carries %s, which is not ours; the taint %s cannot stand beside it",
			toPolicy(taints[i]), want)
	}
	return taints, recorded, "" // recorded is "" where another program put it there
}

func toPolicy(t corev1.Taint) policy.Taint {
	return policy.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)}
}
