// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package podreason explains to users in the API's own words why no node can
// run a pod, where the reason is Windows: the build of an image, no Windows
// node, a taint that is not tolerated, a runtime handler that no host has. The
// scheduler reports only that selectors did not match, the kubelet only that a
// platform was not found; neither has the list of builds.
//
// A pod that waits gets the condition Condition with the status False, and a
// Warning event of the same reason, which `kubectl describe pod` shows. When it
// fits after all the condition becomes True. Pods that never had a reason are
// not written to.
//
// judge is pure: it calls package policy, and adds only findings from the pod's
// status. Controller feeds it.
package podreason

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/place"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// Condition is the type of the pod condition.
const Condition corev1.PodConditionType = "placement.mullion.dev/Fits"

// The reasons of the condition and of the events.
const (
	BuildMismatch  = "WindowsBuildMismatch"  // no node, or not this one, runs images of the build
	NoWindowsNode  = "NoWindowsNode"         // the pod is for Windows, and the cluster has no Windows node
	NoLinuxNode    = "NoLinuxNode"           // the other way round
	WrongOS        = "WrongOperatingSystem"  // the image is for another operating system than the node
	HandlerMissing = "RuntimeHandlerMissing" // no containerd has the RuntimeClass's handler
	TaintTolerate  = "TaintNotTolerated"     // all Windows nodes keep the pod off
	NoSuchLabels   = "SelectorFitsNoNode"    // no Windows node has the labels that the pod selects
	reasonFits     = "Fits"
	// the API server takes 1024 of an event (k8s.io/kubernetes pkg/apis/core/validation: events.go)
	maxMessageBytes = 1000
)

// verdict is the reason why a pod cannot run; the zero value means that no
// reason is known.
type verdict struct{ Reason, Message string }

// Rules returns the rights that the controller needs, in addition to the rights for its facts.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"node.k8s.io"}, Resources: []string{"runtimeclasses"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
}

// unscheduled reports whether the scheduler has tried, and found no node.
func unscheduled(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
			c.Reason == corev1.PodReasonUnschedulable
	})
}

// reasonCondition returns the condition of a pod, or nil.
func reasonCondition(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == Condition {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// over reports whether a pod has ended or is being deleted.
func over(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil
}

// needsReason reports whether the pod may need an explanation: it found no node, or a container
// on its node was refused, or the pod has a condition from before.
func needsReason(p *corev1.Pod) bool {
	switch {
	case over(p):
		return false
	case reasonCondition(p) != nil || unscheduled(p):
		return true
	case p.Spec.NodeName == "":
		return false
	}
	// A sandbox that cannot be made leaves no trace in the status: with a
	// RuntimeClass the handler may be why.
	return p.Spec.RuntimeClassName != nil && p.Status.Phase == corev1.PodPending || len(refusals(p)) > 0
}

// refusal is a node's report of a container that it could not start.
type refusal struct {
	container, image string
	platform         bool // while pulling: the image has no manifest for the host
}

// refusals finds the containers of a pod whose image the node refused, by the
// texts of containerd and of Windows:
//
//	no match for platform in manifest        containerd core/images: Manifest
//	no matching manifest for windows(10.0…   moby distribution: pull_v2_windows.go
//	… operating system does not match …      Windows 0xc0370101, at the start
func refusals(p *corev1.Pod) []refusal {
	var out []refusal
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses,
		p.Status.EphemeralContainerStatuses} {
		for _, s := range list {
			if s.State.Waiting == nil {
				continue
			}
			text := s.State.Waiting.Message
			if t := s.LastTerminationState.Terminated; t != nil && t.Reason == "StartError" {
				text += "\n" + t.Message
			}
			platform := strings.Contains(text, "no match for platform") ||
				strings.Contains(text, "no matching manifest for")
			if platform || strings.Contains(text, "operating system does not match") ||
				strings.Contains(text, "0xc0370101") {
				out = append(out, refusal{s.Name, image(p, s), platform})
			}
		}
	}
	return out
}

// image is the image of a container as the pod has it: a status may show
// another name for the same.
func image(p *corev1.Pod, s corev1.ContainerStatus) string {
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if c.Name == s.Name {
			return c.Image
		}
	}
	return s.Image
}

