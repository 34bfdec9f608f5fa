// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// roleWriters is how many roles are written at once: enough to share a sync of
// the disk, few enough for two processors.
const roleWriters = 8

// firstRoles writes the default roles and bindings into an empty cluster.
// Upstream's own hook (rbac/bootstrap-roles) waits for a second before it begins
// and then writes them one after the other; it then finds most of them in place.
// The hook still defines the roles and repairs them, so failures here are left
// to it.
func firstRoles(hook genericapiserver.PostStartHookContext) error {
	cfg := rest.CopyConfig(hook.LoopbackClientConfig)
	cfg.QPS = -1 // no limit: it is our own server
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	rbac := client.RbacV1()
	have, err := rbac.ClusterRoles().List(hook, metav1.ListOptions{Limit: 1})
	if err != nil || len(have.Items) > 0 {
		return nil
	}
	g, ctx := errgroup.WithContext(context.WithoutCancel(hook))
	g.SetLimit(roleWriters)
	for _, role := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		g.Go(func() error {
			_, _ = rbac.ClusterRoles().Create(ctx, &role, metav1.CreateOptions{}) // see above
			return nil
		})
	}
	for _, binding := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		g.Go(func() error {
			_, _ = rbac.ClusterRoleBindings().Create(ctx, &binding, metav1.CreateOptions{})
			return nil
		})
	}
	return g.Wait()
}
