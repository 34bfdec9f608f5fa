// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"fmt"
	"slices"
	"strings"

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
			Severity: Warning,
			Field:    "nodeSelector[beta.kubernetes.io/os]",
			Why:      "beta.kubernetes.io/os and beta.kubernetes.io/arch have been deprecated since 1.14.",
			Fix:      "write kubernetes.io/os and kubernetes.io/arch",
			Sources:  []string{"k8s.io/kubernetes pkg/api/node: util.go"},
			pod:      checkBetaLabels,
		},
		{
			Code:     "WIN401",
			Title:    "a DaemonSet for every operating system",
			Severity: Warning,
			Field:    "nodeSelector",
			Why: "A DaemonSet without a selector runs on every node: with a Linux image it fails on every Windows " +
				"node of the cluster, again and again. Without a sign of Windows, in the nodes or in the input, " +
				"this is an info.",
			Fix:     "add nodeSelector kubernetes.io/os: linux (or windows)",
			Sources: []string{"https://github.com/kubernetes/kubernetes/issues/94366", srcGuide},
			pod:     checkDaemonSet,
		},
		{
			Code:     "WIN402",
			Title:    "a toleration of every taint",
			Severity: Warning,
			Field:    "tolerations",
			Why: "A toleration with operator Exists and no key also tolerates the taint of Windows nodes, which " +
				"then no longer keeps the pod away. Without a sign of Windows, in the nodes or in the input, this is " +
				"an info.",
			Fix:     "name the key, or select the operating system",
			Sources: []string{srcGuide},
			pod:     checkBroadToleration,
		},
		{
			Code:     "WIN403",
			Title:    "a toleration without a selector",
			Severity: Warning,
			Field:    "tolerations",
			Why:      "A toleration allows Windows nodes but does not select them: the pod may land on Linux.",
			Fix:      "add nodeSelector kubernetes.io/os: windows",
			Sources:  []string{srcGuide},
			pod:      checkTolerationAlone,
		},
		{
			Code:     "WIN404",
			Title:    "no toleration for the Windows nodes' taint",
			Severity: Warning,
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
			Severity: Warning,
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
			Severity: Warning,
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
			Severity: Warning,
			Field:    "nodeSelector",
			Why: "The cluster has Windows nodes without a taint that keeps this pod away, and nothing in the pod " +
				"names its operating system.",
			Fix:     "add nodeSelector kubernetes.io/os: linux (or windows)",
			Sources: []string{srcGuide},
			pod:     checkAnywhere,
		},
		{
			Code:     "WIN411",
			Title:    "a build that no node has",
			Severity: Error,
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
			Severity: Warning,
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
			Severity: Info,
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
			Severity: Warning,
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
			Severity: Warning,
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
			Severity: Warning,
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
			Severity: Warning,
			Field:    "nodeSelector",
			Why: "The arguments contain Windows shells or paths, but nothing that the scheduler or placement reads " +
				"says that the pod is for Windows.",
			Fix:     "add nodeSelector kubernetes.io/os: windows (or linux)",
			Sources: []string{srcGuide},
			pod:     checkHints,
		},
		{
			Code:     "WIN423",
			Title:    "a RuntimeClass whose handler no node has",
			Severity: Warning,
			Field:    "runtimeClassName",
			Why: "None of the Windows nodes that the pod may use reports the handler of its RuntimeClass, so no " +
				"sandbox can be created there. Handlers for Hyper-V isolation need hosts with nested " +
				"virtualisation, and containerd's configuration.",
			Fix:     "use another RuntimeClass, or configure the handler on the nodes",
			Sources: []string{srcHandlers},
			pod:     checkHandlerOnNodes,
		},
		{
			Code:     "WIN424",
			Title:    "a value of `kubernetes.io/os` that no node has",
			Severity: Error,
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
			Title:    "a build that is written as on no node",
			Severity: Warning,
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

func checkBuildForm(p *pod, r reporter) {
	for _, q := range required(p) {
		if q.key != buildLabel {
			continue
		}
		if v, err := winver.ParseOSVersion(q.value); err == nil && !v.HasUBR {
			continue // a build, though perhaps of the future
		}
		if b, err := winver.Parse(q.value); err == nil {
			r.at(q.at, "%s selects %q; nodes have %s", q.how, q.value, b.Label()).Fix = "write " + b.Label()
		} else {
			r.at(q.at, "%s selects %q; nodes have a build, as in 10.0.20348", q.how, q.value)
		}
	}
}

// checkSelectorCase reports what must mean Windows or Linux and is spelled in
// another way.
func checkSelectorCase(p *pod, r reporter) {
	for _, q := range required(p) {
		lower := strings.ToLower(q.value)
		if !osLabel(q.key) || q.value == "windows" || q.value == "linux" {
			continue
		}
		switch {
		case strings.HasPrefix(lower, "win"):
			lower = "windows"
		case lower != "linux":
			continue
		}
		r.at(q.at, "%s selects %s=%s, and nodes have %s", q.how, q.key, q.value, lower).
			edit(tree.Replace, q.at.Path(), lower).Fix = "write " + lower
	}
}

func checkDaemonSet(p *pod, r reporter) {
	if p.Object.Kind != "DaemonSet" || placed(p) {
		return
	}
	f := r.as(onMixed(p), p.Spec.Get("nodeSelector"), "the DaemonSet %s runs on Linux and on Windows nodes",
		p.Object.Name)
	if p.confident() {
		addSelector(f, p, p.OS)
	}
}

func checkBroadToleration(p *pod, r reporter) {
	// A placed pod lands on its own operating system, whatever it tolerates. Of a
	// DaemonSet that is not, WIN401 says more.
	if placed(p) || p.Object.Kind == "DaemonSet" {
		return
	}
	for _, t := range p.Spec.Find("tolerations").Items() {
		if tol := toleration(t); tol.Operator == "Exists" && tol.Key == "" && tol.Effect != "NoExecute" {
			r.as(onMixed(p), t, "a toleration with operator Exists and no key tolerates every taint, including that "+
				"of Windows nodes")
		}
	}
}

// onMixed returns the severity of a finding about pods that may land on nodes of
// either operating system: for all that is known, a cluster may have no Windows
// nodes.
func onMixed(p *pod) Severity {
	if p.facts().anyWindows() || len(p.Signals) > 0 && p.windows() {
		return Warning
	}
	return Info
}

func checkTolerationAlone(p *pod, r reporter) {
	for _, t := range p.Spec.Find("tolerations").Items() {
		tol := toleration(t)
		if strings.EqualFold(tol.Value, "windows") && !placed(p) {
			f := r.at(t, "the pod tolerates %s=%s but selects no operating system", tol.Key, tol.Value)
			if p.windows() {
				addSelector(f, p, "windows")
			}
		}
	}
}

func checkImageForBoth(p *pod, r reporter) {
	for _, c := range p.Containers {
		if i := p.facts().Images[c.Image]; hasOS(i, "windows") && hasOS(i, "linux") && !placed(p) {
			r.at(c.Get("image"), "container %s: the image %s runs on Linux and on Windows, but the pod selects neither",
				c.Name, c.Image)
		}
	}
}

func checkBuildExists(p *pod, r reporter) {
	if len(p.facts().windows()) == 0 {
		return
	}
	for _, q := range required(p) {
		if q.key != buildLabel {
			continue
		}
		if b, err := winver.Parse(q.value); err == nil &&
			!slices.ContainsFunc(p.facts().windows(), func(n *Node) bool { return n.Build.Number == b.Number }) {
			r.at(q.at, "%s selects %s; the nodes are %s", q.how, b, nodesText(p.facts().windows()))
		}
	}
}

func checkEKS(p *pod, r reporter) {
	sel := p.Spec.Get("nodeSelector")
	if p.windows() && p.facts().Platform == "eks" && sel.Get("kubernetes.io/os").Str() != "windows" &&
		sel.Get("beta.kubernetes.io/os").Str() != "windows" && !p.Spec.Get("hostNetwork").True() {
		addSelector(r.at(sel, "without nodeSelector kubernetes.io/os: windows the pod gets no address on EKS"),
			p, "windows")
	}
}

func checkSpread(p *pod, r reporter) {
	for _, t := range p.Spec.Find("topologySpreadConstraints").Items() {
		if v := t.Find("nodeAffinityPolicy"); p.windows() && v.Str() == "Ignore" {
			r.at(v, "nodeAffinityPolicy Ignore counts Linux nodes")
		}
	}
}

func checkDeclared(p *pod, r reporter) {
	if p.windows() && !p.Spec.Find("os").Set() && p.confident() {
		name := p.Spec.Get("os", "name")
		r.as(Info, name, "the pod is for Windows (%s) but does not say so",
			p.Signals[0].What).edit(tree.Add, name.Path(), "windows")
	}
}

func checkSelectsWindows(p *pod, r reporter) {
	if !p.windows() || placed(p) || !p.confident() || p.Object.Kind == "DaemonSet" || p.Spec.Find("nodeName").Set() {
		return
	}
	// An unknown RuntimeClass may select the operating system: its name
	// suggests its purpose.
	if rc := p.Spec.Find("runtimeClassName"); rc.Set() && !p.facts().classKnown(rc.Str()) {
		return
	}
	sel := p.Spec.Get("nodeSelector", "kubernetes.io/os")
	addSelector(r.at(sel, "the pod is for Windows (%s) but does not select Windows nodes",
		p.Signals[0].What), p, "windows")
}

func checkWindowsNodes(p *pod, r reporter) {
	if p.windows() && p.confident() && len(p.facts().Nodes) > 0 && len(p.facts().windows()) == 0 {
		r.at(p.Spec.Get("nodeSelector", "kubernetes.io/os"),
			"the pod is for Windows (%s), and the cluster has no Windows node", p.Signals[0].What)
	}
}

func checkHints(p *pod, r reporter) {
	if p.windows() && p.Signals[0].source == fromContents && len(p.Signals) == 1 {
		r.at(p.Spec.Get("nodeSelector"),
			"%s hints at Windows, but nothing else names the pod's operating system: it may land on any node",
			p.Signals[0].Short)
	}
}

func checkHandlerOnNodes(p *pod, r reporter) {
	name := p.Spec.Find("runtimeClassName")
	class, ok := p.facts().RuntimeClasses[name.Str()]
	nodes := p.candidates()
	if p.windows() && ok && len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n *Node) bool {
		return n.Handlers == nil ||
			slices.Contains(n.Handlers, class.Handler)
	}) {
		r.at(name, "RuntimeClass %s has the handler %s, which no Windows node has", name.Str(), class.Handler)
	}
}