// reasons are the findings of policy that keep a pod from every node.
var reasons = map[string]string{
	"WIN222": BuildMismatch, // an index without the nodes' builds
	"WIN223": BuildMismatch, // a single image of another build
	"WIN411": BuildMismatch, // a selected build that no node has
	"WIN412": BuildMismatch, // a build that no node runs, by the image's name
	"WIN701": BuildMismatch, // images of several builds
	"WIN702": BuildMismatch, // selected build and image contradict each other
	"WIN221": WrongOS,
	"WIN404": TaintTolerate,
	"WIN421": NoWindowsNode,
	"WIN423": HandlerMissing,
	"WIN425": NoSuchLabels,
}

// order is the precedence of the reasons: tolerating the taint does not help an
// image that no node runs.
var order = []string{NoWindowsNode, BuildMismatch, WrongOS, HandlerMissing, NoSuchLabels, TaintTolerate}

// judge returns the reason why no node can run a pod. object is the pod as a
// tree, facts describes the cluster; if its nodes are unknown, there is no
// verdict. judge ignores the evaluator's facts.
func judge(e *rule.Set, pod *corev1.Pod, object map[string]any, facts policy.Facts) verdict {
	if over(pod) || len(facts.Nodes) == 0 {
		return verdict{}
	}
	facts.Nodes = lasting(facts.Nodes)
	parsed := policy.Parse(anywhere(object))
	v := verdict{}
	if pod.Spec.NodeName != "" {
		v = judgeOnNode(e, pod, parsed, facts)
	} else if unscheduled(pod) {
		v = judgeUnscheduled(e, pod, parsed, facts)
	}
	if len(v.Message) > maxMessageBytes {
		v.Message = strings.ToValidUTF8(v.Message[:maxMessageBytes-len("…")], "") + "…"
	}
	return v
}

// anywhere returns the pod without its node: the question is which other would
// do.
func anywhere(object map[string]any) map[string]any {
	out, _, err := tree.Apply(object, []tree.Edit{{Op: tree.Remove, Path: tree.Keys("spec", "nodeName")}})
	if err != nil { // it has no spec
		return object
	}
	return out
}

// lasting are the nodes without the taints that come and go with a node's state
// (not ready, drained, not yet set up): tolerating such taints is never the
// advice.
func lasting(nodes []policy.Node) []policy.Node {
	out := slices.Clone(nodes)
	for i := range out {
		out[i].Taints = slices.DeleteFunc(slices.Clone(out[i].Taints), func(t policy.Taint) bool {
			domain, name, _ := strings.Cut(t.Key, "/")
			return domain == "node.kubernetes.io" && name != "os" || domain == "node.cloudprovider.kubernetes.io" ||
				t.Key == "ToBeDeletedByClusterAutoscaler"
		})
	}
	return out
}

// system returns the operating system that a pod requests from the scheduler or
// is known to be for, or "" if neither is known.
func system(e *rule.Set, pod *corev1.Pod, object *policy.Parsed, facts policy.Facts) string {
	if os := pod.Spec.NodeSelector[corev1.LabelOSStable]; os != "" {
		return os
	}
	if all := place.Pods(e, object, facts); len(all) == 1 && all[0].Confidence > policy.Low {
		return all[0].OS
	}
	return ""
}

func judgeUnscheduled(e *rule.Set, pod *corev1.Pod, object *policy.Parsed, facts policy.Facts) verdict {
	if v := worst(e.Check(object, facts)); v != (verdict{}) {
		if v.Reason == HandlerMissing {
			v.Message += aboutHyperV(pod, facts)
		}
		return v
	}
	linux := slices.ContainsFunc(facts.Nodes, func(n policy.Node) bool { return n.OS == string(corev1.Linux) })
	if !linux && system(e, pod, object, facts) == string(corev1.Linux) {
		return verdict{NoLinuxNode, "the pod is for Linux, and the cluster has no Linux node; add one"}
	}
	return verdict{}
}

// worst formats the findings of the most important reason.
func worst(findings []policy.Finding) verdict {
	for _, reason := range order {
		var text []string
		for _, f := range findings {
			if s := fmt.Sprintf("%s; %s (%s)", f.Message, f.Fix, f.Code); reasons[f.Code] == reason &&
				!slices.Contains(text, s) {
				text = append(text, s)
			}
		}
		if len(text) > 0 {
			return verdict{reason, strings.Join(text, ". ")}
		}
	}
	return verdict{}
}

