// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package runtimeclass keeps one RuntimeClass for each build of Windows that
// nodes of the cluster run: windows-2019, windows-2022 and so on. A pod that
// names one lands on nodes of that build, and tolerates the taint by which they
// keep Linux pods off.
//
// desired is pure; Controller compares it with the cluster. A class whose label
// app.kubernetes.io/managed-by is not mullion belongs to others and is
// never touched: removing the label takes one over. A class stays when the last
// node of its build goes (docs/internals/controllers.md).
package runtimeclass

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Handler is the runtime handler of process isolation in containerd's own
// configuration for Windows (github.com/containerd/containerd
// internal/cri/config: config_windows.go, DefaultRuntimeConfig).
const Handler = "runhcs-wcow-process"

// className is the name of a build's RuntimeClass: windows- and the year of a
// long-term release or the version of another one, "windows-2019",
// "windows-20h2".
func className(b winver.Build) string {
	if b.LTSC {
		return "windows-" + strings.TrimPrefix(b.Product, "Windows Server ")
	}
	return "windows-" + strings.ToLower(b.Version)
}

// classNames lists the names of all builds that are known, oldest first.
func classNames() []string {
	var out []string
	for _, b := range winver.All() {
		out = append(out, className(b))
	}
	return out
}

// Rules are the rights that the controller needs.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}},
		// Creation cannot be restricted by name (RBAC does not see it).
		{APIGroups: []string{"node.k8s.io"}, Resources: []string{"runtimeclasses"},
			Verbs: []string{"create", "list", "watch"}},
		{APIGroups: []string{"node.k8s.io"}, Resources: []string{"runtimeclasses"}, ResourceNames: classNames(),
			Verbs: []string{"delete", "get", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
}

// build returns the build of a Windows node by its labels, by which a
// RuntimeClass selects. ok is false for other nodes, and for builds that are
// not known.
func build(n *corev1.Node) (b winver.Build, ok bool) {
	if n.Labels[corev1.LabelOSStable] != string(corev1.Windows) {
		return b, false
	}
	v, err := winver.ParseOSVersion(n.Labels[corev1.LabelWindowsBuild])
	if err != nil || v.Major != 10 || v.Minor != 0 {
		return b, false
	}
	return winver.Find(v.Build)
}

// desired returns the RuntimeClasses that the nodes require, ordered by name.
// The order of the nodes does not matter.
func desired(nodes []*corev1.Node) []*nodev1.RuntimeClass {
	byBuild := map[int][]*corev1.Node{}
	for _, n := range nodes {
		if b, ok := build(n); ok {
			byBuild[b.Number] = append(byBuild[b.Number], n)
		}
	}
	var out []*nodev1.RuntimeClass
	for _, b := range winver.All() {
		if of := byBuild[b.Number]; len(of) > 0 {
			out = append(out, class(b, of))
		}
	}
	slices.SortFunc(out, func(a, b *nodev1.RuntimeClass) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func class(b winver.Build, nodes []*corev1.Node) *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{
		TypeMeta: metav1.TypeMeta{APIVersion: nodev1.SchemeGroupVersion.String(), Kind: "RuntimeClass"},
		ObjectMeta: metav1.ObjectMeta{
			Name:   className(b),
			Labels: map[string]string{inventory.ManagedBy: inventory.Owner},
		},
		Handler: Handler,
		Scheduling: &nodev1.Scheduling{
			NodeSelector: map[string]string{corev1.LabelOSStable: string(corev1.Windows),
				corev1.LabelWindowsBuild: b.Label()},
			Tolerations: tolerations(nodes),
		},
	}
}

// tolerations returns tolerations for the Windows taints that all nodes carry,
// if they name the operating system. Other taints keep pods away for other
// reasons (a node that drains, a team's nodes), which a RuntimeClass must not
// undo. A taint that some nodes lack is not a reason to tolerate it.
func tolerations(nodes []*corev1.Node) []corev1.Toleration {
	var out []corev1.Toleration
	for _, t := range nodes[0].Spec.Taints {
		everywhere := !slices.ContainsFunc(nodes[1:], func(n *corev1.Node) bool {
			return !slices.ContainsFunc(n.Spec.Taints, func(o corev1.Taint) bool {
				return o.Key == t.Key && o.Value == t.Value && o.Effect == t.Effect
			})
		})
		names := policy.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)}.NamesOS(string(corev1.Windows))
		if everywhere && names && t.Effect != corev1.TaintEffectPreferNoSchedule {
			out = append(out, corev1.Toleration{
				Key:      t.Key,
				Operator: corev1.TolerationOpEqual,
				Value:    t.Value,
				Effect:   t.Effect,
			})
		}
	}
	slices.SortFunc(out, func(a, b corev1.Toleration) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	return out
}

// lacking names the nodes that are known not to have the handler.
func lacking(nodes []*corev1.Node) []string {
	var out []string
	for _, n := range nodes {
		has := slices.ContainsFunc(n.Status.RuntimeHandlers, func(h corev1.NodeRuntimeHandler) bool {
			return h.Name == Handler
		})
		if len(n.Status.RuntimeHandlers) > 0 && !has {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return out
}

// ours reports whether the controller may change a class.
func ours(c *nodev1.RuntimeClass) bool { return c.Labels[inventory.ManagedBy] == inventory.Owner }

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patch is the JSON patch that turns a class into the desired one, or nil if
// they are equal. It touches only the field scheduling, so that other fields
// (an overhead, annotations) stay, and fails on a class that has been taken
// over meanwhile. The handler is immutable and not looked at.
func patch(current, desired *nodev1.RuntimeClass) ([]byte, error) {
	if equality.Semantic.DeepEqual(current.Scheduling, desired.Scheduling) {
		return nil, nil
	}
	data, err := json.Marshal([]operation{
		{"test", "/metadata/labels/" + strings.ReplaceAll(inventory.ManagedBy, "/", "~1"), inventory.Owner},
		{"add", "/scheduling", desired.Scheduling},
	})
	if err != nil {
		return nil, fmt.Errorf("write patch of RuntimeClass %s: %w", current.Name, err)
	}
	return data, nil
}
