// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"github.com/mullion-k8s/mullion/internal/policy"
)

const srcPSA = "k8s.io/pod-security-admission policy"

// securityRules are about Pod Security Admission.
func securityRules() []Rule {
	return []Rule{
		{
			Code:     "WIN361",
			Title:    "HostProcess in a namespace that forbids it",
			Severity: policy.Error,
			Field:    "securityContext.windowsOptions.hostProcess",
			Why:      "The baseline and restricted profiles forbid hostProcess and hostNetwork.",
			Fix:      "label the namespace pod-security.kubernetes.io/enforce=privileged, or use another",
			Sources:  []string{srcPSA + ": check_windowsHostProcess.go"},
			Proof:    "internal/policy/rule.TestPodSecurityRefuses",
			pod:      checkProfileForbidsHostProcess,
		},
		{
			Code:     "WIN362",
			Title:    "no `runAsNonRoot` in a restricted namespace",
			Severity: policy.Error,
			Field:    "securityContext.runAsNonRoot",
			Why: "The restricted profile exempts Windows pods from the Linux-only fields, but not from " +
				"runAsNonRoot: true.",
			Fix:     "set runAsNonRoot: true, and runAsUserName: ContainerUser",
			Sources: []string{srcPSA + ": check_runAsNonRoot.go"},
			Proof:   "internal/policy/rule.TestPodSecurityRefuses",
			pod:     checkProfileWantsNonRoot,
		},
		{
			Code:     "WIN363",
			Title:    "a namespace that refuses every Windows pod",
			Severity: policy.Warning,
			Field:    "metadata.labels[pod-security.kubernetes.io/enforce-version]",
			Why: "Before v1.25 the restricted profile requires fields that the API server forbids on a pod with " +
				"spec.os.name: windows.",
			Fix:     "raise enforce-version to v1.25 or latest",
			Sources: []string{srcPSA + ": check_seccompProfile_restricted.go"},
			kinds:   []string{"Namespace"},
			object:  checkProfileVersion,
		},
		{
			Code:     "WIN364",
			Title:    "Linux-only fields that only the namespace requires",
			Severity: policy.Info,
			Field:    "os.name",
			Why: "Without spec.os.name the restricted profile requires Linux-only fields, which Windows ignores; " +
				"with it, they are refused. Change both together.",
			Fix:     "add spec.os.name: windows and remove the Linux-only fields",
			Sources: []string{srcPSA},
			pod:     checkProfileLinuxFields,
		},
	}
}

func checkProfileForbidsHostProcess(p *policy.Pod, r reporter) {
	level := p.Facts().Namespaces[p.Object.Namespace].Labels[policy.EnforceLevel]
	if p.HostProcess && (level == "baseline" || level == "restricted") {
		r.at(p.Spec, "namespace %s enforces %s, which forbids HostProcess containers", p.Object.Namespace, level)
	}
}

func checkProfileWantsNonRoot(p *policy.Pod, r reporter) {
	if p.Facts().Namespaces[p.Object.Namespace].Labels[policy.EnforceLevel] != "restricted" || !p.Windows() {
		return
	}
	for _, c := range p.Containers {
		if !p.NonRoot(c).True() {
			r.at(c.Get("securityContext", "runAsNonRoot"),
				"container %s: namespace %s enforces restricted, which requires runAsNonRoot", c.Name,
				p.Object.Namespace)
		}
	}
}

func checkProfileVersion(o *policy.Object, r reporter) {
	labels := o.Get("metadata", "labels")
	v := labels.Get(policy.EnforceVersion)
	if n, err := policy.ParseVersion(v.Str()); err == nil && n < policy.ExemptFrom &&
		labels.Get(policy.EnforceLevel).Str() == "restricted" {
		r.at(v, "the restricted profile of %s requires fields that are forbidden on Windows pods", v.Str())
	}
}

func checkProfileLinuxFields(p *policy.Pod, r reporter) {
	if p.Facts().Namespaces[p.Object.Namespace].Labels[policy.EnforceLevel] == "restricted" && p.Windows() &&
		!p.Declared {
		r.at(p.Spec.Get("os", "name"),
			"namespace %s enforces restricted; only spec.os.name: windows exempts the pod from the Linux-only fields",
			p.Object.Namespace)
	}
}