// confident reports whether the operating system is certain enough to be
// written into the pod.
func (p *pod) confident() bool { return len(p.Signals) > 0 && p.Signals[0].Confidence >= Medium }

// placed reports whether the scheduler learns the operating system from the
// pod.
func placed(p *pod) bool {
	_, ok := p.signal(fromSelector, fromBuildLabel, fromRuntimeClass)
	return ok
}

func addSelector(f *Finding, p *pod, os string) {
	f.edit(tree.Add, p.Spec.Get("nodeSelector", "kubernetes.io/os").Path(), os)
}

func toleration(v tree.Value) Toleration {
	return Toleration{v.Get("key").Str(), v.Get("operator").Str(), v.Get("value").Str(), v.Get("effect").Str()}
}

// tolerations returns the pod's tolerations and those that its RuntimeClass
// adds.
func (p *pod) tolerations() []Toleration {
	var out []Toleration
	for _, t := range p.Spec.Find("tolerations").Items() {
		out = append(out, toleration(t))
	}
	return append(out, p.facts().RuntimeClasses[p.Spec.Find("runtimeClassName").Str()].Tolerations...)
}

// hard reports whether the taint keeps pods off.
func (t Taint) hard() bool { return t.Effect != "PreferNoSchedule" }

// passing reports whether the taint reflects a transient condition of the node:
// not-ready, unschedulable, uninitialized and the like.
func (t Taint) passing() bool {
	prefix, name, _ := strings.Cut(t.Key, "/")
	return prefix == "node.kubernetes.io" && name != "os" || prefix == "node.cloudprovider.kubernetes.io" ||
		t.Key == "ToBeDeletedByClusterAutoscaler"
}

