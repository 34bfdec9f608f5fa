// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

const srcGuide = "https://kubernetes.io/docs/concepts/windows/user-guide/#taints-and-tolerations"

// placementRules are about the nodes that a pod lands on.
func placementRules() []Rule {
	return []Rule{
		{
			Code:     "WIN321",
			Title:    "deprecated label in a selector",
			Severity: policy.Warning,
			Field:    "nodeSelector[beta.kubernetes.io/os]",
			Why:      "beta.kubernetes.io/os and beta.kubernetes.io/arch have been deprecated since 1.14.",
			Fix:      "write kubernetes.io/os and kubernetes.io/arch",
			Sources:  []string{"k8s.io/kubernetes pkg/api/node: util.go"},
			pod:      checkBetaLabels,
		},
		{
			Code:     "WIN401",
			Title:    "a DaemonSet for every operating system",
			Severity: policy.Warning,
			Field:    "nodeSelector",
			Why: "A DaemonSet without a selector runs on every node: with a Linux image it keeps failing on every " +
				"Windows node. The finding is an info if neither the nodes nor the input mention Windows.",
			Fix:     "add nodeSelector kubernetes.io/os: linux (or windows)",
			Sources: []string{"https://github.com/kubernetes/kubernetes/issues/94366", srcGuide},
			pod:     checkDaemonSet,
		},
		{
			Code:     "WIN402",
			Title:    "a toleration of every taint",
			Severity: policy.Warning,
			Field:    "tolerations",
			Why: "A toleration with operator Exists and no key also tolerates the taint of Windows nodes, so " +
				"the taint no longer keeps the pod away. The finding is an info if neither the nodes nor the input " +
				"mention Windows.",
			Fix:     "name the key, or select the operating system",
			Sources: []string{srcGuide},
			pod:     checkBroadToleration,
		},
		{
			Code:     "WIN403",
			Title:    "a toleration without a selector",
			Severity: policy.Warning,
			Field:    "tolerations",
			Why:      "A toleration allows Windows nodes but does not select them: the pod may land on Linux.",
			Fix:      "add nodeSelector kubernetes.io/os: windows",
			Sources:  []string{srcGuide},
			pod:      checkTolerationAlone,
		},
		{
			Code:     "WIN404",
			Title:    "no toleration for the Windows nodes' taint",
			Severity: policy.Warning,
			Field:    "tolerations",
			Why: "All Windows nodes that the pod may use carry a taint that it does not tolerate: it stays " +
				"pending until a node without the taint joins.",
			Fix:     "add the toleration",
			Sources: []string{srcGuide},
			pod:     checkTolerations,
		},
		{
			Code:     "WIN405",
			Title:    "a toleration that differs in case from the taint",
			Severity: policy.Warning,
			Field:    "tolerations[*].value",
			Why: "Keys and values of taints are case-sensitive: OpenShift's nodes carry os=Windows, others " +
				"os=windows.",
			Fix:     "spell it as the taint on the nodes; with operator Exists the value does not matter",
			Sources: []string{"github.com/openshift/windows-machine-config-operator pkg/nodeconfig: nodeconfig.go"},
			pod:     checkTolerationCase,
		},
		{
			Code:     "WIN407",
			Title:    "an image for both operating systems without a selector",
			Severity: policy.Warning,
			Field:    "containers[*].image",
			Why: "The image starts on Linux and on Windows, but the pod's command, paths and volumes fit only one " +
				"of them.",
			Fix:     "select the operating system",
			Sources: []string{srcGuide},
			pod:     checkImageForBoth,
		},
		{
			Code:     "WIN409",
			Title:    "a pod that may land on any node",
			Severity: policy.Warning,
			Field:    "nodeSelector",
			Why: "The cluster has Windows nodes without a taint that keeps this pod away, and the pod does not " +
				"name its operating system.",
			Fix:     "add nodeSelector kubernetes.io/os: linux (or windows)",
			Sources: []string{srcGuide},
			pod:     checkAnywhere,
		},
		{
			Code:     "WIN411",
			Title:    "a build that no node has",
			Severity: policy.Error,
			Field:    "nodeSelector[node.kubernetes.io/windows-build]",
			Why: "The pod selects a build of Windows that no node of the cluster has: it stays pending. Usually the " +
				"nodes were updated but the selector was not.",
			Fix:     "select a build that the cluster has",
			Sources: []string{srcGuide},
			Proof:   provenOnCluster,
			pod:     checkBuildExists,
		},
		{
			Code:     "WIN416",
			Title:    "EKS: Windows without the nodeSelector",
			Severity: policy.Warning,
			Field:    "nodeSelector[kubernetes.io/os]",
			Why: "On EKS only nodeSelector kubernetes.io/os: windows makes the VPC webhook give the pod an address; " +
				"the webhook ignores affinity, RuntimeClass and os.name.",
			Fix:     "add nodeSelector kubernetes.io/os: windows",
			Sources: []string{"github.com/aws/amazon-vpc-resource-controller-k8s webhooks/core: pod_webhook.go"},
			pod:     checkEKS,
		},
		{
			Code:     "WIN417",
			Title:    "spread that counts Linux nodes",
			Severity: policy.Info,
			Field:    "topologySpreadConstraints[*].nodeAffinityPolicy",
			Why: "With nodeAffinityPolicy Ignore, nodes that the pod cannot use count as empty and may keep the pod " +
				"pending.",
			Fix:      "remove it: Honor is the default",
			Sources:  []string{"https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/"},
			Since:    26,
			Inferred: true,
			pod:      checkSpread,
		},
		{
			Code:     "WIN419",
			Title:    "a Windows pod without `os.name`",
			Severity: policy.Warning,
			Field:    "os.name",
			Why: "Without spec.os.name the API server accepts fields that a Windows node silently ignores. Remove " +
				"those fields when you add it: with spec.os.name they are refused.",
			Fix:     "add spec.os.name: windows",
			Sources: []string{"https://kubernetes.io/docs/concepts/workloads/pods/#pod-os"},
			Since:   25,
			pod:     checkDeclared,
		},
		{
			Code:     "WIN420",
			Title:    "a Windows pod that does not select Windows nodes",
			Severity: policy.Warning,
			Field:    "nodeSelector[kubernetes.io/os]",
			Why: "The scheduler reads neither os.name nor the image: without a selector the pod may land on a Linux " +
				"node and fail there.",
			Fix:     "add nodeSelector kubernetes.io/os: windows",
			Sources: []string{srcGuide},
			pod:     checkSelectsWindows,
		},
		{
			Code:     "WIN421",
			Title:    "no Windows node",
			Severity: policy.Warning,
			Field:    "nodeSelector[kubernetes.io/os]",
			Why: "The cluster has no Windows node: the pod stays pending until one joins, or until the cluster's " +
				"autoscaler adds one.",
			Fix:     "add a Windows node",
			Sources: []string{srcGuide},
			pod:     checkWindowsNodes,
		},
		{
			Code:     "WIN422",
			Title:    "a pod that only looks like a Windows pod",
			Severity: policy.Warning,
			Field:    "nodeSelector",
			Why: "The arguments contain Windows shells or paths, but no field for the scheduler or placement marks " +
				"the pod as a Windows pod.",
			Fix:     "add nodeSelector kubernetes.io/os: windows (or linux)",
			Sources: []string{srcGuide},
			pod:     checkHints,
		},
		{
			Code:     "WIN423",
			Title:    "a RuntimeClass whose handler no node has",
			Severity: policy.Warning,
			Field:    "runtimeClassName",
			Why: "No Windows node that the pod may use reports the handler of its RuntimeClass, so no " +
				"sandbox can be created there. Handlers for Hyper-V isolation need hosts with nested " +
				"virtualisation, and containerd's configuration.",
			Fix:     "use another RuntimeClass, or configure the handler on the nodes",
			Sources: []string{srcHandlers},
			pod:     checkHandlerOnNodes,
		},
		{
			Code:     "WIN424",
			Title:    "a value of `kubernetes.io/os` that no node has",
			Severity: policy.Error,
			Field:    "nodeSelector[kubernetes.io/os]",
			Why: "Values of labels are case-sensitive, and the kubelet sets kubernetes.io/os to windows or linux: " +
				"the " +
				"pod stays pending.",
			Fix:     "write windows, in lower case",
			Sources: []string{"k8s.io/kubernetes pkg/kubelet: kubelet_node_status.go", srcGuide},
			Proof:   provenOnCluster,
			pod:     checkSelectorCase,
		},
		{
			Code:     "WIN426",
			Title:    "a build in the wrong form",
			Severity: policy.Warning,
			Field:    "nodeSelector[node.kubernetes.io/windows-build]",
			Why: "The kubelet labels a Windows node with the major version, the minor version and the build, as in " +
				"10.0.20348. Another form fits no node: the pod stays pending.",
			Fix: "write 10.0. and the build's number",
			Sources: []string{"https://kubernetes.io/docs/reference/labels-annotations-taints/" +
				"#node-kubernetes-io-windows-build"},
			pod: checkBuildForm,
		},
	}
}

