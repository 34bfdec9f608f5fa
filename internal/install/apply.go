// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mullion-k8s/mullion/internal/manager/registration"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// Options of Apply.
type Options struct {
	// Force takes over fields that others have set.
	Force bool
	// Say is called with each object when it is done; it may be nil.
	Say func(Step)
	// Waiting is called with a description of the condition that Apply waits for; it may be nil.
	Waiting func(string)
}

func (o Options) say(s Step) {
	if o.Say != nil {
		o.Say(s)
	}
}

func (o Options) waiting(format string, args ...any) {
	if o.Waiting != nil {
		o.Waiting(fmt.Sprintf(format, args...))
	}
}

// Apply creates the objects of a configuration, and changes the objects that
// differ. It first sends all of them to the API server as dry runs, so that
// refusals are known before the first change. If it is interrupted, it may be
// called again.
//
// Errors: ErrUnreachable, *TooOldError, *ElsewhereError, *BuiltInError,
// *HelmError, *AuthoritiesError, ConflictError, and errors of the API server.
func Apply(ctx context.Context, c *Cluster, cfg Config, opts Options) error {
	objects, err := Objects(cfg)
	if err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	if err := c.checkNoOther(ctx, cfg.withDefaults().Namespace); err != nil {
		return err
	}
	if err := c.authorities(ctx, cfg.withDefaults()); err != nil {
		return err
	}
	if err := c.awaitDeletions(ctx, objects, opts); err != nil {
		return err
	}
	steps, err := c.plan(ctx, objects, opts.Force)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if s.Action == Created || s.Action == Changed {
			_, err := c.at(s.kind, s.namespace).Apply(ctx, s.object.GetName(), s.object,
				metav1.ApplyOptions{FieldManager: fieldManager, Force: opts.Force})
			if err != nil {
				return fmt.Errorf("apply %s: %w", s.Object, err)
			}
		}
		opts.say(s)
	}
	return c.prune(ctx, objects, opts)
}

// plan compares all objects with the cluster. All conflicts are reported at
// once.
func (c *Cluster) plan(ctx context.Context, objects []*unstructured.Unstructured, force bool) ([]Step, error) {
	var steps []Step
	var clash ConflictError
	for _, o := range objects {
		s, err := c.compare(ctx, o, force)
		if found := conflicts(o, err); found != nil {
			clash = append(clash, found...)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("apply %s: %w", describe(o), err)
		}
		steps = append(steps, s)
	}
	if clash != nil {
		return nil, clash
	}
	return steps, nil
}

// ElsewhereError refuses a second installation.
type ElsewhereError struct{ Namespace string }

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("mullion is installed in namespace %s", e.Namespace)
}

// BuiltInError refuses a cluster whose control plane has a manager.
type BuiltInError struct{ URL string }

func (e *BuiltInError) Error() string {
	return fmt.Sprintf("the cluster's control plane has its own manager, at %s", e.URL)
}

// checkNoOther checks that there is no other manager in the cluster.
func (c *Cluster) checkNoOther(ctx context.Context, namespace string) error {
	found, err := c.list(ctx, deployments, "", nameLabel+"="+appName+","+componentLabel+"="+component)
	if err != nil {
		return err
	}
	for _, d := range found {
		if d.GetNamespace() != namespace && d.GetDeletionTimestamp() == nil {
			return &ElsewhereError{d.GetNamespace()}
		}
	}
	return c.notBuiltIn(ctx)
}

// notBuiltIn checks that no webhook is addressed by a URL: such webhooks belong
// to a control plane of mullion, an installation has a Service.
func (c *Cluster) notBuiltIn(ctx context.Context) error {
	hook, err := c.get(ctx, mutatingWebhooks, "", registration.Name)
	if err != nil || hook == nil {
		return err
	}
	for _, h := range tree.Root(hook.Object).Find("webhooks").Items() {
		if url := h.Find("clientConfig", "url"); url.Set() {
			return &BuiltInError{url.Str()}
		}
	}
	return nil
}

// awaitDeletions waits until objects that are being deleted are gone: an
// uninstallation may just have been interrupted, and a namespace that is being
// deleted doesn't accept new objects.
func (c *Cluster) awaitDeletions(ctx context.Context, objects []*unstructured.Unstructured, opts Options) error {
	for _, o := range objects {
		k, err := kindOf(o)
		if err != nil {
			return err
		}
		var last *unstructured.Unstructured
		err = until(ctx, func() string { return deletionText(o, last) }, func(ctx context.Context) (bool, error) {
			live, err := c.get(ctx, k, o.GetNamespace(), o.GetName())
			if err != nil || live == nil || live.GetDeletionTimestamp() == nil {
				return true, err
			}
			last = live
			opts.waiting("%s", deletionText(o, last))
			return false, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deletionText describes the cause of delay in the deletion of an object.
func deletionText(o, live *unstructured.Unstructured) string {
	text := "the removal of " + describe(o)
	if live == nil {
		return text
	}
	keeping := []string{
		"NamespaceContentRemaining",
		"NamespaceFinalizersRemaining",
		"NamespaceDeletionDiscoveryFailure",
		"NamespaceDeletionContentFailure",
	}
	for _, c := range tree.Root(live.Object).Find("status", "conditions").Items() {
		if c.Find("status").Str() == "True" && slices.Contains(keeping, c.Find("type").Str()) {
			text += " (" + c.Find("message").Str() + ")"
		}
	}
	return text
}

// prune removes objects that an earlier version or another configuration
// created and this one does not. A definition stays: users' objects may depend
// on it.
func (c *Cluster) prune(ctx context.Context, objects []*unstructured.Unstructured, opts Options) error {
	wanted := func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(objects, func(w *unstructured.Unstructured) bool {
			return w.GetKind() == o.GetKind() && w.GetName() == o.GetName() && w.GetNamespace() == o.GetNamespace()
		})
	}
	var errs []error
	for _, k := range applied() {
		if k == namespaces || k == definitions {
			continue
		}
		found, err := c.list(ctx, k, "", Selector)
		if err != nil {
			return err
		}
		for _, o := range found {
			if wanted(&o) {
				continue
			}
			s := Step{Object: describe(&o), Action: Removed, kind: k, object: &o, namespace: o.GetNamespace()}
			if err := c.delete(ctx, s); err != nil {
				errs = append(errs, err)
				continue
			}
			opts.say(s)
		}
	}
	return errors.Join(errs...)
}