// allTainted returns a taint that keeps a pod with the tolerations permanently
// off each of the nodes; ok is false if there is a node without one.
func allTainted(nodes []*Node, tolerations []Toleration) (first Taint, ok bool) {
	for _, n := range nodes {
		i := slices.IndexFunc(n.Taints, func(t Taint) bool {
			return t.hard() && !t.passing() &&
				!slices.ContainsFunc(tolerations, func(tol Toleration) bool { return tol.tolerates(t) })
		})
		if i < 0 {
			return Taint{}, false
		}
		if first == (Taint{}) {
			first = n.Taints[i]
		}
	}
	return first, len(nodes) > 0
}

func checkTolerations(p *pod, r reporter) {
	if !p.windows() {
		return
	}
	// An unknown RuntimeClass may add tolerations.
	if rc := p.Spec.Find("runtimeClassName"); rc.Set() && !p.facts().classKnown(rc.Str()) {
		return
	}
	if t, ok := allTainted(p.candidates(), p.tolerations()); ok {
		f := r.at(p.Spec.Get("tolerations"),
			"every Windows node carries a taint that the pod does not tolerate: %s", t)
		f.Fix = fmt.Sprintf("add the toleration {key: %s, operator: Equal, value: %s, effect: %s}", t.Key,
			t.Value, t.Effect)
	}
}