func checkBuildForm(p *policy.Pod, r reporter) {
	for _, q := range policy.Required(p) {
		if q.Key != policy.BuildLabel {
			continue
		}
		if v, err := winver.ParseOSVersion(q.Value); err == nil && !v.HasUBR {
			continue // a build, though perhaps of the future
		}
		if b, err := winver.Parse(q.Value); err == nil {
			r.at(q.At, "%s selects %q; nodes have %s", q.How, q.Value, b.Label()).Fix = "write " + b.Label()
		} else {
			r.at(q.At, "%s selects %q; nodes have a build, as in 10.0.20348", q.How, q.Value)
		}
	}
}

// checkSelectorCase reports values that must mean Windows or Linux but are
// spelled differently.
func checkSelectorCase(p *policy.Pod, r reporter) {
	for _, q := range policy.Required(p) {
		lower := strings.ToLower(q.Value)
		if !policy.IsOSLabel(q.Key) || q.Value == "windows" || q.Value == "linux" {
			continue
		}
		switch {
		case strings.HasPrefix(lower, "win"):
			lower = "windows"
		case lower != "linux":
			continue
		}
		r.at(q.At, "%s selects %s=%s, but nodes have %s", q.How, q.Key, q.Value, lower).
			Edit(tree.Replace, q.At.Path(), lower).Fix = "write " + lower
	}
}

