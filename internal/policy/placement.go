// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Names that users see.
const (
	DefaultOSLabel   = "placement.mullion.dev/default-os" // label of a namespace: the OS of pods without a signal
	SkipAnnotation   = "placement.mullion.dev/skip"       // "true": the pod is left alone
	ReasonAnnotation = "placement.mullion.dev/reason"     // why the pod was placed as it was
)

// Placement describes what one pod or pod template needs to land on nodes that
// can run it.
type Placement struct {
	OS         string         // windows, linux; "" if the object is left alone
	Why        string         // one line for users: the deciding signal, or why the object is left alone
	Confidence Confidence     // of OS; Low is a default or a guess
	Builds     []winver.Build // the builds that the pod is confined to, oldest first; nil if no term was needed
	Edits      []tree.Edit    // changes that the pod needs, in the order of application
	Note       tree.Edit      // sets ReasonAnnotation to Why; Op is empty if it is already set. Not included in Edits
	Findings   []Finding      // conflicts, refusals and removed fields, ordered by field

	reports []Finding // the Findings that do not come from a rule: what placement did, or could not do
}

// Place determines the operating system of each pod or template of an object,
// and the edits that it needs to land there: selectors for operating system and
// build, tolerations of the nodes' taints, a RuntimeClass, spec.os.name. It
// adds no more than the pod needs and contradicts nothing in the pod, and an
// object with the edits applied needs no others. It may be called concurrently.
//
// Place uses these facts, not those given to New.
func (e *Evaluator) Place(object *Parsed, facts Facts) []Placement {
	var out []Placement
	for _, p := range pods(object.under(facts)) {
		t := placer{judge: e, pod: p}
		t.place()
		slices.SortStableFunc(t.out.Findings, byField)
		out = append(out, t.out)
	}
	return out
}

// Judge places the object's pods and returns the findings of placement and
// those of the rules for the result, ordered by field. It is for objects whose
// pods will be placed. It may be called concurrently.
func (e *Evaluator) Judge(object *Parsed, facts Facts) []Finding {
	var edits []tree.Edit
	var found []Finding
	placements := e.Place(object, facts)
	for _, p := range placements {
		edits = append(edits, p.Edits...)
		found = append(found, p.Findings...)
	}
	if len(edits) > 0 {
		if placed, _, err := tree.Apply(object.object, edits); err == nil {
			object = Parse(placed)
		}
	}
	return merge(e.Evaluate(object, facts), found)
}

// Validate returns the findings of the rules for an object that was placed, and
// the findings of its placements that do not come from rules, ordered by field.
// It may be called concurrently.
func (e *Evaluator) Validate(placed *Parsed, facts Facts, placements []Placement) []Finding {
	var found []Finding
	for _, p := range placements {
		found = append(found, p.reports...)
	}
	return merge(e.Evaluate(placed, facts), found)
}

// merge adds findings to those of the rules. If two findings have the same rule
// and field, the first is kept.
func merge(rules, others []Finding) []Finding {
	type where struct{ code, field string }
	seen := map[where]bool{}
	out := slices.DeleteFunc(append(rules, others...), func(f Finding) bool {
		at := where{f.Code, f.Field}
		had := seen[at]
		seen[at] = true
		return had
	})
	slices.SortStableFunc(out, byField)
	return out
}

// placer collects the placement of one pod.
type placer struct {
	judge *Evaluator
	pod   *pod
	out   Placement
	class string // the name of the RuntimeClass that the pod has or gets

	tolerations []Toleration // that the pod has, or gets
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
	if slices.ContainsFunc(t.out.Findings, func(f Finding) bool { return f.Code == "WIN201" && f.Severity == Error }) {
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
func leftAlone(p *pod) string {
	switch {
	case p.Meta.Find("annotations", "kubernetes.io/config.mirror").Set():
		return "it mirrors a static pod, which only its node may change"
	case p.Meta.Find("annotations", SkipAnnotation).Str() == "true",
		p.Object.Find("metadata", "annotations", SkipAnnotation).Str() == "true":
		return "the annotation " + SkipAnnotation + " says so"
	case !wellFormed(p):
		return "it is malformed: the API server says how"
	}
	return ""
}

// decide picks the operating system: that of the first signal, or the default.
// A mere hint decides nothing, but it also prevents the default.
func (t *placer) decide() (string, signal) {
	signals := t.pod.Signals
	if len(signals) == 0 {
		return "linux", signal{OS: "linux", Short: "nothing says otherwise", Confidence: Low, source: fromDefault}
	}
	first := signals[0]
	if first.source != fromContents {
		return first.OS, first
	}
	if last := signals[len(signals)-1]; last.OS == first.OS && last.source == fromDefault {
		return last.OS, last
	}
	t.out.Why = "only " + first.Short + " hints at Windows"
	t.report("WIN422", t.pod.Spec.Get("nodeSelector"), Warning,
		"%s hints at Windows, but nothing else names the pod's operating system: it may land on any node", first.Short)
	return "", signal{}
}

// misplaced reports whether the pod already has a node with the other operating
// system. A selector would only change how it fails there.
func (t *placer) misplaced(os string, s signal) bool {
	p := t.pod
	name, fixed := t.fixed()
	n := p.facts().node(name)
	if !fixed || n == nil || n.OS == "" || n.OS == os {
		return false
	}
	t.out.Why = "its node " + name + " runs " + n.OS
	if t.scheduled() {
		t.report("WIN401", p.Spec.Get("nodeSelector"), Warning,
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
	return t.pod.pinned()
}

// placing lists the rules whose findings are also findings of a placement.
func placing() []string {
	return []string{"WIN201", "WIN203", "WIN222", "WIN223", "WIN224", "WIN225", "WIN411", "WIN412", "WIN421", "WIN423",
		"WIN701", "WIN702"}
}

// findings applies the rules about placement to the unchanged pod.
func (t *placer) findings() {
	for _, code := range placing() {
		if r := t.judge.byCode[code]; r.pod != nil {
			r.pod(t.pod, reporter{rule: r, scope: t.pod.Object.Value, out: &t.out.Findings})
		}
	}
}

// report adds a finding of a rule.
func (t *placer) report(code string, at tree.Value, s Severity, format string, args ...any) {
	found := reporter{rule: t.judge.byCode[code], scope: t.pod.Object.Value, out: &t.out.Findings}.as(s, at,
		format, args...)
	t.out.reports = append(t.out.reports, *found)
}

func (t *placer) edit(op tree.Op, at tree.Value, value any) {
	t.out.Edits = append(t.out.Edits, tree.Edit{Op: op, Path: at.Path(), Value: value})
}

// explain sets the line for users.
func (t *placer) explain(s signal) {
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
