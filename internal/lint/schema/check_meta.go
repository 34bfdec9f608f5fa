// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

type metaType = metav1.ObjectMeta

// meta checks the metadata of objects and of templates.
func (w *walk) meta(v tree.Value) {
	w.format(v.Find("namespace"), validation.IsDNS1123Label)
	w.labels(v.Find("labels"))
	for _, f := range v.Find("finalizers").Items() {
		w.format(f, finalizer)
	}
	for _, entry := range v.Find("annotations").Entries() {
		w.key(entry, entry.Key())
	}
}

// finalizer rejects names without a domain that are not Kubernetes' own.
func finalizer(s string) []string {
	if strings.Contains(s, "/") || slices.Contains([]string{"kubernetes", "orphan", "foregroundDeletion"}, s) {
		return nil
	}
	return []string{"a finalizer of one's own is DOMAIN/NAME"}
}

// labels checks the keys and values of labels, and of selectors.
func (w *walk) labels(v tree.Value) {
	for _, key := range v.Keys() {
		w.key(v.Get(key), key)
		w.format(v.Find(key), validation.IsValidLabelValue)
	}
}

func (w *walk) key(v tree.Value, key string) {
	if key != "" && plain(key) {
		return
	}
	if why := validation.IsQualifiedName(key); len(why) > 0 && !template(key) {
		text, _, _ := strings.Cut(why[0], " (e.g.")
		w.invalid(v, "write PREFIX/NAME or NAME", "the key %q: %s", clip(key), text)
	}
}

// plain reports whether a text is of few lower-case letters, as most keys and
// values of labels are: it is a valid one then, and regular expressions take time.
func plain(s string) bool {
	return len(s) <= validation.LabelValueMaxLength && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") == ""
}

// name checks the name of an object. It checks only kinds whose names are known
// to be domains: names of roles and others may be different.
func (w *walk) name(object tree.Value, kind string) {
	valid := validation.IsDNS1123Subdomain
	switch kind {
	case "Pod", "Deployment", "DaemonSet", "ReplicaSet", "ReplicationController", "ConfigMap", "Secret",
		"PersistentVolumeClaim", "PersistentVolume", "StorageClass", "Ingress", "ServiceAccount", "RuntimeClass",
		"PriorityClass", "NetworkPolicy", "PodDisruptionBudget", "HorizontalPodAutoscaler", "ResourceQuota",
		"LimitRange":
	case "CronJob", "StatefulSet", "Job":
		most := validation.DNS1035LabelMaxLength
		switch kind {
		case "CronJob":
			most -= 11 // for the suffix of a Job
		case "StatefulSet":
			most = validation.DNS1123SubdomainMaxLength
		}
		valid = func(s string) []string {
			if len(s) > most {
				return []string{validation.MaxLenError(most)}
			}
			return validation.IsDNS1123Subdomain(s)
		}
	case "Service", "Namespace":
		valid = validation.IsDNS1123Label
	default:
		return
	}
	name := object.Find("metadata", "name")
	if object.Find("metadata", "generateName").Str() == "" {
		w.missing(object.Get("metadata"), "name")
	}
	w.format(name, valid)
}