func checkDaemonSet(p *policy.Pod, r reporter) {
	if p.Object.Kind != "DaemonSet" || policy.SelectsOS(p) {
		return
	}
	f := r.as(onMixed(p), p.Spec.Get("nodeSelector"), "the DaemonSet %s runs on Linux and on Windows nodes",
		p.Object.Name)
	if p.Confident() {
		addSelector(f, p, p.OS)
	}
}

func checkBroadToleration(p *policy.Pod, r reporter) {
	// A placed pod lands on its own operating system, with any tolerations. For a
	// DaemonSet that is not placed, WIN401 is more specific.
	if policy.SelectsOS(p) || p.Object.Kind == "DaemonSet" {
		return
	}
	for _, t := range p.Spec.Find("tolerations").Items() {
		if tol := policy.ReadToleration(t); tol.Operator == "Exists" && tol.Key == "" && tol.Effect != "NoExecute" {
			r.as(onMixed(p), t, "a toleration with operator Exists and no key tolerates every taint, including the "+
				"taint of Windows nodes")
		}
	}
}

// onMixed returns the severity of a finding about pods that may land on nodes of
// either operating system: for all that is known, a cluster may have no Windows
// nodes.
func onMixed(p *policy.Pod) policy.Severity {
	if p.Facts().AnyWindows() || len(p.Signals) > 0 && p.Windows() {
		return policy.Warning
	}
	return policy.Info
}

func checkTolerationAlone(p *policy.Pod, r reporter) {
	for _, t := range p.Spec.Find("tolerations").Items() {
		tol := policy.ReadToleration(t)
		if strings.EqualFold(tol.Value, "windows") && !policy.SelectsOS(p) {
			f := r.at(t, "the pod tolerates %s=%s but selects no operating system", tol.Key, tol.Value)
			if p.Windows() {
				addSelector(f, p, "windows")
			}
		}
	}
}

