// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// Action is the change that is made to an object.
type Action string

// The actions.
const (
	Created   Action = "created"
	Changed   Action = "changed"
	Unchanged Action = "unchanged"
	Removed   Action = "removed"
	Kept      Action = "kept" // not part of the installation, or in use; see Why
)

// Step is one object and the action planned or done for it.
type Step struct {
	Object string // as describe names it
	Action Action
	Why    string // of Kept; "" otherwise

	kind      kind
	object    *unstructured.Unstructured // the object to apply, or the existing one to remove
	namespace string
}

func (s Step) String() string {
	if s.Why != "" {
		return fmt.Sprintf("%s %s: %s", s.Object, s.Action, s.Why)
	}
	return fmt.Sprintf("%s %s", s.Object, s.Action)
}

// Conflict is a field that another client has set to a different value.
type Conflict struct{ Object, Field, Manager string }

// ConflictError lists all fields that other clients have set.
type ConflictError []Conflict

func (e ConflictError) Error() string {
	var b strings.Builder
	b.WriteString("fields are set by others:")
	for _, c := range e {
		fmt.Fprintf(&b, "\n  %s: %s is set by %s", c.Object, c.Field, c.Manager)
	}
	return b.String()
}

// conflicts reads the API server's answer to an apply. Each cause has the
// message: conflict with "MANAGER" using VERSION
// (k8s.io/apimachinery pkg/util/managedfields/internal, conflict.go).
func conflicts(o *unstructured.Unstructured, err error) ConflictError {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var out ConflictError
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			out = append(out, Conflict{describe(o), cause.Field, strings.TrimPrefix(cause.Message, "conflict with ")})
		}
	}
	return out
}

// helmRelease returns the Helm release that an object belongs to, or "".
func helmRelease(o *unstructured.Unstructured) string {
	return o.GetAnnotations()["meta.helm.sh/release-name"]
}

func ours(o *unstructured.Unstructured) bool { return o.GetLabels()[inventory.ManagedBy] == appName }

// HelmError reports an object that belongs to a Helm release, which must not be
// touched.
type HelmError struct{ Object, Release string }

func (e *HelmError) Error() string {
	return fmt.Sprintf("%s belongs to the Helm release %s", e.Object, e.Release)
}

// compare determines the effect of applying an object, without applying it.
func (c *Cluster) compare(ctx context.Context, o *unstructured.Unstructured, force bool) (Step, error) {
	k, err := kindOf(o)
	if err != nil {
		return Step{}, err
	}
	s := Step{Object: describe(o), kind: k, object: o, namespace: o.GetNamespace()}
	live, err := c.get(ctx, k, s.namespace, o.GetName())
	if err != nil {
		return s, err
	}
	if live == nil {
		s.Action = Created
		return s, c.wouldCreate(ctx, s, force)
	}
	if r := helmRelease(live); r != "" {
		return s, &HelmError{s.Object, r}
	}
	if slices.Contains([]string{namespaces.name, definitions.name}, k.name) && !ours(live) {
		s.Action, s.Why = Kept, "it was there before, and is left as it is"
		return s, nil
	}
	after, err := c.at(k, s.namespace).Apply(ctx, o.GetName(), o,
		metav1.ApplyOptions{FieldManager: fieldManager, Force: force, DryRun: []string{metav1.DryRunAll}})
	switch {
	case noDryRun(err):
		s.Action = Changed
		return s, nil
	case err != nil:
		return s, err
	case same(live, after):
		s.Action = Unchanged
	default:
		s.Action = Changed
	}
	return s, nil
}

// wouldCreate checks with a dry run whether the API server would accept a new
// object. It cannot check objects in a namespace that does not exist yet.
func (c *Cluster) wouldCreate(ctx context.Context, s Step, force bool) error {
	_, err := c.at(s.kind, s.namespace).Apply(ctx, s.object.GetName(), s.object,
		metav1.ApplyOptions{FieldManager: fieldManager, Force: force, DryRun: []string{metav1.DryRunAll}})
	if s.kind.namespaced && apierrors.IsNotFound(err) || noDryRun(err) {
		return nil
	}
	return err
}

// noDryRun reports whether another webhook does not support dry runs
// (k8s.io/apiserver pkg/admission/plugin/webhook/errors: NewDryRunUnsupportedErr).
func noDryRun(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "dry run")
}

// same compares the user-visible parts of two objects.
func same(a, b *unstructured.Unstructured) bool {
	strip := func(o *unstructured.Unstructured) map[string]any {
		o = o.DeepCopy()
		o.SetManagedFields(nil)
		o.SetResourceVersion("")
		o.SetGeneration(0)
		delete(o.Object, "status")
		return o.Object
	}
	return equality.Semantic.DeepEqual(strip(a), strip(b))
}
