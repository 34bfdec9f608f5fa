// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// knownRules are about objects that a pod needs and that are neither in the
// cluster nor in the input. Without a cluster they report no findings.
func knownRules() []Rule {
	return []Rule{
		{
			Code:     "WIN236",
			Title:    "a ConfigMap, a Secret or a claim that does not exist",
			Severity: policy.Warning,
			Field:    "volumes, containers[*].env, containers[*].envFrom",
			Why: "The pod waits until it exists: ContainerCreating with MountVolume.SetUp failed, " +
				"CreateContainerConfigError, or Pending for a claim.",
			Fix:     "create it, or write optional: true",
			Sources: []string{"https://kubernetes.io/docs/concepts/configuration/secret/"},
			pod:     checkSourcesExist,
		},
		{
			Code:     "WIN237",
			Title:    "a key that the ConfigMap or the Secret does not have",
			Severity: policy.Warning,
			Field:    "volumes[*].items, containers[*].env",
			Why: "The container does not start: CreateContainerConfigError, couldn't find key; or the volume is not " +
				"mounted: references non-existent config key. lint checks only ConfigMaps and Secrets of the " +
				"same input.",
			Fix:     "add the key, correct it, or write optional: true",
			Sources: []string{"https://kubernetes.io/docs/concepts/configuration/configmap/"},
			pod:     checkKeysExist,
		},
		{
			Code:     "WIN810",
			Title:    "a ServiceAccount that does not exist",
			Severity: policy.Error,
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
			Severity: policy.Error,
			Field:    "priorityClassName",
			Why:      "The API server refuses the pod, also as part of a Deployment: no PriorityClass was found.",
			Fix:      "create it, or remove priorityClassName",
			Sources:  []string{"k8s.io/kubernetes plugin/pkg/admission/priority"},
			Proof:    provenOnCluster,
			pod:      checkPriorityExists,
		},
		{
			Code:     "WIN812",
			Title:    "a namespace that does not exist",
			Severity: policy.Warning,
			Field:    "metadata.namespace",
			Why:      "The API server refuses the object until the namespace exists: namespaces not found.",
			Fix:      "create it, or correct the name",
			Sources:  []string{"k8s.io/apiserver pkg/admission/plugin/namespace/lifecycle"},
			kinds: []string{"Pod", "Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "ReplicationController",
				"Job", "CronJob", "Service", "ConfigMap", "Secret", "PersistentVolumeClaim", "Ingress",
				"ServiceAccount", "Role", "RoleBinding", "HorizontalPodAutoscaler", "PodDisruptionBudget",
				"NetworkPolicy"},
			object: checkNamespaceExists,
		},
	}
}

func checkNamespaceExists(o *policy.Object, r reporter) {
	if name := o.Namespace; o.Facts.Objects.Lacks("Namespace", "", name) && !strings.ContainsAny(name, "${}<>") {
		r.at(o.Get("metadata", "namespace"), "there is no namespace %s", name)
	}
}

func checkAccountExists(p *policy.Pod, r reporter) {
	at := p.Spec.Find("serviceAccountName")
	if at.Str() == "" {
		at = p.Spec.Find("serviceAccount") // its deprecated name
	}
	if name := at.Str(); name != "default" && p.Lacks("ServiceAccount", name) {
		r.at(at, "there is no ServiceAccount %s", name)
	}
}

func checkPriorityExists(p *policy.Pod, r reporter) {
	at := p.Spec.Find("priorityClassName")
	if p.Facts().Objects.Lacks("PriorityClass", "", at.Str()) && !strings.Contains(at.Str(), "$") {
		r.at(at, "there is no PriorityClass %s", at.Str())
	}
}

func checkSourcesExist(p *policy.Pod, r reporter) {
	if p.Facts().Objects == nil {
		return
	}
	need := func(kind string, from tree.Value, field string) {
		name := from.Find(field)
		ours := kind == "ConfigMap" && name.Str() == "kube-root-ca.crt" // each namespace gets it
		if !from.Find("optional").True() && !ours && p.Lacks(kind, name.Str()) {
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

// checkKeysExist checks that keys exist in the ConfigMaps and the Secrets of the input.
func checkKeysExist(p *policy.Pod, r reporter) {
	facts := p.Facts()
	need := func(kind string, from tree.Value, name string, at tree.Value) {
		key, there := at.Str(), false
		if key == "" || from.Find("optional").True() || strings.ContainsAny(key+name, "${}<>") {
			return
		}
		for s := range facts.Related.FindSources(kind, name) {
			if !policy.SameNamespace(s.Namespace, p.Object.Namespace) {
				continue
			}
			if there = true; s.Keys == nil || slices.Contains(s.Keys, key) {
				return
			}
		}
		if there {
			r.at(at, "%s %s has no key %q", kind, name, key)
		}
	}
	items := func(kind string, from tree.Value, name string) {
		for _, item := range from.Find("items").Items() {
			need(kind, from, name, item.Get("key"))
		}
	}
	for _, v := range p.Spec.Find("volumes").Items() {
		items("ConfigMap", v.Find("configMap"), v.Find("configMap", "name").Str())
		items("Secret", v.Find("secret"), v.Find("secret", "secretName").Str())
		for _, s := range v.Find("projected", "sources").Items() {
			items("ConfigMap", s.Find("configMap"), s.Find("configMap", "name").Str())
			items("Secret", s.Find("secret"), s.Find("secret", "name").Str())
		}
	}
	for _, c := range p.Containers {
		for _, e := range c.Find("env").Items() {
			from := e.Find("valueFrom")
			config, secret := from.Find("configMapKeyRef"), from.Find("secretKeyRef")
			need("ConfigMap", config, config.Find("name").Str(), config.Get("key"))
			need("Secret", secret, secret.Find("name").Str(), secret.Get("key"))
		}
	}
}
