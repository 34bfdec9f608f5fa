// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package place finds where a pod goes: it derives the operating system from the pod
// and its images, and the selectors, tolerations and RuntimeClass that the pod needs
// to land on a node that can run it. Admission writes them into pods, and lint into
// files.
package place

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Names that users see.
const (
	SkipAnnotation   = "placement.mullion.dev/skip"   // "true": the pod is left alone
	ReasonAnnotation = "placement.mullion.dev/reason" // why the pod was placed as it was
)

// Placement describes the fields that one pod or pod template needs to be
// scheduled on nodes that can run it.
type Placement struct {
	OS         string            // windows, linux; "" if the object is left alone
	Why        string            // one line for users: the deciding signal, or why the object is left alone
	Confidence policy.Confidence // of OS; Low is a default or a guess
	Builds     []winver.Build    // the builds that the pod is confined to, oldest first; nil without a term
	Edits      []tree.Edit       // changes that the pod needs, in the order of application
	Note       tree.Edit         // sets ReasonAnnotation to Why; Op is empty if it is already set. Not in Edits
	Findings   []policy.Finding  // conflicts, refusals and removed fields, ordered by field

	reports []policy.Finding // findings that do not come from a rule: changes that placement made or could not make
}

// Pods determines the operating system of each pod or template of an object,
// and the edits that it needs to land there: selectors for operating system and
// build, tolerations of the nodes' taints, a RuntimeClass, spec.os.name. The
// edits are the minimum that the pod needs and do not contradict its fields; an
// object with the edits applied needs no further edits. It may be called
// concurrently.
//
// It uses these facts, not the facts given to New.
func Pods(rules *rule.Set, object *policy.Parsed, facts policy.Facts) []Placement {
	var out []Placement
	for _, p := range policy.Pods(object.Under(facts)) {
		t := placer{rules: rules, pod: p}
		t.place()
		policy.SortFindings(t.out.Findings)
		out = append(out, t.out)
	}
	return out
}

// Check places the object's pods and returns the findings of placement and the
// rules' findings about the result, ordered by field. It is for objects whose
// pods will be placed. It may be called concurrently.
func Check(rules *rule.Set, object *policy.Parsed, facts policy.Facts) []policy.Finding {
	var edits []tree.Edit
	var found []policy.Finding
	placements := Pods(rules, object, facts)
	for _, p := range placements {
		edits = append(edits, p.Edits...)
		found = append(found, p.Findings...)
	}
	if len(edits) > 0 {
		if placed, _, err := tree.Apply(object.Object, edits); err == nil {
			object = policy.Parse(placed)
		}
	}
	return merge(rules.Check(object, facts), found)
}

// CheckPlaced returns the findings of the rules for an object that was placed, and
// the findings of its placements that do not come from rules, ordered by field.
// It may be called concurrently.
func CheckPlaced(rules *rule.Set, placed *policy.Parsed, facts policy.Facts, placements []Placement) []policy.Finding {
	var found []policy.Finding
	for _, p := range placements {
		found = append(found, p.reports...)
	}
	return merge(rules.Check(placed, facts), found)
}

// merge adds findings to the rules' findings. If two findings have the same
// rule and field, the first is kept.
func merge(rules, others []policy.Finding) []policy.Finding {
	type where struct{ code, field string }
	seen := map[where]bool{}
	out := slices.DeleteFunc(append(rules, others...), func(f policy.Finding) bool {
		at := where{f.Code, f.Field}
		had := seen[at]
		seen[at] = true
		return had
	})
	policy.SortFindings(out)
	return out
}

// placer collects the placement of one pod.
type placer struct {
	rules *rule.Set
	pod   *policy.Pod
	out   Placement
	class string // the name of the RuntimeClass that the pod has or gets

	tolerations []policy.Toleration // that the pod has, or gets
}

func (t *placer) place() {
	p := t.pod
	if t.out.Why = leftAlone(p); t.out.Why != "" {
		return
	}
	t.class = p.Spec.Find("runtimeClassName").Str()
	os, signal := t.decide()
	if os == "" {
		return
	}
	t.findings()
	if slices.ContainsFunc(t.out.Findings, func(f policy.Finding) bool {
		return f.Code == "WIN201" && f.Severity == policy.Error
	}) {
		t.out.Why = "it contradicts itself on its operating system"
		return
	}
	if t.misplaced(os, signal) {
		return
	}
	t.out.OS, t.out.Confidence = os, signal.Confidence
	if os == "windows" {
		t.windows()
	} else {
		t.linux()
	}
	if t.out.OS != "" {
		t.explain(signal)
	}
}