func checkTolerationCase(p *pod, r reporter) {
	for _, v := range p.Spec.Find("tolerations").Items() {
		tol := toleration(v)
		if tol.Operator == "Exists" || !strings.EqualFold(tol.Value, "windows") {
			continue
		}
		var taints []Taint
		for _, n := range p.facts().windows() {
			for _, t := range n.Taints {
				if t.hard() && !slices.Contains(taints, t) {
					taints = append(taints, t)
				}
			}
		}
		if len(taints) == 0 && tol.Value != "windows" {
			r.as(Info, v.Get("value"), "tolerations are case-sensitive: %s=%s does not tolerate os=windows",
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

func checkAnywhere(p *pod, r reporter) {
	nodes := p.facts().windows()
	if p.windows() || placed(p) || len(nodes) == 0 || p.Object.Kind == "DaemonSet" || p.Spec.Find("nodeName").Set() {
		return
	}
	if _, kept := allTainted(nodes, p.tolerations()); kept {
		return
	}
	f := r.at(p.Spec.Get("nodeSelector"), "the pod may land on a Windows node: it selects no operating system")
	if p.OS == "linux" {
		addSelector(f, p, "linux")
	}
}

func checkBetaLabels(p *pod, r reporter) {
	sel := p.Spec.Find("nodeSelector")
	for _, k := range sel.Keys() {
		if k != "beta.kubernetes.io/os" && k != "beta.kubernetes.io/arch" {
			continue
		}
		f := r.at(sel.Get(k), "%s is deprecated", k)
		if now := sel.Get(strings.TrimPrefix(k, "beta.")); !now.Set() {
			// The new label first: between the edits the pod must not be without one.
			f.edit(tree.Add, now.Path(), sel.Get(k).Str()).edit(tree.Remove, sel.Get(k).Path(), nil)
		}
	}
	for _, t := range affinityTerms(p) {
		for _, e := range t.Get("matchExpressions").Items() {
			if k := e.Get("key"); k.Str() == "beta.kubernetes.io/os" || k.Str() == "beta.kubernetes.io/arch" {
				r.at(k, "%s is deprecated", k.Str()).edit(tree.Replace, k.Path(), strings.TrimPrefix(k.Str(), "beta."))
			}
		}
	}
}
