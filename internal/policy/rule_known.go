// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// knownRules are about objects that a pod needs and that are neither in the
// cluster nor in the input. Without a cluster they report nothing.
func knownRules() []Rule {
	return []Rule{
		{
			Code:     "WIN236",
			Title:    "a ConfigMap, a Secret or a claim that does not exist",
			Severity: Warning,
			Field:    "volumes, containers[*].env, containers[*].envFrom",
			Why: "The pod waits until there is one: ContainerCreating with MountVolume.SetUp failed, " +
				"CreateContainerConfigError, or Pending for a claim.",
			Fix:     "create it, or write optional: true",
			Sources: []string{"https://kubernetes.io/docs/concepts/configuration/secret/"},
			pod:     checkSourcesExist,
		},
		{
			Code:     "WIN810",
			Title:    "a ServiceAccount that does not exist",
			Severity: Error,
			Field:    "serviceAccountName",
			Why: "The API server refuses the pod; pods of a Deployment are not created: error looking up service " +
				"account.",
			Fix:     "create it, or remove serviceAccountName",
			Sources: []string{"k8s.io/kubernetes plugin/pkg/admission/serviceaccount"},
			Proof:   provenOnCluster,
			pod:     checkAccountExists,
		},
		{
			Code:     "WIN811",
			Title:    "a PriorityClass that does not exist",
			Severity: Error,
			Field:    "priorityClassName",
			Why:      "The API server refuses the pod, and those of a Deployment: no PriorityClass was found.",
			Fix:      "create it, or remove priorityClassName",
			Sources:  []string{"k8s.io/kubernetes plugin/pkg/admission/priority"},
			Proof:    provenOnCluster,
			pod:      checkPriorityExists,
		},
	}
}

func checkAccountExists(p *pod, r reporter) {
	at := p.Spec.Find("serviceAccountName")
	if at.Str() == "" {
		at = p.Spec.Find("serviceAccount") // its deprecated name
	}
	if name := at.Str(); name != "default" && p.lacks("ServiceAccount", name) {
		r.at(at, "there is no ServiceAccount %s", name)
	}
}

func checkPriorityExists(p *pod, r reporter) {
	at := p.Spec.Find("priorityClassName")
	if p.facts().Objects.lacks("PriorityClass", "", at.Str()) && !strings.Contains(at.Str(), "$") {
		r.at(at, "there is no PriorityClass %s", at.Str())
	}
}

// lacks reports whether an object certainly is not in the pod's namespace.
func (p *pod) lacks(kind, name string) bool {
	return p.facts().Objects.lacks(kind, p.Object.Namespace, name) && !strings.Contains(name, "$")
}

func checkSourcesExist(p *pod, r reporter) {
	if p.facts().Objects == nil {
		return
	}
	need := func(kind string, from tree.Value, field string) {
		name := from.Find(field)
		ours := kind == "ConfigMap" && name.Str() == "kube-root-ca.crt" // each namespace gets it
		if !from.Find("optional").True() && !ours && p.lacks(kind, name.Str()) {
			r.at(name, "there is no %s %s", kind, name.Str())
		}
	}
	for _, v := range p.Spec.Find("volumes").Items() {
		need("ConfigMap", v.Find("configMap"), "name")
		need("Secret", v.Find("secret"), "secretName")
		need("PersistentVolumeClaim", v.Find("persistentVolumeClaim"), "claimName")
		for _, s := range v.Find("projected", "sources").Items() {
			need("ConfigMap", s.Find("configMap"), "name")
			need("Secret", s.Find("secret"), "name")
		}
	}
	for _, c := range p.Containers {
		for _, e := range c.Find("envFrom").Items() {
			need("ConfigMap", e.Find("configMapRef"), "name")
			need("Secret", e.Find("secretRef"), "name")
		}
		for _, e := range c.Find("env").Items() {
			need("ConfigMap", e.Find("valueFrom", "configMapKeyRef"), "name")
			need("Secret", e.Find("valueFrom", "secretKeyRef"), "name")
		}
	}
}
