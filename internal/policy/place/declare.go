// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package place

import (
	"slices"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// declare adds spec.os.name, so that the API server and the kubelet treat the
// pod as a Windows pod. It does not if that would cause a working pod to be
// refused. See docs/adr/0101-when-a-pod-declares-itself.md.
func (t *placer) declare() {
	p := t.pod
	declared := p.Spec.Find("os", "name").Set()
	if !declared && (t.out.Confidence == policy.Low && !t.confined() || p.Facts().Kubernetes != 0 &&
		p.Facts().Kubernetes < policy.ExemptFrom) {
		return
	}
	var drop, stay []tree.Value
	codes := map[string]string{}
	for _, f := range t.rules.LinuxFields() {
		for _, v := range f.In(p) {
			codes[v.Path().String()] = f.Code
			if t.mayDrop() && (idle(v) || declared && inert(v)) {
				drop = append(drop, v)
			} else {
				stay = append(stay, v)
			}
		}
	}
	name := p.Spec.Get("os", "name")
	if !declared {
		if len(stay) > 0 {
			t.report("WIN419", name, policy.Warning, "spec.os.name is not added: the API server would then refuse %s",
				stay[0].Path())
			return
		}
		if enforced, demanded := t.restricted(); demanded || enforced && !hardened(p) {
			t.report("WIN419",
				name, policy.Warning,
				"spec.os.name is not added: it would change how the restricted profile of namespace "+
					"%s applies to the pod", p.Object.Namespace)
			return
		}
	}
	if _, demanded := t.restricted(); demanded {
		drop = nil // they are refused with them and without
	}
	for _, v := range drop {
		t.edit(tree.Remove, v, nil)
		t.report(codes[v.Path().String()], v, policy.Info,
			"%s is removed: it has no effect on Windows, and is refused with "+
				"spec.os.name: windows", v.Path())
	}
	if !declared {
		t.edit(tree.Add, name, "windows")
	}
}

// confined reports whether the pod is or will be confined to Windows nodes. If
// it is not, a guess must not be written into it: the pod would fail on a Linux
// node.
func (t *placer) confined() bool {
	name, fixed := t.fixed()
	n := t.pod.Facts().Node(name)
	return t.classKnown() && (!fixed || n != nil && n.OS == "windows")
}

// mayDrop reports whether fields may be removed at all. Pods and templates that
// a user wrote must keep them, or applying them again would fail. A pod that a
// controller created comes from a template that the API server accepted, so a
// field that breaks the API server's rules was injected later.
func (t *placer) mayDrop() bool {
	return t.pod.Bare && (t.pod.Meta.Find("annotations", ReasonAnnotation).Set() ||
		slices.ContainsFunc(t.pod.Meta.Find("ownerReferences").Items(), func(o tree.Value) bool {
			return o.Get("controller").True()
		}))
}

// idle reports whether a Linux-only field has its default value, or one that
// only removes rights.
func idle(v tree.Value) bool {
	switch v.Key() {
	case "privileged", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "shareProcessNamespace":
		b, ok := v.Raw().(bool)
		return ok && !b
	case "hostUsers":
		return v.True()
	case "procMount":
		return v.Str() == "Default"
	case "seccompProfile", "appArmorProfile":
		return v.Get("type").Str() == "RuntimeDefault"
	case "capabilities":
		return policy.IsMap(v) && v.Get("add").Len() == 0
	case "seLinuxOptions":
		return policy.IsMap(v) && v.Len() == 0
	case "supplementalGroups":
		return policy.IsList(v) && v.Len() == 0
	case "supplementalGroupsPolicy":
		return v.Str() == "Merge"
	}
	return false
}

// inert reports whether a Linux-only field is one that policies inject into
// every pod, with a value that no profile of Pod Security Admission forbids.
func inert(v tree.Value) bool {
	switch v.Key() {
	case "readOnlyRootFilesystem", "fsGroup", "fsGroupChangePolicy", "runAsGroup", "supplementalGroups",
		"seLinuxChangePolicy":
		return true
	case "runAsUser":
		n, ok := v.Int()
		return ok && n != 0
	case "seLinuxOptions":
		return v.Len() == 1 && v.Get("level").Set()
	}
	return false
}

// restricted reports whether the namespace enforces the restricted profile, and
// whether its version demands Linux-only fields even of Windows pods. Since
// v1.25 a pod that sets spec.os.name is exempt from them. Requesting that
// exemption is up to the user, unless the pod does not need it.
func (t *placer) restricted() (enforced, demanded bool) {
	labels := t.pod.Facts().Namespaces[t.pod.Object.Namespace].Labels
	v, err := policy.ParseVersion(labels[policy.EnforceVersion])
	enforced = labels[policy.EnforceLevel] == "restricted"
	return enforced, enforced && err == nil && v < policy.ExemptFrom
}

// hardened reports whether the pod meets, without exemption, the demands of the
// restricted profile on Linux pods.
func hardened(p *policy.Pod) bool {
	profile := func(v tree.Value) bool {
		return slices.Contains([]string{"RuntimeDefault", "Localhost"},
			v.Find("securityContext", "seccompProfile", "type").Str())
	}
	for _, c := range p.Containers {
		ctx := c.Get("securityContext")
		escalation, ok := ctx.Get("allowPrivilegeEscalation").Raw().(bool)
		drop := ctx.Get("capabilities", "drop").Items()
		if !ok || escalation || !slices.ContainsFunc(drop, func(v tree.Value) bool { return v.Str() == "ALL" }) ||
			!profile(c.Value) && (!profile(p.Spec) || ctx.Get("seccompProfile").Set()) {
			return false
		}
	}
	return true
}
