// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

const srcPredicate = "k8s.io/kubernetes pkg/kubelet/lifecycle: predicate.go"

// osRules are about a pod's operating system, and about fields for which more
// than their presence matters.
func osRules() []Rule {
	return []Rule{
		{
			Code:     "WIN014",
			Title:    "`supplementalGroupsPolicy` on a Windows pod",
			Severity: policy.Error,
			Field:    "securityContext.supplementalGroupsPolicy",
			Why: "Windows has no group IDs. With spec.os.name: windows the API server refuses the field; without " +
				"it, the kubelet refuses Strict (SupplementalGroupsPolicyNotSupported) and ignores Merge.",
			Fix:     "remove it",
			Sources: []string{srcValidateWindows, srcPredicate},
			Since:   31,
			Proof:   provenByValidation,
			pod:     checkGroupsPolicy,
		},
		{
			Code:     "WIN021",
			Title:    "`privileged` on a Windows container",
			Severity: policy.Error,
			Field:    "containers[*].securityContext.privileged",
			Why: "Windows has no privileged containers. With spec.os.name: windows the API server refuses the " +
				"field, even if it is false; without it, the field is ignored: an ordinary container does not get " +
				"the rights, and a HostProcess container has them anyway.",
			Fix:     "remove it; run workloads that need the host as HostProcess containers",
			Sources: []string{srcValidateWindows, srcHostProcess},
			Since:   23,
			Proof:   provenByValidation,
			pod:     checkPrivileged,
		},
		{
			Code:     "WIN027",
			Title:    "`stopSignal` on Windows",
			Severity: policy.Warning,
			Field:    "containers[*].lifecycle.stopSignal",
			Why: "With the feature ContainerStopSignals, an API server accepts only SIGTERM and SIGKILL for a " +
				"Windows pod, and refuses the field if spec.os.name is not set. Without the feature, it drops the " +
				"field. The process does not get the signal, but CTRL_SHUTDOWN_EVENT.",
			Fix:     "remove it",
			Sources: []string{"k8s.io/kubernetes pkg/apis/core/validation: validateStopSignal"},
			Since:   33,
			pod:     checkStopSignal,
		},
		{
			Code:     "WIN028",
			Title:    "in-place resize of a Windows pod",
			Severity: policy.Error,
			Field:    "resources",
			Why:      "Windows pods cannot be resized in place.",
			Fix:      "recreate the pod; a VerticalPodAutoscaler needs the update mode Recreate",
			Sources:  []string{srcValidateResize, srcAllocation},
			Since:    33,
			Proof:    provenByValidation,
			kinds:    []string{"VerticalPodAutoscaler"},
			object:   checkAutoscaler,
			pod:      checkResize,
		},
		{
			Code:     "WIN030",
			Title:    "unknown `os.name`",
			Severity: policy.Error,
			Field:    "os.name",
			Why:      "spec.os.name must be linux or windows, in lower case.",
			Fix:      "write windows or linux",
			Sources:  []string{"k8s.io/kubernetes pkg/apis/core/validation: validateOS"},
			Since:    23,
			Proof:    provenByValidation,
			pod:      checkOSName,
		},
		{
			Code:     "WIN031",
			Title:    "`windowsOptions` on a Linux pod",
			Severity: policy.Error,
			Field:    "securityContext.windowsOptions",
			Why: "With spec.os.name: linux the API server refuses windowsOptions, on the pod and on every " +
				"container.",
			Fix:     "correct os.name, or remove windowsOptions",
			Sources: []string{"k8s.io/kubernetes pkg/apis/core/validation: validateLinux"},
			Since:   23,
			Proof:   provenByValidation,
			pod:     checkOptionsOnLinux,
		},
		{
			Code:     "WIN201",
			Title:    "a pod with contradictory operating systems",
			Severity: policy.Error,
			Field:    "os.name",
			Why: "The scheduler does not read spec.os.name, and the kubelet refuses a pod for another operating " +
				"system (PodOSNotSupported); the controller then creates replacements endlessly. So os.name, the " +
				"node selector, the RuntimeClass and the images must agree.",
			Fix:     "make them agree",
			Sources: []string{srcPredicate, "https://kubernetes.io/docs/concepts/windows/user-guide/"},
			Proof:   provenOnCluster,
			pod:     checkConflicts,
		},
		{
			Code:     "WIN202",
			Title:    "`kubernetes.io/os` as a label of the pod",
			Severity: policy.Warning,
			Field:    "metadata.labels[kubernetes.io/os]",
			Why: "The kubelet compares this label of the pod (not its nodeSelector) with the node's and refuses the " +
				"pod if they differ (PodOSSelectorNodeLabelDoesNotMatch).",
			Fix:     "remove the label; select nodes with nodeSelector",
			Sources: []string{srcPredicate},
			pod:     checkOSLabel,
		},
		{
			Code:     "WIN203",
			Title:    "`nodeName` on a Windows pod",
			Severity: policy.Error,
			Field:    "nodeName",
			Why: "nodeName bypasses the scheduler. The kubelet refuses the pod if its selector does not match the " +
				"node (NodeAffinity), or if the node runs another operating system.",
			Fix:     "remove nodeName; select the node with nodeSelector",
			Sources: []string{srcPredicate},
			Proof:   provenOnCluster,
			pod:     checkNodeName,
		},
	}
}

func checkResize(p *policy.Pod, r reporter) {
	if p.Bare && p.Windows() && p.Facts().Subresource == "resize" {
		r.at(p.Spec, "a Windows pod cannot be resized in place")
	}
}

