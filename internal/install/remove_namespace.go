// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// namespace removes the namespaces that an installation created, and waits
// until they are gone. It keeps a namespace that contains other objects.
func (r *removal) namespace(ctx context.Context) error {
	for _, name := range r.namespaces {
		ns, err := r.c.get(ctx, namespaces, "", name)
		if err != nil {
			return err
		}
		if ns == nil {
			continue
		}
		s := step(namespaces, ns)
		if !ours(ns) {
			s.Action, s.Why = Kept, "it was not created by mullion install"
			r.say(s)
			continue
		}
		if !r.opts.Purge && ns.GetDeletionTimestamp() == nil {
			others, err := r.others(ctx, name)
			if err != nil {
				return err
			}
			if len(others) > 0 {
				s.Action, s.Why = Kept, fmt.Sprintf("it contains other objects: %s; --purge removes it", few(others))
				r.say(s)
				continue
			}
		}
		if err := r.remove(ctx, s); err != nil {
			return err
		}
		if err := r.gone(ctx, ns); err != nil {
			return err
		}
	}
	return nil
}

func (r *removal) gone(ctx context.Context, ns *unstructured.Unstructured) error {
	if r.opts.DryRun {
		return nil
	}
	last := ns
	return until(ctx, func() string { return deletionText(ns, last) }, func(ctx context.Context) (bool, error) {
		live, err := r.c.get(ctx, namespaces, "", ns.GetName())
		if err != nil || live == nil || live.GetUID() != ns.GetUID() {
			return true, err
		}
		last = live
		r.waiting("%s", deletionText(ns, last))
		return false, nil
	})
}

// fewNames is the number of names to print; further ones are only counted.
const fewNames = 5

func few(names []string) string {
	if len(names) <= fewNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:fewNames], ", "), len(names)-fewNames)
}

// others lists the objects in a namespace that neither an installation nor
// Kubernetes itself created.
func (r *removal) others(ctx context.Context, namespace string) ([]string, error) {
	lists, err := r.c.discovery.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("list the kinds of the cluster: %w", err)
	}
	var out []string
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			continue // an aggregated API server with a malformed name
		}
		for _, res := range l.APIResources {
			verbs := []string(res.Verbs)
			if !res.Namespaced || !slices.Contains(verbs, "list") || !slices.Contains(verbs, "delete") ||
				gv.Group == "events.k8s.io" || res.Name == "events" {
				continue
			}
			items, err := r.c.dynamic.Resource(gv.WithResource(res.Name)).Namespace(namespace).List(ctx,
				metav1.ListOptions{Limit: pageSize})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsForbidden(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("list %s in namespace %s: %w", res.Name, namespace, err)
			}
			for _, o := range items.Items {
				if o.SetKind(res.Kind); !expected(&o, r.opts.DryRun) {
					out = append(out, res.Kind+" "+o.GetName())
				}
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// expected reports whether an object may be ignored: it is being deleted, it is
// deleted with its owner, or every namespace has it. In a dry run, objects that
// would have been removed still exist.
func expected(o *unstructured.Unstructured, dryRun bool) bool {
	name, kind := o.GetName(), o.GetKind()
	if o.GetDeletionTimestamp() != nil || len(o.GetOwnerReferences()) > 0 {
		return true
	}
	switch kind {
	case configMaps.name:
		return name == "kube-root-ca.crt" || dryRun && name == inventory.LoadedImages
	case serviceAccounts.name:
		return name == "default" || dryRun && ours(o)
	case "Endpoints", "EndpointSlice": // of a Service that has just gone
		return o.GetLabels()["endpointslice.kubernetes.io/managed-by"] != "" || name == inventory.Service
	case secrets.name:
		return dryRun && name == inventory.Secret
	case leases.name:
		return dryRun && name == inventory.Lease
	}
	return dryRun && ours(o) && o.GetLabels()[nameLabel] == appName
}
