// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package webhook

import (
	"context"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/place"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// JudgedLabel, with the value JudgedLater, is on new pods that another webhook
// may change after their placement: the webhook of the rules reviews these.
const (
	JudgedLabel = "admission.mullion.dev/judged"
	JudgedLater = "later"
)

// PlaceThenValidate returns a handler that places a new pod, and then validates
// the result: one request of the API server instead of two. While alone reports
// false, another webhook may change the pod after its placement; the pod then
// gets the label, so that validate reviews it later.
func PlaceThenValidate(place, validate Handler, alone func(ctx context.Context, namespace string) bool) Handler {
	return func(ctx context.Context, r *Request) (Response, error) {
		placed, err := place(ctx, r)
		if err != nil || !placed.Allowed || r.Kind.Kind != "Pod" || r.Operation != Create || Exempt(r.Object) {
			return placed, err
		}
		if !alone(ctx, r.Namespace) {
			return validateLater(r, placed), nil
		}
		final, err := r.after(placed)
		if err != nil {
			return Response{}, err
		}
		if placedOnLinux(final.Object) {
			return placed, nil
		}
		verdict, err := validate(ctx, final)
		if err != nil || !verdict.Allowed {
			return verdict, err
		}
		for _, w := range verdict.Warnings {
			if !slices.Contains(placed.Warnings, w) {
				placed.Warnings = append(placed.Warnings, w)
			}
		}
		return placed, nil
	}
}

// validateLater adds the label to a pod that was placed.
func validateLater(r *Request, placed Response) Response {
	label := tree.Edit{Op: tree.Add, Path: tree.Keys("metadata", "labels", JudgedLabel), Value: JudgedLater}
	// Where it cannot be added, the pod is malformed, and the API server reports the error.
	if _, patch, err := tree.Apply(r.Object, []tree.Edit{label}); err == nil && len(patch) > 0 {
		placed.Edits = append(placed.Edits, label)
	}
	return placed
}

// placedOnLinux: placement has found no sign of Windows in a pod and put it on
// Linux nodes. No rule applies; a match condition says the same.
func placedOnLinux(pod map[string]any) bool {
	why := tree.Root(pod).Find("metadata", "annotations", place.ReasonAnnotation).Str()
	return strings.HasPrefix(why, "linux:") &&
		tree.Root(pod).Find("spec", "nodeSelector", "kubernetes.io/os").Str() == "linux"
}