func checkImageForBoth(p *policy.Pod, r reporter) {
	for _, c := range p.Containers {
		if i := p.Facts().Images[c.Image]; policy.HasOS(i, "windows") && policy.HasOS(i, "linux") &&
			!policy.SelectsOS(p) {
			r.at(c.Get("image"), "container %s: the image %s runs on Linux and on Windows, but the pod selects neither",
				c.Name, c.Image)
		}
	}
}

func checkBuildExists(p *policy.Pod, r reporter) {
	if len(p.Facts().WindowsNodes()) == 0 {
		return
	}
	for _, q := range policy.Required(p) {
		if q.Key != policy.BuildLabel {
			continue
		}
		if b, err := winver.Parse(q.Value); err == nil &&
			!slices.ContainsFunc(p.Facts().WindowsNodes(),
				func(n *policy.Node) bool { return n.Build.Number == b.Number }) {
			r.at(q.At, "%s selects %s; the nodes are %s", q.How, b, nodesText(p.Facts().WindowsNodes()))
		}
	}
}

func checkEKS(p *policy.Pod, r reporter) {
	sel := p.Spec.Get("nodeSelector")
	if p.Windows() && p.Facts().Platform == "eks" && sel.Get("kubernetes.io/os").Str() != "windows" &&
		sel.Get("beta.kubernetes.io/os").Str() != "windows" && !p.Spec.Get("hostNetwork").True() {
		addSelector(r.at(sel, "without nodeSelector kubernetes.io/os: windows the pod gets no address on EKS"),
			p, "windows")
	}
}

func checkSpread(p *policy.Pod, r reporter) {
	for _, t := range p.Spec.Find("topologySpreadConstraints").Items() {
		if v := t.Find("nodeAffinityPolicy"); p.Windows() && v.Str() == "Ignore" {
			r.at(v, "nodeAffinityPolicy Ignore counts Linux nodes")
		}
	}
}

func checkDeclared(p *policy.Pod, r reporter) {
	if p.Windows() && !p.Spec.Find("os").Set() && p.Confident() {
		name := p.Spec.Get("os", "name")
		r.as(policy.Info, name, "the pod is for Windows (%s), but spec.os.name is not set",
			p.Signals[0].What).Edit(tree.Add, name.Path(), "windows")
	}
}

func checkSelectsWindows(p *policy.Pod, r reporter) {
	if !p.Windows() || policy.SelectsOS(p) || !p.Confident() || p.Object.Kind == "DaemonSet" ||
		p.Spec.Find("nodeName").Set() {
		return
	}
	// An unknown RuntimeClass may select the operating system: its name
	// suggests its purpose.
	if rc := p.Spec.Find("runtimeClassName"); rc.Set() && !p.Facts().ClassKnown(rc.Str()) {
		return
	}
	sel := p.Spec.Get("nodeSelector", "kubernetes.io/os")
	addSelector(r.at(sel, "the pod is for Windows (%s) but does not select Windows nodes",
		p.Signals[0].What), p, "windows")
}

func checkWindowsNodes(p *policy.Pod, r reporter) {
	if p.Windows() && p.Confident() && len(p.Facts().Nodes) > 0 && len(p.Facts().WindowsNodes()) == 0 {
		r.at(p.Spec.Get("nodeSelector", "kubernetes.io/os"),
			"the pod is for Windows (%s), and the cluster has no Windows node", p.Signals[0].What)
	}
}

func checkHints(p *policy.Pod, r reporter) {
	if p.Windows() && p.Signals[0].Origin == policy.FromContents && len(p.Signals) == 1 {
		r.at(p.Spec.Get("nodeSelector"),
			"%s hints at Windows, but no field names the pod's operating system: it may land on any node",
			p.Signals[0].Short)
	}
}

