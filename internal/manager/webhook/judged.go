// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// JudgedLabel, with the value JudgedLater, is what new pods get that others may
// change after their placement: about those the webhook of the rules is asked.
const (
	JudgedLabel = "admission.mullion.dev/judged"
	JudgedLater = "later"
)

// Judged makes of place, which changes new pods, a webhook that also judges
// them as they will then be: one question of the API server in place of two.
// While alone says no, somebody else may change a pod afterwards, and it gets
// the label in place of a verdict.
func Judged(place, rules Handler, alone func(ctx context.Context, namespace string) bool) Handler {
	return func(ctx context.Context, r *Request) (Response, error) {
		resp, err := place(ctx, r)
		if err != nil || !resp.Allowed || r.Kind.Kind != "Pod" || r.Operation != Create || leaveAlone(r.Object) {
			return resp, err
		}
		if !alone(ctx, r.Namespace) {
			label := tree.Edit{Op: tree.Add, Path: tree.Keys("metadata", "labels", JudgedLabel), Value: JudgedLater}
			// Where it cannot be, the pod is malformed, and the API server says how.
			if _, _, err := tree.Apply(r.Object, []tree.Edit{label}); err == nil {
				resp.Edits = append(resp.Edits, label)
			}
			return resp, nil
		}
		final := *r
		if final.Object, _, err = tree.Apply(r.Object, resp.Edits); err != nil {
			return Response{}, fmt.Errorf("change the object: %w", err)
		}
		if placedOnLinux(final.Object) {
			return resp, nil
		}
		verdict, err := rules(ctx, &final)
		if err != nil || !verdict.Allowed {
			return verdict, err
		}
		for _, w := range verdict.Warnings {
			if !slices.Contains(resp.Warnings, w) {
				resp.Warnings = append(resp.Warnings, w)
			}
		}
		return resp, nil
	}
}

// placedOnLinux: placement has found nothing about Windows in a pod and put it
// on Linux nodes. No rule looks at it; a match condition says the same.
func placedOnLinux(pod map[string]any) bool {
	why := tree.Root(pod).Find("metadata", "annotations", policy.ReasonAnnotation).Str()
	return strings.HasPrefix(why, "linux:") &&
		tree.Root(pod).Find("spec", "nodeSelector", "kubernetes.io/os").Str() == "linux"
}
