// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package place

import (
	"slices"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// windows places a pod for Windows.
func (t *placer) windows() {
	p := t.pod
	nodes := p.Candidates()
	fit := p.Fitting(nodes, policy.HyperV(p))
	nodes, fit = t.isolate(nodes, fit)
	t.declare()
	if t.scheduled() && t.classKnown() {
		t.selectLabel("kubernetes.io/os", "windows")
		t.selectArch()
		t.selectBuild(nodes, fit)
	}
	if len(fit) == 0 {
		fit = nodes // it cannot run, or only a tag suggests so: let it try
	}
	t.tolerate(fit, "windows")
	t.warnOfTaints(fit)
}

// linux keeps a pod off Windows nodes.
func (t *placer) linux() {
	p := t.pod
	windows := p.Candidates()
	if policy.SelectsOS(p) || namesOS(p) || !t.classKnown() {
		t.tolerate(p.Facts().NodesRunning("linux"), "linux")
		return
	}
	if _, fixed := t.fixed(); fixed {
		return
	}
	daemons := p.Object.Kind == "DaemonSet"
	switch {
	case len(windows) == 0, !daemons && t.keptOff(windows):
		return // no Windows node would take it
	case daemons && t.forBoth():
		t.out.OS, t.out.Why = "", "its images run on both operating systems: a DaemonSet for all nodes"
		return
	}
	t.selectLabel("kubernetes.io/os", "linux")
	t.tolerate(p.Facts().NodesRunning("linux"), "linux")
}

// scheduled reports whether the scheduler places the pod.
func (t *placer) scheduled() bool { return !t.pod.Spec.Find("nodeName").Set() }

// classKnown reports whether the selectors of the pod's RuntimeClass are known.
// An unknown RuntimeClass may already have the selectors that would be added.
func (t *placer) classKnown() bool { return t.class == "" || t.pod.Facts().ClassKnown(t.class) }

// namesOS reports whether the pod's required affinity mentions operating
// systems at all: In [linux, windows] means both.
func namesOS(p *policy.Pod) bool {
	for _, term := range policy.AffinityTerms(p) {
		for _, e := range term.Get("matchExpressions").Items() {
			if policy.IsOSLabel(e.Get("key").Str()) {
				return true
			}
		}
	}
	return false
}

// keptOff reports whether a taint that names Windows keeps the pod off each
// node. Other taints may be temporary.
func (t *placer) keptOff(nodes []*policy.Node) bool {
	tolerations := t.pod.Tolerations()
	return !slices.ContainsFunc(nodes, func(n *policy.Node) bool {
		return !slices.ContainsFunc(n.Taints, func(taint policy.Taint) bool {
			return taint.Hard() && taint.NamesOS("windows") &&
				!slices.ContainsFunc(tolerations, func(tol policy.Toleration) bool {
					return tol.Tolerates(taint)
				})
		})
	})
}

// forBoth reports whether all images are known to run on both operating systems:
// then a DaemonSet without a selector is meant for all nodes.
func (t *placer) forBoth() bool {
	return !slices.ContainsFunc(t.pod.Containers, func(c policy.Container) bool {
		i, present := t.pod.Facts().Images[c.Image], t.pod.Facts().PresentImages[c.Image]
		return (!policy.HasOS(i, "windows") || !policy.HasOS(i, "linux")) && (!slices.Contains(present, "windows") ||
			!slices.Contains(present, "linux"))
	})
}

// selects reports whether the pod, or its RuntimeClass, selects a label already.
func (t *placer) selects(key string) bool {
	class := t.pod.Facts().RuntimeClasses[t.class].NodeSelector
	return t.pod.Spec.Find("nodeSelector", key).Set() || class[key] != ""
}

// selectLabel adds a label to the nodeSelector.
func (t *placer) selectLabel(key, value string) {
	if t.selects(key) || t.selects("beta."+key) {
		return
	}
	if name, ok := t.pod.Pinned(); ok {
		if n := t.pod.Facts().Node(name); n == nil || !n.MayHave(key, value) {
			return // never against the node that a DaemonSet chose
		}
	}
	t.edit(tree.Add, t.pod.Spec.Get("nodeSelector", key), value)
}

// selectArch adds the architecture that all Windows nodes have, unless an
// image is known to be for another.
func (t *placer) selectArch() {
	for _, c := range t.pod.Containers {
		i := t.pod.Facts().Images[c.Image]
		if policy.HasOS(i, "windows") &&
			!slices.ContainsFunc(i.Platforms, func(p policy.Platform) bool {
				return p.OS == "windows" && (p.Arch == "" || p.Arch == "amd64")
			}) {
			return
		}
	}
	t.selectLabel("kubernetes.io/arch", "amd64")
}

// selectBuild confines the pod to the builds that fit, if not all nodes have
// one of them.
func (t *placer) selectBuild(nodes, fit []*policy.Node) {
	p := t.pod
	if len(fit) == 0 || len(fit) == len(nodes) || t.selects(policy.BuildLabel) {
		return
	}
	builds := policy.BuildsOf(fit)
	if len(builds) == 0 {
		return
	}
	if len(builds) == 1 && len(affinityOn(p, policy.BuildLabel)) == 0 {
		t.out.Builds = builds
		t.selectLabel(policy.BuildLabel, builds[0].Label())
		return
	}
	var labels []any
	for _, b := range builds {
		labels = append(labels, b.Label())
	}
	expression := map[string]any{"key": policy.BuildLabel, "operator": "In", "values": labels}
	at := p.Spec.Get("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	if !at.Set() {
		t.out.Builds = builds
		t.edit(tree.Add, at.Get("nodeSelectorTerms"), []any{map[string]any{"matchExpressions": []any{expression}}})
		return
	}
	// Terms are alternatives: each must select the build. One without
	// expressions selects no node, and would select some with one.
	for _, term := range at.Get("nodeSelectorTerms").Items() {
		list := term.Get("matchExpressions")
		switch {
		case list.Len()+term.Get("matchFields").Len() == 0, termHas(term, policy.BuildLabel):
			continue
		case list.Set():
			t.edit(tree.Add, list.Item(list.Len()), expression)
		default:
			t.edit(tree.Add, list, []any{expression})
		}
		t.out.Builds = builds
	}
}

// affinityOn lists the terms that mention a label.
func affinityOn(p *policy.Pod, key string) []tree.Value {
	return slices.DeleteFunc(policy.AffinityTerms(p), func(term tree.Value) bool { return !termHas(term, key) })
}

func termHas(term tree.Value, key string) bool {
	return slices.ContainsFunc(term.Get("matchExpressions").Items(), func(e tree.Value) bool {
		return e.Get("key").Str() == key
	})
}

// tolerate adds tolerations of the taints that name the operating system and
// that each of the nodes carries. Each names its key, its value and its effect.
func (t *placer) tolerate(nodes []*policy.Node, os string) {
	if len(nodes) == 0 || !t.classKnown() {
		return
	}
	have := t.pod.Tolerations()
	if t.class != "" {
		have = append(have, t.pod.Facts().RuntimeClasses[t.class].Tolerations...)
	}
	defer func() { t.tolerations = have }()
	var add []any
	for _, taint := range nodes[0].Taints {
		everywhere := !slices.ContainsFunc(nodes, func(n *policy.Node) bool {
			return !slices.Contains(n.Taints, taint)
		})
		if !taint.NamesOS(os) || !everywhere || !t.scheduled() && taint.Effect != "NoExecute" ||
			slices.ContainsFunc(have, func(tol policy.Toleration) bool { return tol.Tolerates(taint) }) {
			continue
		}
		tol := policy.Toleration{Key: taint.Key, Operator: "Equal", Value: taint.Value, Effect: taint.Effect}
		have = append(have, tol)
		add = append(add, decoded(tol))
	}
	list := t.pod.Spec.Get("tolerations")
	if !list.Set() && len(add) > 0 {
		t.edit(tree.Add, list, add)
		return
	}
	for i, tol := range add {
		t.edit(tree.Add, list.Item(list.Len()+i), tol)
	}
}

// warnOfTaints reports a taint that still keeps the pod off all its nodes:
// placement tolerates only taints about the operating system.
func (t *placer) warnOfTaints(nodes []*policy.Node) {
	if !t.scheduled() || !t.classKnown() {
		return
	}
	if taint, ok := policy.AllTainted(nodes, t.tolerations); ok {
		t.report("WIN404", t.pod.Spec.Get("tolerations"), policy.Warning,
			"every Windows node that can run the pod carries a taint that it does not tolerate: %s", taint)
	}
}

// decoded returns a toleration as decoded JSON.
func decoded(t policy.Toleration) map[string]any {
	m := map[string]any{}
	for k, v := range map[string]string{"key": t.Key, "operator": t.Operator, "value": t.Value, "effect": t.Effect} {
		if v != "" {
			m[k] = v
		}
	}
	return m
}