// leftAlone returns why a pod is not placed; "" if it is.
func leftAlone(p *policy.Pod) string {
	switch {
	case p.Meta.Find("annotations", "kubernetes.io/config.mirror").Set():
		return "it mirrors a static pod, which only its node may change"
	case p.Meta.Find("annotations", SkipAnnotation).Str() == "true",
		p.Object.Find("metadata", "annotations", SkipAnnotation).Str() == "true":
		return "it has the annotation " + SkipAnnotation
	case !wellFormed(p):
		return "it is malformed: see the API server's error"
	}
	return ""
}

// decide picks the operating system of the first signal, or the default. A hint
// is not enough to decide, but it prevents the default.
func (t *placer) decide() (string, policy.Signal) {
	signals := t.pod.Signals
	if len(signals) == 0 {
		return "linux", policy.Signal{OS: "linux", Short: "nothing says otherwise", Confidence: policy.Low,
			Origin: policy.FromDefault}
	}
	first := signals[0]
	if first.Origin != policy.FromContents {
		return first.OS, first
	}
	if last := signals[len(signals)-1]; last.OS == first.OS && last.Origin == policy.FromDefault {
		return last.OS, last
	}
	t.out.Why = "only " + first.Short + " hints at Windows"
	t.report("WIN422", t.pod.Spec.Get("nodeSelector"), policy.Warning,
		"%s hints at Windows, but no field names the pod's operating system: it may land on any node", first.Short)
	return "", policy.Signal{}
}

// misplaced reports whether the pod already has a node with the other operating
// system. A selector would only change how it fails there.
func (t *placer) misplaced(os string, s policy.Signal) bool {
	p := t.pod
	name, fixed := t.fixed()
	n := p.Facts().Node(name)
	if !fixed || n == nil || n.OS == "" || n.OS == os {
		return false
	}
	t.out.Why = "its node " + name + " runs " + n.OS
	if t.scheduled() {
		t.report("WIN401", p.Spec.Get("nodeSelector"), policy.Warning,
			"the pod is for %s (%s), but its DaemonSet assigned it to node %s, which runs %s: "+
				"select the operating system in the DaemonSet", os, s.Short, name, n.OS)
	}
	return true
}

// fixed returns the node that the pod already has: its nodeName, or the choice
// of the DaemonSet controller.
func (t *placer) fixed() (node string, ok bool) {
	if !t.scheduled() {
		return t.pod.Spec.Find("nodeName").Str(), true
	}
	return t.pod.Pinned()
}

// placing lists the rules whose findings are also findings of a placement.
func placing() []string {
	return []string{"WIN201", "WIN203", "WIN222", "WIN223", "WIN224", "WIN225", "WIN411", "WIN412", "WIN421", "WIN423",
		"WIN701", "WIN702"}
}

// findings applies the rules about placement to the unchanged pod.
func (t *placer) findings() {
	for _, code := range placing() {
		t.out.Findings = append(t.out.Findings, t.rules.CheckPod(code, t.pod)...)
	}
}

// report adds a finding of a rule.
func (t *placer) report(code string, at tree.Value, s policy.Severity, format string, args ...any) {
	found := t.rules.Finding(code, t.pod, at, s, fmt.Sprintf(format, args...))
	t.out.Findings = append(t.out.Findings, found)
	t.out.reports = append(t.out.reports, found)
}

func (t *placer) edit(op tree.Op, at tree.Value, value any) {
	t.out.Edits = append(t.out.Edits, tree.Edit{Op: op, Path: at.Path(), Value: value})
}

// explain sets the line for users.
func (t *placer) explain(s policy.Signal) {
	t.out.Why = t.out.OS + ": " + s.Short
	if len(t.out.Builds) > 0 {
		var labels []string
		for _, b := range t.out.Builds {
			labels = append(labels, b.Label())
		}
		t.out.Why += "; builds " + strings.Join(labels, ", ")
	}
	if at := t.pod.Meta.Get("annotations", ReasonAnnotation); !at.Set() {
		t.out.Note = tree.Edit{Op: tree.Add, Path: at.Path(), Value: t.out.Why}
	}
}
