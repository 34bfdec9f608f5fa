// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// snapshot is every object of the cluster with what users see of it: all but
// the status and what only counts changes. Events tell what was, and leases
// are renewed.
func (c *cluster) snapshot() map[string]string {
	c.t.Helper()
	lists, err := c.client.Discovery().ServerPreferredResources()
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string]string{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, r := range l.APIResources {
			if !slices.Contains([]string(r.Verbs), "list") || r.Name == "events" || r.Name == "leases" ||
				r.Name == "componentstatuses" {
				continue
			}
			items, err := c.dynamic.Resource(gv.WithResource(r.Name)).List(c.t.Context(), metav1.ListOptions{})
			if err != nil {
				c.t.Fatalf("list %s: %v", r.Name, err)
			}
			for _, o := range items.Items {
				key := fmt.Sprintf("%s.%s %s/%s", r.Name, gv.Group, o.GetNamespace(), o.GetName())
				out[key] = seen(&o)
			}
		}
	}
	return out
}

func seen(o *unstructured.Unstructured) string {
	delete(o.Object, "status")
	for _, f := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(o.Object, "metadata", f)
	}
	if o.GetKind() == "Node" {
		// It is filled in, and stays: it says what the kubelet says of itself.
		unstructured.RemoveNestedField(o.Object, "metadata", "labels", corev1.LabelWindowsBuild)
	}
	data, err := json.Marshal(o.Object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// difference describes how two snapshots differ, or returns "" if they are equal.
func difference(before, after map[string]string) string {
	var out []string
	for k, v := range after {
		switch was, ok := before[k]; {
		case !ok:
			out = append(out, "+ "+k)
		case was != v:
			out = append(out, "~ "+k+"\n    "+was+"\n    "+v)
		}
	}
	for k := range before {
		if _, ok := after[k]; !ok {
			out = append(out, "- "+k)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// versions returns the resource versions of what an installation applied.
func (c *cluster) versions() map[string]string {
	c.t.Helper()
	out := map[string]string{}
	for _, r := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "namespaces"}, {Version: "v1", Resource: "serviceaccounts"},
		{Version: "v1", Resource: "services"},
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	} {
		list, err := c.dynamic.Resource(r).List(c.t.Context(),
			metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=mullion"})
		if err != nil {
			c.t.Fatal(err)
		}
		for _, o := range list.Items {
			out[r.Resource+"/"+o.GetName()] = o.GetResourceVersion()
		}
	}
	return out
}
