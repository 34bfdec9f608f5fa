// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

type metaType = metav1.ObjectMeta

// meta checks the metadata of objects and of templates.
func (w *walk) meta(v tree.Value) {
	w.format(v.Get("namespace"), validation.IsDNS1123Label)
	w.labels(v.Get("labels"))
	for _, key := range v.Get("annotations").Keys() {
		w.key(v.Get("annotations", key), key)
	}
}

// labels checks the keys and values of labels, and of selectors.
func (w *walk) labels(v tree.Value) {
	for _, key := range v.Keys() {
		w.key(v.Get(key), key)
		w.format(v.Get(key), validation.IsValidLabelValue)
	}
}

func (w *walk) key(v tree.Value, key string) {
	if why := validation.IsQualifiedName(key); len(why) > 0 && !template(key) {
		text, _, _ := strings.Cut(why[0], " (e.g.")
		w.invalid(v, "write PREFIX/NAME or NAME", "the key %q: %s", clip(key), text)
	}
}

// name checks the name of an object. Only kinds whose names are known to be
// domains are: those of roles and others may be different.
func (w *walk) name(object tree.Value, kind string) {
	valid := validation.IsDNS1123Subdomain
	switch kind {
	case "Pod", "Deployment", "DaemonSet", "ReplicaSet", "ReplicationController", "ConfigMap", "Secret",
		"PersistentVolumeClaim", "PersistentVolume", "StorageClass", "Job", "Ingress":
	case "CronJob", "StatefulSet":
		most := validation.DNS1035LabelMaxLength - 11 // for the suffix of a Job
		if kind == "StatefulSet" {
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
