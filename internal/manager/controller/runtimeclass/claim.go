// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package runtimeclass

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/manager/webhook"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// Claim returns the webhook that lets users create a RuntimeClass with a name
// that the controller already uses, such as the guide's windows-2019
// (docs/internals/controllers.md). It reviews the creation and the update of
// RuntimeClasses, and fails open.
//
// A creation deletes the controller's class, so that it finds the name free. An
// update with another handler, which cannot be changed, keeps the handler and
// makes the rest the user's.
//
// Only the API server may be able to call it, because a caller can have a class
// deleted. If that is not ensured, client is nil, and the API server refuses
// creations as for any name that is taken.
func Claim(client kubernetes.Interface, log *slog.Logger) webhook.Handler {
	return func(ctx context.Context, r *webhook.Request) (webhook.Response, error) {
		if r.Kind.Kind != "RuntimeClass" || r.SubResource != "" {
			return webhook.Allow(), nil
		}
		switch r.Operation {
		case webhook.Update:
			return keepHandler(r)
		case webhook.Create:
			if name := tree.Root(r.Object).Find("metadata", "name").Str(); client != nil && !r.DryRun &&
				!labelled(r.Object) && slices.Contains(classNames(), name) {
				return giveWay(ctx, client, log, name)
			}
		}
		return webhook.Allow(), nil
	}
}

func labelled(class map[string]any) bool {
	return tree.Root(class).Find("metadata", "labels", inventory.ManagedBy).Str() == inventory.Owner
}

// wantedAnnotation, on a RuntimeClass that a user took over, holds the handler
// that the user wants but cannot have, so that the same update passes again.
const wantedAnnotation = "mullion.dev/wanted-handler"

// keepHandler lets an update pass that would fail because of the handler.
func keepHandler(r *webhook.Request) (webhook.Response, error) {
	old := tree.Root(r.OldObject)
	have, want := old.Find("handler").Raw(), tree.Root(r.Object).Find("handler").Raw()
	again := want == old.Find("metadata", "annotations", wantedAnnotation).Raw()
	if have == want || have != Handler || !labelled(r.OldObject) && !again {
		return webhook.Allow(), nil
	}
	edits := []tree.Edit{
		{Op: tree.Replace, Path: tree.Keys("handler"), Value: have},
		{Op: tree.Remove, Path: tree.Keys("metadata", "labels", inventory.ManagedBy)},
		{Op: tree.Add, Path: tree.Keys("metadata", "annotations", wantedAnnotation), Value: want},
	}
	return webhook.Response{Allowed: true, Edits: edits, Warnings: []string{
		fmt.Sprintf("the handler of RuntimeClass %s stays %s, which every Windows node has: a handler cannot be "+
			"changed, and %s had made the class; it is yours now", r.Name, Handler, inventory.Owner),
	}}, nil
}

// giveWay deletes the controller's class of a name. The controller leaves the
// name free for a while.
func giveWay(ctx context.Context, client kubernetes.Interface, log *slog.Logger,
	name string) (webhook.Response, error) {
	api := client.NodeV1().RuntimeClasses()
	c, err := api.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !ours(c) {
		return webhook.Allow(), nil
	}
	if err != nil {
		return webhook.Response{}, fmt.Errorf("read RuntimeClass %s: %w", name, err)
	}
	only := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &c.UID, ResourceVersion: &c.ResourceVersion}}
	if err := api.Delete(ctx, name, only); err != nil && !apierrors.IsNotFound(err) {
		return webhook.Response{}, fmt.Errorf("delete RuntimeClass %s: %w", name, err)
	}
	log.Info("a RuntimeClass gave way to a user's of the same name", logkey.Name, name)
	return webhook.Response{Allowed: true, Warnings: []string{
		fmt.Sprintf("this replaces the RuntimeClass %s that %s had made; it no longer follows the taints of the nodes",
			name, inventory.Owner),
	}}, nil
}