// judgeHandler returns the verdict on a pod whose node lacks the handler of its
// RuntimeClass: the kubelet only retries endlessly.
func judgeHandler(pod *corev1.Pod, node policy.Node, facts policy.Facts) verdict {
	if pod.Spec.RuntimeClassName == nil || pod.Status.Phase != corev1.PodPending {
		return verdict{}
	}
	name := *pod.Spec.RuntimeClassName
	class, ok := facts.RuntimeClasses[name]
	if !ok || node.Handlers == nil || slices.Contains(node.Handlers, class.Handler) {
		return verdict{}
	}
	return verdict{HandlerMissing,
		fmt.Sprintf("RuntimeClass %s has the handler %s, which node %s does not have: it has %s; use another "+
			"RuntimeClass, or configure the handler on the node%s",
			name, class.Handler, node.Name, named(node.Handlers), aboutHyperV(pod, facts))}
}

// aboutHyperV adds a note if the handler is one for Hyper-V.
func aboutHyperV(pod *corev1.Pod, facts policy.Facts) string {
	if pod.Spec.RuntimeClassName == nil || !strings.Contains(facts.RuntimeClasses[*pod.Spec.RuntimeClassName].Handler,
		"hypervisor") {
		return ""
	}
	return ". Hyper-V isolation needs hosts that can run virtual machines; process isolation needs none, and an " +
		"image of the host's build"
}

// named lists the handlers that have a name; the one without is the default.
func named(handlers []string) string {
	out := slices.DeleteFunc(slices.Clone(handlers), func(s string) bool { return s == "" })
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// judgeOnNode evaluates the report of the pod's node.
func judgeOnNode(e *rule.Set, pod *corev1.Pod, object *policy.Parsed, facts policy.Facts) verdict {
	i := slices.IndexFunc(facts.Nodes, func(n policy.Node) bool { return n.Name == pod.Spec.NodeName })
	if i < 0 {
		return verdict{}
	}
	node, windows := facts.Nodes[i], string(corev1.Windows)
	if v := judgeHandler(pod, node, facts); v != (verdict{}) && node.OS == windows {
		return v
	}
	for _, r := range refusals(pod) {
		os := system(e, pod, object, facts)
		switch {
		case node.OS == windows && (os == windows || !r.platform):
			text := fmt.Sprintf("container %s: node %s is %s and cannot run the image %s%s", r.container, node.Name,
				node.Build, r.image, builds(r.image, facts))
			if v := worst(e.Check(object, facts)); v.Reason == BuildMismatch {
				return verdict{BuildMismatch, text + ". " + v.Message}
			}
			return verdict{BuildMismatch,
				fmt.Sprintf("%s; the Windows nodes are %s. Use an image for the node's build, or select nodes of the "+
					"image's with nodeSelector %s", text, windowsBuilds(facts), corev1.LabelWindowsBuild)}
		case os != "" && os != node.OS, os == "" && node.OS == windows:
			return verdict{WrongOS, fmt.Sprintf("container %s: node %s runs %s, for which the image %s has no "+
				"platform; select the image's operating system with nodeSelector %s",
				r.container, node.Name, title(node), r.image, corev1.LabelOSStable)}
		}
	}
	return verdict{}
}

// builds returns the known builds of an image, in brackets.
func builds(image string, facts policy.Facts) string {
	var out []string
	for _, p := range facts.Images[image].Platforms {
		if p.OS == string(corev1.Windows) && p.OSVersion != "" && !slices.Contains(out, p.OSVersion) {
			out = append(out, p.OSVersion)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (for " + strings.Join(out, ", ") + ")"
}

// windowsBuilds lists the builds of the nodes, each once.
func windowsBuilds(facts policy.Facts) string {
	var out []string
	for _, n := range facts.Nodes {
		if s := title(n); n.OS == string(corev1.Windows) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func title(n policy.Node) string {
	if n.OS == string(corev1.Windows) && n.Build.Number != 0 {
		return n.Build.String()
	}
	return strings.ToUpper(n.OS[:min(1, len(n.OS))]) + n.OS[min(1, len(n.OS)):]
}
