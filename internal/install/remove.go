// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mullion-k8s/mullion/internal/manager/controller/windowsnode"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/manager/registration"
	"github.com/mullion-k8s/mullion/internal/policy"
)

// podsLimit is how long to wait for the manager's pods to end: twice their
// grace period of 30 s, for slow kubelets. Then the rest is removed anyway; the
// pods no longer have any rights.
const podsLimit = time.Minute

// RemoveOptions are the options of Remove.
type RemoveOptions struct {
	// Namespace is searched in addition to the namespaces of the objects found;
	// "" means mullion-system.
	Namespace string
	// Purge also removes objects in use: RuntimeClasses that workloads name,
	// GMSACredentialSpecs, and other objects in the namespace.
	Purge bool
	// DryRun only reports the steps.
	DryRun bool
	// Say and Waiting are as in Options.
	Say     func(Step)
	Waiting func(string)
}

// Remove removes an installation in any state. It reports what it keeps, with
// the reason. The order:
//
//  1. webhook configurations, so that no request waits for webhooks whose
//     manager is being removed
//  2. the manager's rights, so that it cannot put anything back
//  3. the manager; then objects that it may have created again in between
//  4. its objects in the cluster: RuntimeClasses, the StorageClass, taints on nodes
//  5. everything else, the namespace last
//
// Errors: ErrUnreachable, *HelmError, *BuiltInError, and errors of the API
// server; it stops at the first error and may be called again.
func Remove(ctx context.Context, c *Cluster, opts RemoveOptions) error {
	opts.Namespace = cmp.Or(opts.Namespace, DefaultNamespace)
	if _, err := c.discovery.ServerVersion(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if err := c.notBuiltIn(ctx); err != nil {
		return err
	}
	r := &removal{c: c, opts: opts, seen: map[string]bool{}}
	if err := r.find(ctx); err != nil {
		return err
	}
	for _, do := range []func(context.Context) error{
		r.webhooks, r.rights, r.manager, r.webhooks,
		r.runtimeClasses, r.storage, r.taints, r.rest, r.definition, r.namespace,
	} {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// removal is one call of Remove.
type removal struct {
	c          *Cluster
	opts       RemoveOptions
	namespaces []string // that contain or may contain objects of an installation
	found      []Step   // objects with the labels of an installation
	seen       map[string]bool
}

// find finds all objects with the labels.
func (r *removal) find(ctx context.Context) error {
	r.namespaces = []string{r.opts.Namespace}
	for _, k := range applied() {
		// Another tool has taken over the object and changed its managed-by
		// label.
		list, err := r.c.list(ctx, k, "", nameLabel+"="+appName+","+componentLabel+"="+component)
		if err != nil {
			return err
		}
		for _, o := range list {
			if release := helmRelease(&o); release != "" {
				return &HelmError{describe(&o), release}
			}
			ns := o.GetNamespace()
			if k == namespaces {
				ns = o.GetName()
			}
			if ns != "" && !slices.Contains(r.namespaces, ns) {
				r.namespaces = append(r.namespaces, ns)
			}
			if ours(&o) {
				r.found = append(r.found, step(k, &o))
			}
		}
	}
	return nil
}

func step(k kind, o *unstructured.Unstructured) Step {
	o = o.DeepCopy()
	o.SetKind(k.name) // items of a list need not have one
	return Step{Object: describe(o), Action: Removed, kind: k, object: o, namespace: o.GetNamespace()}
}

func (r *removal) say(s Step) {
	if r.opts.Say != nil && !r.seen[s.String()] {
		r.seen[s.String()] = true
		r.opts.Say(s)
	}
}

func (r *removal) waiting(format string, args ...any) {
	if r.opts.Waiting != nil {
		r.opts.Waiting(fmt.Sprintf(format, args...))
	}
}

func (r *removal) remove(ctx context.Context, s Step) error {
	if !r.opts.DryRun {
		if err := r.c.delete(ctx, s); err != nil {
			return err
		}
	}
	r.say(s)
	return nil
}

// delete removes the object only if it is still the one that was inspected. An
// object that is already gone is not an error.
func (c *Cluster) delete(ctx context.Context, s Step) error {
	uid := s.object.GetUID()
	behind := metav1.DeletePropagationBackground
	err := c.at(s.kind, s.namespace).Delete(ctx, s.object.GetName(),
		metav1.DeleteOptions{PropagationPolicy: &behind, Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove %s: %w", s.Object, err)
	}
	return nil
}

// removeNamed removes an object that the manager created, if it exists.
func (r *removal) removeNamed(ctx context.Context, k kind, namespace, name string) error {
	o, err := r.c.get(ctx, k, namespace, name)
	if err != nil || o == nil {
		return err
	}
	return r.remove(ctx, step(k, o))
}

func (r *removal) webhooks(ctx context.Context) error {
	for _, k := range []kind{mutatingWebhooks, validatingWebhooks} {
		if err := r.removeNamed(ctx, k, "", registration.Name); err != nil {
			return err
		}
	}
	return nil
}

func (r *removal) ofKinds(ctx context.Context, kinds ...kind) error {
	for _, s := range r.found {
		if slices.Contains(kinds, s.kind) {
			if err := r.remove(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *removal) rights(ctx context.Context) error {
	return r.ofKinds(ctx, clusterBindings, roleBindings)
}

// manager removes the Deployment and waits until its pods have ended.
func (r *removal) manager(ctx context.Context) error {
	if err := r.ofKinds(ctx, deployments); err != nil || r.opts.DryRun {
		return err
	}
	bounded, stop := context.WithTimeout(ctx, podsLimit)
	defer stop()
	var left []string
	err := until(bounded, func() string { return "the manager's pods" }, func(ctx context.Context) (bool, error) {
		left = nil
		for _, ns := range r.namespaces {
			list, err := r.c.list(ctx, pods, ns, nameLabel+"="+appName+","+componentLabel+"="+component)
			if err != nil {
				return false, err
			}
			for _, p := range list {
				left = append(left, p.GetNamespace()+"/"+p.GetName())
			}
		}
		if len(left) > 0 {
			r.waiting("the manager's pods to end: %s", strings.Join(left, ", "))
		}
		return len(left) == 0, nil
	})
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	for _, p := range left {
		r.say(Step{Object: "Pod " + p, Action: Kept,
			Why: fmt.Sprintf("it has not ended within %s; its kubelet may be gone", podsLimit)})
	}
	return nil
}

// taints removes the taints of the policy. Labels stay: they repeat the
// kubelet's own report about its node.
func (r *removal) taints(ctx context.Context) error {
	list, err := r.c.list(ctx, nodes, "", "")
	if err != nil {
		return err
	}
	for _, o := range list {
		taint, has := o.GetAnnotations()[windowsnode.TaintAnnotation]
		if !has {
			continue
		}
		var n corev1.Node
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &n); err != nil {
			return fmt.Errorf("read node %s: %w", o.GetName(), err)
		}
		data, _, err := windowsnode.Patch(&n, policy.Taint{})
		if err != nil {
			return err
		}
		if data == nil {
			continue // the record of a node that is not a Windows node
		}
		if !r.opts.DryRun {
			_, err = r.c.at(nodes, "").Patch(ctx, n.Name, types.MergePatchType, data,
				metav1.PatchOptions{FieldManager: fieldManager})
			if apierrors.IsConflict(err) {
				return fmt.Errorf("remove the taint of node %s: it was changed concurrently; try again: %w",
					n.Name, err)
			}
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("remove the taint of node %s: %w", n.Name, err)
			}
		}
		r.say(Step{Object: fmt.Sprintf("taint %s of Node %s", taint, n.Name), Action: Removed})
	}
	return nil
}

// rest removes the remaining objects in namespaces and in the cluster, except
// definitions and namespaces.
func (r *removal) rest(ctx context.Context) error {
	err := r.ofKinds(ctx, disruptionBudgets, services, roles, clusterRoles, serviceAccounts, resourceQuotas)
	if err != nil {
		return err
	}
	for _, ns := range r.namespaces {
		for _, o := range []struct {
			kind kind
			name string
		}{{secrets, inventory.Secret}, {leases, inventory.Lease}, {configMaps, inventory.LoadedImages}} {
			if err := r.removeNamed(ctx, o.kind, ns, o.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// definition removes the definition of GMSACredentialSpecs if an installation
// created it and no GMSACredentialSpec exists.
func (r *removal) definition(ctx context.Context) error {
	crd, err := r.c.get(ctx, definitions, "", inventory.CredentialSpecs)
	if err != nil || crd == nil {
		return err
	}
	s := step(definitions, crd)
	if !ours(crd) {
		return nil // it never belonged to an installation
	}
	specs, err := r.c.list(ctx, credentialSpecObjs, "", "")
	if err != nil {
		return err
	}
	if len(specs) > 0 && !r.opts.Purge {
		s.Action, s.Why = Kept, fmt.Sprintf("there are %d GMSACredentialSpecs, which would be deleted with it; "+
			"--purge removes them", len(specs))
		r.say(s)
		return nil
	}
	return r.remove(ctx, s)
}