func checkHandlerOnNodes(p *policy.Pod, r reporter) {
	name := p.Spec.Find("runtimeClassName")
	class, ok := p.Facts().RuntimeClasses[name.Str()]
	nodes := p.Candidates()
	if p.Windows() && ok && len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n *policy.Node) bool {
		return n.Handlers == nil ||
			slices.Contains(n.Handlers, class.Handler)
	}) {
		r.at(name, "RuntimeClass %s has the handler %s, which no Windows node has", name.Str(), class.Handler)
	}
}

func addSelector(f *policy.Finding, p *policy.Pod, os string) {
	f.Edit(tree.Add, p.Spec.Get("nodeSelector", "kubernetes.io/os").Path(), os)
}

func checkTolerations(p *policy.Pod, r reporter) {
	if !p.Windows() {
		return
	}
	// An unknown RuntimeClass may add tolerations.
	if rc := p.Spec.Find("runtimeClassName"); rc.Set() && !p.Facts().ClassKnown(rc.Str()) {
		return
	}
	if t, ok := policy.AllTainted(p.Candidates(), p.Tolerations()); ok {
		f := r.at(p.Spec.Get("tolerations"),
			"every Windows node carries a taint that the pod does not tolerate: %s", t)
		f.Fix = fmt.Sprintf("add the toleration {key: %s, operator: Equal, value: %s, effect: %s}", t.Key,
			t.Value, t.Effect)
	}
}

func checkTolerationCase(p *policy.Pod, r reporter) {
	for _, v := range p.Spec.Find("tolerations").Items() {
		tol := policy.ReadToleration(v)
		if tol.Operator == "Exists" || !strings.EqualFold(tol.Value, "windows") {
			continue
		}
		var taints []policy.Taint
		for _, n := range p.Facts().WindowsNodes() {
			for _, t := range n.Taints {
				if t.Hard() && !slices.Contains(taints, t) {
					taints = append(taints, t)
				}
			}
		}
		if len(taints) == 0 && tol.Value != "windows" {
			r.as(policy.Info, v.Get("value"), "tolerations are case-sensitive: %s=%s does not tolerate os=windows",
				tol.Key, tol.Value)
		}
		for _, t := range taints {
			if (t.Key != tol.Key || t.Value != tol.Value) && strings.EqualFold(t.Key, tol.Key) &&
				strings.EqualFold(t.Value, tol.Value) {
				r.at(v.Get("value"), "the pod tolerates %s=%s, but the nodes carry %s", tol.Key, tol.Value, t)
				break
			}
		}
	}
}

func checkAnywhere(p *policy.Pod, r reporter) {
	nodes := p.Facts().WindowsNodes()
	if p.Windows() || policy.SelectsOS(p) || len(nodes) == 0 || p.Object.Kind == "DaemonSet" ||
		p.Spec.Find("nodeName").Set() {
		return
	}
	if _, kept := policy.AllTainted(nodes, p.Tolerations()); kept {
		return
	}
	f := r.at(p.Spec.Get("nodeSelector"), "the pod may land on a Windows node: it selects no operating system")
	if p.OS == "linux" {
		addSelector(f, p, "linux")
	}
}

func checkBetaLabels(p *policy.Pod, r reporter) {
	sel := p.Spec.Find("nodeSelector")
	for _, k := range sel.Keys() {
		if k != "beta.kubernetes.io/os" && k != "beta.kubernetes.io/arch" {
			continue
		}
		f := r.at(sel.Get(k), "%s is deprecated", k)
		if now := sel.Get(strings.TrimPrefix(k, "beta.")); !now.Set() {
			// The new label first: between the edits the pod must not be without one.
			f.Edit(tree.Add, now.Path(), sel.Get(k).Str()).Edit(tree.Remove, sel.Get(k).Path(), nil)
		}
	}
	for _, t := range policy.AffinityTerms(p) {
		for _, e := range t.Get("matchExpressions").Items() {
			if k := e.Get("key"); k.Str() == "beta.kubernetes.io/os" || k.Str() == "beta.kubernetes.io/arch" {
				r.at(k, "%s is deprecated", k.Str()).Edit(tree.Replace, k.Path(), strings.TrimPrefix(k.Str(), "beta."))
			}
		}
	}
}
