// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
)

const srcHandlers = "github.com/containerd/containerd internal/cri/config: config_windows.go"

// runtimeClassRules are about RuntimeClasses and Hyper-V isolation.
func runtimeClassRules() []Rule {
	return []Rule{
		{
			Code:     "WIN224",
			Title:    "a RuntimeClass that does not exist",
			Severity: policy.Error,
			Field:    "runtimeClassName",
			Why:      "The API server refuses the pod: RuntimeClass not found.",
			Fix:      "create it, or remove runtimeClassName",
			Sources:  []string{"k8s.io/kubernetes plugin/pkg/admission/runtimeclass"},
			Proof:    provenOnCluster,
			pod:      checkClassExists,
		},
		{
			Code:     "WIN225",
			Title:    "selectors of pod and RuntimeClass contradict each other",
			Severity: policy.Error,
			Field:    "nodeSelector",
			Why:      "The API server refuses the pod: conflict: runtimeClass.scheduling.nodeSelector.",
			Fix:      "make them agree",
			Sources:  []string{"k8s.io/kubernetes plugin/pkg/admission/runtimeclass"},
			Proof:    provenOnCluster,
			pod:      checkClassSelector,
		},
		{
			Code:     "WIN226",
			Title:    "a handler that containerd does not have",
			Severity: policy.Warning,
			Field:    "handler",
			Why: "A node whose containerd configuration does not have the handler cannot create the pod's sandbox: " +
				"no runtime for it is configured. containerd on Windows comes with runhcs-wcow-process and " +
				"runhcs-wcow-hypervisor.",
			Fix:     "use runhcs-wcow-process, or configure the handler on the nodes",
			Sources: []string{srcHandlers},
			kinds:   []string{"RuntimeClass"},
			object:  checkHandler,
		},
		{
			Code:     "WIN319",
			Title:    "Hyper-V isolation by annotation",
			Severity: policy.Warning,
			Field:    "metadata.annotations[experimental.windows.kubernetes.io/isolation-type]",
			Why: "Kubernetes has not read the annotation since dockershim was removed: without a RuntimeClass the " +
				"pod runs with process isolation. Placement adds a RuntimeClass if the cluster has one with a " +
				"suitable Hyper-V handler.",
			Fix:     "use a RuntimeClass with the handler runhcs-wcow-hypervisor, or remove the annotation",
			Sources: []string{"https://kubernetes.io/docs/concepts/windows/intro/"},
			pod:     checkIsolationAnnotation,
		},
		{
			Code:     "WIN704",
			Title:    "Hyper-V isolation",
			Severity: policy.Warning,
			Field:    "handler",
			Why: "Kubernetes does not support Hyper-V isolation. It is a feature of the runtime and needs hosts " +
				"with nested virtualisation, and an image of an older build is still pulled by the host's platform.",
			Fix:     "use images of the host's build with process isolation; otherwise pin a tag of one build",
			Sources: []string{srcLimits},
			kinds:   []string{"RuntimeClass"},
			object:  checkHyperVClass,
		},
	}
}

func checkClassExists(p *policy.Pod, r reporter) {
	name := p.Spec.Find("runtimeClassName")
	if _, ok := p.Facts().RuntimeClasses[name.Str()]; name.Set() && !ok && p.Facts().ClassKnown(name.Str()) {
		r.at(name, "there is no RuntimeClass %s", name.Str())
	}
}

func checkClassSelector(p *policy.Pod, r reporter) {
	name := p.Spec.Find("runtimeClassName").Str()
	class := p.Facts().RuntimeClasses[name]
	sel := p.Spec.Find("nodeSelector")
	for _, k := range sel.Keys() {
		if want, ok := class.NodeSelector[k]; ok && want != sel.Get(k).Str() {
			r.at(sel.Get(k), "RuntimeClass %s selects %s=%s, the pod %s", name, k, want, sel.Get(k).Str())
		}
	}
}

func checkIsolationAnnotation(p *policy.Pod, r reporter) {
	s, ok := p.Signal(policy.FromIsolation)
	switch {
	case !ok:
	case policy.HyperV(p):
		r.as(policy.Info, s.At, "the annotation isolation-type: %s is ignored; RuntimeClass %s isolates the pod",
			s.At.Str(), p.Spec.Get("runtimeClassName").Str())
	case policy.AskedForHyperV(p):
		r.at(s.At, "the annotation isolation-type: %s is ignored: the pod runs with process isolation", s.At.Str())
	default:
		r.as(policy.Info, s.At,
			"the annotation isolation-type: %s is ignored; the pod runs with process isolation anyway",
			s.At.Str())
	}
}

func checkHyperVClass(o *policy.Object, r reporter) {
	if h := o.Get("handler"); strings.Contains(h.Str(), "wcow-hypervisor") {
		r.at(h, "RuntimeClass %s isolates with Hyper-V, which Kubernetes does not support", o.Name)
	}
}

func checkHandler(o *policy.Object, r reporter) {
	h := o.Get("handler")
	windows := o.Get("scheduling", "nodeSelector", "kubernetes.io/os").Str() == "windows" ||
		strings.HasPrefix(h.Str(), "runhcs-")
	if !windows {
		return
	}
	known := false
	for _, n := range o.Facts.WindowsNodes() {
		if known = n.Handlers != nil; known && !slices.Contains(n.Handlers, h.Str()) {
			r.at(h, "node %s has no handler %s", n.Name, h.Str())
			return
		}
	}
	if !known && !slices.Contains([]string{"runhcs-wcow-process", "runhcs-wcow-hypervisor"}, h.Str()) {
		r.as(policy.Warning, h, "the handler %s is not built into containerd on Windows: every node must configure it",
			h.Str())
	}
}