// checkAutoscaler checks autoscalers of workloads in the same input.
func checkAutoscaler(o *policy.Object, r reporter) {
	mode, target := o.Get("spec", "updatePolicy", "updateMode"), o.Get("spec", "targetRef")
	if mode.Str() != "InPlaceOrRecreate" && mode.Str() != "InPlace" {
		return
	}
	for w := range o.Facts.Related.Named(target.Get("kind").Str(), target.Get("name").Str()) {
		if policy.SameNamespace(w.Namespace, o.Namespace) {
			r.as(policy.Warning, mode, "updateMode %s: %s is for Windows, whose pods cannot be resized in place",
				mode.Str(), w)
		}
	}
}

func checkOSName(p *policy.Pod, r reporter) {
	if os := p.Spec.Find("os"); os.Set() {
		if name := os.Get("name"); name.Str() != "windows" && name.Str() != "linux" {
			r.at(name, "os.name is %q; it must be windows or linux", name.Str())
		}
	}
}

func checkOptionsOnLinux(p *policy.Pod, r reporter) {
	if p.Spec.Find("os", "name").Str() != "linux" {
		return
	}
	for _, at := range append([]tree.Value{p.Spec}, policy.ContainerValues(p.Containers)...) {
		if v := at.Find("securityContext", "windowsOptions"); v.Set() {
			r.at(v, "windowsOptions on a pod with spec.os.name: linux")
		}
	}
}

func checkOSLabel(p *policy.Pod, r reporter) {
	if l := p.Meta.Get("labels", "kubernetes.io/os"); l.Set() {
		r.at(l, "the label kubernetes.io/os=%s of the pod is compared with the node's", l.Str())
	}
}

func checkGroupsPolicy(p *policy.Pod, r reporter) {
	v := p.Spec.Find("securityContext", "supplementalGroupsPolicy")
	if !v.Set() || !p.Windows() {
		return
	}
	switch {
	case p.Declared:
		r.at(v, "supplementalGroupsPolicy: the API server refuses the field on a pod with spec.os.name: windows")
	case v.Str() == "Strict":
		r.at(v, "supplementalGroupsPolicy Strict: the kubelet of a Windows node refuses the pod")
	default:
		r.as(policy.Warning, v,
			"supplementalGroupsPolicy: there are no group IDs on Windows; the node silently ignores "+
				"the field").
			Edit(tree.Remove, v.Path(), nil)
	}
}

func checkPrivileged(p *policy.Pod, r reporter) {
	if !p.Windows() {
		return
	}
	for _, c := range p.Containers {
		v := c.Find("securityContext", "privileged")
		switch {
		case !v.Set():
		case p.Declared:
			r.at(v, "privileged: the API server refuses the field, whatever its value, on a pod with spec.os.name: "+
				"windows").
				Edit(tree.Remove, v.Path(), nil)
		case v.True() && p.IsHostProcess(c):
			r.as(policy.Info, v,
				"privileged: the field has no effect; a HostProcess container has the rights without it").
				Edit(tree.Remove, v.Path(), nil)
		case v.True():
			r.as(policy.Warning, v,
				"privileged: there are no privileged containers on Windows; the container does not get "+
					"the rights")
		default:
			r.as(policy.Warning, v,
				"privileged: there are no privileged containers on Windows; the node silently ignores "+
					"the field").
				Edit(tree.Remove, v.Path(), nil)
		}
	}
}

func checkStopSignal(p *policy.Pod, r reporter) {
	for _, c := range p.Containers {
		v := c.Find("lifecycle", "stopSignal")
		switch name := v.Str(); {
		case !v.Set() || !p.Windows():
		case !p.Declared:
			r.at(v, "stopSignal: the API server refuses it on a pod without spec.os.name")
		case name != "SIGTERM" && name != "SIGKILL":
			r.at(v, "stopSignal %s: Windows pods accept only SIGTERM and SIGKILL, and neither is delivered", name)
		}
	}
}

// checkConflicts compares the strongest signal of each kind with the stronger
// ones of other kinds.
func checkConflicts(p *policy.Pod, r reporter) {
	// Contents, defaults and pulled images never contradict; windowsOptions on
	// a Linux pod have their own rule.
	for i, weak := range p.Signals {
		if weak.Confidence == policy.Low || weak.Origin == policy.FromOptions {
			continue
		}
		for _, strong := range p.Signals[:i] {
			if strong.OS == weak.OS {
				continue
			}
			if weak.Confidence == policy.Medium {
				r.as(policy.Warning, weak.At, "%s, but %s", strong.What, weak.What)
			} else {
				r.at(weak.At, "%s, but %s", strong.What, weak.What)
			}
			break
		}
	}
}

func checkNodeName(p *policy.Pod, r reporter) {
	v := p.Spec.Find("nodeName")
	// A pod with a status was read back from a cluster: nodeName is the scheduler's.
	if !v.Set() || p.OS == "" || p.Object.Get("status", "phase").Set() {
		return
	}
	for _, n := range p.Facts().Nodes {
		if n.Name == v.Str() {
			if n.OS != "" && n.OS != p.OS { // "": a node that no kubelet has labelled
				r.at(v, "node %s runs %s, but the pod is for %s: the kubelet refuses it", n.Name, n.OS, p.OS)
			}
			return
		}
	}
	if p.Windows() {
		r.as(policy.Warning, v,
			"nodeName bypasses the scheduler, which does not check that %s runs Windows of the right "+
				"build", strings.TrimSpace(v.Str()))
	}
}
