// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// roleWriters is the number of roles written concurrently: enough to share a sync of the
// disk, few enough for two processors.
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

// settledAuthorizer does not refuse requests before the server has read the roles: it waits for them, at most as long
// as the request may take. Upstream serves requests before that and refuses them (403), because only /readyz takes
// the caches into account, which a load balancer in front of several servers would check. Clients of one server do
// not.
type settledAuthorizer struct {
	authorizer.Authorizer
	roles []cache.InformerSynced
}

// settle puts a settledAuthorizer in front of the authorizer of each of the three servers in one.
func settle(c *apiserver.Config) {
	rbac := c.KubeAPIs.ControlPlane.VersionedInformers.Rbac().V1()
	roles := []cache.InformerSynced{rbac.Roles().Informer().HasSynced, rbac.RoleBindings().Informer().HasSynced,
		rbac.ClusterRoles().Informer().HasSynced, rbac.ClusterRoleBindings().Informer().HasSynced}
	for _, server := range []*genericapiserver.Config{c.KubeAPIs.ControlPlane.Generic,
		&c.ApiExtensions.GenericConfig.Config, &c.Aggregator.GenericConfig.Config} {
		server.Authorization.Authorizer = settledAuthorizer{server.Authorization.Authorizer, roles}
	}
}

// Authorize implements authorizer.Authorizer.
func (s settledAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (
	authorizer.Decision, string, error,
) {
	missing := slices.ContainsFunc(s.roles, func(synced cache.InformerSynced) bool { return !synced() })
	decision, reason, err := s.Authorizer.Authorize(ctx, a)
	if !missing || decision == authorizer.DecisionAllow {
		return decision, reason, err
	}
	cache.WaitForCacheSync(ctx.Done(), s.roles...)
	return s.Authorizer.Authorize(ctx, a)
}
