// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package loadbalancer

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
)

// Router sends connections to nodes; see fabric.Balancer.
type Router interface {
	// Set replaces all fronts.
	Set(ctx context.Context, fronts []fabric.Front) error
}

// balancer gives addresses to Services and keeps the router's fronts. It implements
// cloudprovider.LoadBalancer; upstream's controller calls it, adds the finalizer, writes the
// status and reports errors as events.
type balancer struct {
	pools    pools
	networks []netip.Prefix // of the nodes, one of each address family
	router   Router
	services corelisters.ServiceLister // synced
	ask      asker
	health   health

	mu sync.Mutex
	// routes of the Services that have been ensured in this life, one for each address. guarded by mu
	routes map[types.NamespacedName][]route
	// unseen are the Services of an earlier process that upstream's controller has not handled
	// yet. Until it has, the router keeps its earlier configuration, which must be replaced as a
	// whole. guarded by mu
	unseen map[types.NamespacedName]struct{}
	// refused describes the addresses of nodes that do not count. guarded by mu
	refused []string
}

var _ cloudprovider.LoadBalancer = (*balancer)(nil)

func keyOf(s *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// begin notes the Services of an earlier life.
func (b *balancer) begin() error {
	all, err := b.services.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.routes, b.unseen = map[types.NamespacedName][]route{}, map[types.NamespacedName]struct{}{}
	for _, s := range all {
		if comes(s) {
			b.unseen[keyOf(s)] = struct{}{}
		}
	}
	return nil
}

// comes reports whether upstream's controller comes to a Service with its finalizer, which is not its alone
// (k8s.io/cloud-provider v0.36.3, controllers/service/controller.go, wantsLoadBalancer and needsCleanup).
func comes(s *corev1.Service) bool {
	return servicehelper.HasLBFinalizer(s) && (s.DeletionTimestamp != nil ||
		s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.LoadBalancerClass == nil)
}

// note returns the reason why load balancers differ from the cluster's objects, or "".
func (b *balancer) note() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	notes := slices.Clone(b.refused)
	if len(b.unseen) > 0 {
		notes = append(notes,
			fmt.Sprint("connections go where they went before the server's start: Services that it has "+
				"not come to: ", sortedNames(b.unseen)))
	}
	return strings.Join(notes, "; ")
}

// GetLoadBalancer implements cloudprovider.LoadBalancer.
func (b *balancer) GetLoadBalancer(_ context.Context, _ string, s *corev1.Service) (
	*corev1.LoadBalancerStatus, bool, error,
) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ensured := b.routes[keyOf(s)]
	_, unseen := b.unseen[keyOf(s)]
	return &s.Status.LoadBalancer, ensured || unseen || len(addressesOf(b.pools, s)) > 0, nil
}

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (b *balancer) GetLoadBalancerName(_ context.Context, _ string, s *corev1.Service) string {
	return keyOf(s).String()
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (b *balancer) EnsureLoadBalancer(ctx context.Context, _ string, s *corev1.Service, nodes []*corev1.Node) (
	*corev1.LoadBalancerStatus, error,
) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.unseen, keyOf(s))
	used, err := b.used(keyOf(s))
	if err != nil {
		return nil, err
	}
	addresses, err := b.pools.choose(s, used)
	if err != nil {
		return nil, err
	}
	if err := b.learn(ctx, s, nodes, addresses); err != nil {
		return nil, err
	}
	status := &corev1.LoadBalancerStatus{}
	for _, a := range addresses {
		status.Ingress = append(status.Ingress,
			corev1.LoadBalancerIngress{IP: a.String(), IPMode: new(corev1.LoadBalancerIPModeVIP)})
	}
	return status, b.apply(ctx)
}

// learn records the routes of a Service, and checks the health of new nodes.
// Preconditions: the caller holds mu.
func (b *balancer) learn(ctx context.Context, s *corev1.Service, nodes []*corev1.Node, addresses []netip.Addr) error {
	var members []member
	members, b.refused = membersOf(nodes, b.networks)
	routes, err := describe(s, members, addresses)
	if err != nil {
		return err
	}
	// The router refuses a configuration as a whole, so it must not get a route that it
	// would refuse.
	if err := fabric.CheckFronts(b.pools, frontsOf(routes, b.health.fit)); err != nil {
		return err
	}
	b.health.learn(ctx, probesOf(routes), b.ask)
	b.routes[keyOf(s)] = routes
	return nil
}

func frontsOf(routes []route, fit func(probe) bool) (out []fabric.Front) {
	for _, r := range routes {
		out = append(out, r.fronts(fit)...)
	}
	return out
}

func probesOf(routes []route) map[probe]struct{} {
	out := map[probe]struct{}{}
	for _, r := range routes {
		for _, t := range r.targets {
			out[t.probe] = struct{}{}
		}
	}
	return out
}

// used returns the addresses that other Services have.
func (b *balancer) used(by types.NamespacedName) (map[netip.Addr]types.NamespacedName, error) {
	all, err := b.services.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	out := map[netip.Addr]types.NamespacedName{}
	for _, s := range all {
		// A status without our finalizer was written by others, or is about to be removed.
		if keyOf(s) == by || !servicehelper.HasLBFinalizer(s) {
			continue
		}
		for _, a := range addressesOf(b.pools, s) {
			out[a] = keyOf(s)
		}
	}
	for name, routes := range b.routes {
		for _, r := range routes {
			if name != by {
				out[r.address] = name
			}
		}
	}
	return out, nil
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer: the nodes have changed.
func (b *balancer) UpdateLoadBalancer(ctx context.Context, _ string, s *corev1.Service, nodes []*corev1.Node) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, ok := b.routes[keyOf(s)]
	if !ok {
		return nil // it has no address: upstream's controller tries again
	}
	var addresses []netip.Addr
	for _, r := range old {
		addresses = append(addresses, r.address)
	}
	if err := b.learn(ctx, s, nodes, addresses); err != nil {
		return err
	}
	return b.apply(ctx)
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (b *balancer) EnsureLoadBalancerDeleted(ctx context.Context, _ string, s *corev1.Service) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.unseen, keyOf(s))
	delete(b.routes, keyOf(s))
	return b.apply(ctx)
}

// apply sends the whole configuration to the router. Preconditions: the caller holds mu.
func (b *balancer) apply(ctx context.Context) error {
	maps.DeleteFunc(b.unseen, func(name types.NamespacedName, _ struct{}) bool {
		s, err := b.services.Services(name.Namespace).Get(name.Name)
		return apierrors.IsNotFound(err) || err == nil && !comes(s) // it has changed in the meantime
	})
	if len(b.unseen) > 0 {
		return nil
	}
	var fronts []fabric.Front
	for _, name := range sortedNames(b.routes) {
		fronts = append(fronts, frontsOf(b.routes[name], b.health.fit)...)
	}
	return b.router.Set(ctx, fronts)
}

// check checks the health of all nodes, and updates the router.
func (b *balancer) check(ctx context.Context) error {
	probes := map[probe]struct{}{}
	b.mu.Lock()
	for _, routes := range b.routes {
		maps.Copy(probes, probesOf(routes))
	}
	b.mu.Unlock()
	b.health.check(ctx, probes, b.ask)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.apply(ctx)
}
