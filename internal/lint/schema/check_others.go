// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// claim checks the spec of a PersistentVolumeClaim, or of a template of one.
func (w *walk) claim(v tree.Value) {
	if v.Get("accessModes").Len() == 0 {
		w.missing(v, "accessModes")
	}
	for _, mode := range v.Find("accessModes").Items() {
		w.oneOf(mode, "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
	}
	if !v.Find("resources", "requests", "storage").Set() {
		w.report(codeMissing, v.Get("resources", "requests", "storage"), "add it", "a claim needs "+
			"resources.requests.storage")
	}
}

// scaler checks the spec of a HorizontalPodAutoscaler.
func (w *walk) scaler(v tree.Value) {
	w.missing(v, "maxReplicas", "scaleTargetRef")
	least, ok := number(v.Find("minReplicas").Raw())
	if most, set := number(v.Find("maxReplicas").Raw()); ok && set && least > most {
		w.report(codeExclusive, v.Get("maxReplicas"), "raise it, or lower minReplicas",
			"maxReplicas %v is less than minReplicas %v", most, least)
	}
	w.scaled(v.Find("scaleTargetRef"))
}

// scaled checks the target of a HorizontalPodAutoscaler: only one kind that can be
// scaled has no group. k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go
func (w *walk) scaled(target tree.Value) {
	kind, version := target.Find("kind").Str(), target.Find("apiVersion").Str()
	if !target.Set() || w.checker.version != 0 && w.checker.version < current || strings.Contains(version, "/") ||
		kind == "ReplicationController" || template(version) || template(kind) {
		return
	}
	w.report(codeMissing, target.Get("apiVersion"), "write apiVersion: apps/v1, or the target's",
		"%s needs an apiVersion with a group", target.Path())
}

// budget checks the spec of a PodDisruptionBudget.
func (w *walk) budget(v tree.Value) {
	if v.Find("minAvailable").Set() && v.Find("maxUnavailable").Set() {
		w.report(codeExclusive, v.Get("maxUnavailable"), "remove one",
			"a budget has minAvailable or maxUnavailable, and not both")
	}
}

// path checks a path of an Ingress.
func (w *walk) path(v tree.Value) {
	w.missing(v, "pathType", "backend")
	w.oneOf(v.Find("pathType"), "Exact", "Prefix", "ImplementationSpecific")
	if s := v.Find("path").Str(); s != "" && s[0] != '/' && v.Find("pathType").Str() != "ImplementationSpecific" {
		w.invalid(v.Get("path"), "begin it with /", "%q does not begin with /", clip(s))
	}
}

// backend checks the Service behind a path.
func (w *walk) backend(v tree.Value) {
	w.missing(v, "name")
	if len(some(v.Get("port"), "name", "number")) != 1 {
		w.report(codeMissing, v.Get("port"), "write port: {number: N} or {name: NAME}", "a backend has a port: its "+
			"number or its name")
	}
	w.port(v.Find("port", "number"))
}

// subject checks a subject of a RoleBinding or a ClusterRoleBinding.
func (w *walk) subject(v tree.Value) {
	w.missing(v, "kind", "name")
	if v.Find("kind").Str() == "ServiceAccount" && w.root.Find("kind").Str() == "ClusterRoleBinding" {
		w.missing(v, "namespace") // a RoleBinding has one itself
	}
}

// secret checks that a Secret has the keys of its type.
func (w *walk) secret(v tree.Value) {
	if v.Find("type").Str() != "kubernetes.io/tls" {
		return
	}
	for _, key := range []string{"tls.crt", "tls.key"} {
		if !v.Find("data", key).Set() && !v.Find("stringData", key).Set() {
			w.report(codeMissing, v.Get("data", key), "add it", "a Secret of type kubernetes.io/tls needs %s", key)
		}
	}
}

// item checks which key of a ConfigMap or a Secret becomes which file.
func (w *walk) item(v tree.Value) { w.missing(v, "key", "path") }

// alias checks a line for the hosts file.
func (w *walk) alias(v tree.Value) {
	w.format(v.Find("ip"), address)
}

// network rejects texts that are not a range of addresses.
func network(s string) []string {
	if _, err := netip.ParsePrefix(strings.TrimSpace(s)); err != nil {
		return []string{"not ADDRESS/BITS"}
	}
	return nil
}

// address rejects texts that are not an IP address.
func address(s string) []string {
	if _, err := netip.ParseAddr(s); err != nil {
		return []string{"not an IP address"}
	}
	return nil
}

// fieldRef checks the path of a field of the pod.
// k8s.io/kubernetes/pkg/apis/core/v1: conversion.go, AddFieldLabelConversionsForPod.
func (w *walk) fieldRef(v tree.Value) {
	known := []string{"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels",
		"metadata.annotations", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs",
		"status.podIP", "status.podIPs"}
	path := v.Find("fieldPath").Str()
	if strings.HasPrefix(path, "metadata.labels['") || strings.HasPrefix(path, "metadata.annotations['") ||
		path != "" && slices.Contains(known, path) {
		return
	}
	w.missing(v, "fieldPath")
	w.oneOf(v.Find("fieldPath"), known...)
}
