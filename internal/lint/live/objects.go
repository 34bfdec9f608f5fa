// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package live reads the objects of a running cluster that lint has rules
// about: page by page, as the same trees as manifests.
package live

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// resource is a kind of object to read.
type resource struct {
	schema.GroupVersionResource
	cluster  bool     // has no namespace
	optional bool     // a custom resource, which need not be installed
	only     []string // the namespaces in which it is read; nil for all
}

// resources lists the resources to read, in the order in which they are
// reported.
func resources() []resource {
	core := func(name string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Version: "v1", Resource: name}
	}
	of := func(group, name string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}
	}
	return []resource{
		{GroupVersionResource: core("namespaces"), cluster: true},
		{GroupVersionResource: of("node.k8s.io", "runtimeclasses"), cluster: true},
		{GroupVersionResource: of("windows.k8s.io", "gmsacredentialspecs"), cluster: true, optional: true},
		{GroupVersionResource: of("apps", "deployments")},
		{GroupVersionResource: of("apps", "daemonsets")},
		{GroupVersionResource: of("apps", "statefulsets")},
		{GroupVersionResource: of("apps", "replicasets")},
		{GroupVersionResource: core("replicationcontrollers")},
		{GroupVersionResource: of("batch", "cronjobs")},
		{GroupVersionResource: of("batch", "jobs")},
		{GroupVersionResource: core("pods")},
		{GroupVersionResource: core("services")},
		// Rules about ConfigMaps are about the cluster's network alone.
		{GroupVersionResource: core("configmaps"), only: []string{"kube-system", "kube-flannel"}},
	}
}

// pageSize bounds one answer of the API server; kubectl uses the same.
const pageSize = 500

// Objects calls yield with the objects of a cluster, or, if namespace is not
// empty, with the namespaced objects of that namespace. It omits objects whose
// controller is included, and pods that have ended. Resources that it may not
// read are named in notes: "services are not known: …". It stops at the first
// error of yield.
func Objects(ctx context.Context, client dynamic.Interface, namespace string,
	yield func(map[string]any) error) (notes []string, err error) {
	var stopped error
	each := func(o map[string]any) error {
		stopped = yield(o)
		return stopped
	}
	for _, r := range resources() {
		spaces := r.only
		switch {
		case namespace != "" && (r.cluster || spaces != nil && !slices.Contains(spaces, namespace)):
			continue
		case namespace != "":
			spaces = []string{namespace}
		case spaces == nil:
			spaces = []string{metav1.NamespaceAll}
		}
		for _, space := range spaces {
			switch err := list(ctx, client, r, space, each); {
			case stopped != nil:
				return notes, stopped
			case err == nil, r.optional && apierrors.IsNotFound(err):
			case apierrors.IsForbidden(err):
				notes = append(notes, fmt.Sprintf("%s are not known: %v", r.Resource, err))
			default:
				return notes, fmt.Errorf("read %s: %w", r.Resource, err)
			}
		}
	}
	return notes, nil
}

func list(ctx context.Context, client dynamic.Interface, r resource, namespace string,
	yield func(map[string]any) error) error {
	var in dynamic.ResourceInterface = client.Resource(r.GroupVersionResource)
	if namespace != "" {
		in = client.Resource(r.GroupVersionResource).Namespace(namespace)
	}
	for o := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := in.List(ctx, o)
		if err != nil {
			return err
		}
		for i := range page.Items {
			if u := &page.Items[i]; !owned(u) && !ended(u) {
				if err := yield(u.Object); err != nil {
					return err
				}
			}
		}
		if o.Continue = page.GetContinue(); o.Continue == "" {
			return nil
		}
	}
}

// owned reports whether an object belongs to a controller that Objects yields, or
// to a node. One that belongs to another controller, such as a Rollout, stands for it.
func owned(u *unstructured.Unstructured) bool {
	kinds := []string{"Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "ReplicationController", "CronJob",
		"Job", "Node"}
	return slices.ContainsFunc(u.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
		return o.Controller != nil && *o.Controller && slices.Contains(kinds, o.Kind)
	})
}

func ended(u *unstructured.Unstructured) bool {
	phase := tree.Root(u.Object).Find("status", "phase").Str()
	return u.GetKind() == "Pod" && (phase == "Succeeded" || phase == "Failed")
}
