// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package loadbalancer gives Services of type LoadBalancer reachable addresses. It runs
// upstream's service controller (k8s.io/cloud-provider/controllers/service), which decides
// which Services and nodes count, over an implementation that takes addresses from a pool and
// configures the router of the cluster's fabric.
//
// A node is fit for new connections while its kube-proxy reports it: on its own health check,
// or, for externalTrafficPolicy Local, on the Service's health check node port.
package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	servicecontroller "k8s.io/cloud-provider/controllers/service"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/mullion-k8s/mullion/internal/logkey"
)

// workers is the number of Services that upstream's controller handles at once
// (--concurrent-service-syncs, whose default is 1). One keeps addresses in the order of creation.
const workers = 1

// Controller gives addresses to the Services of a cluster.
type Controller struct {
	Client  kubernetes.Interface
	Cluster string // name
	// Pools are of one address family each, at least one.
	Pools []netip.Prefix
	// NodeCIDRs are the networks of the nodes, one for each address family. Health checks go nowhere else.
	NodeCIDRs []netip.Prefix
	Router    Router
	Log       *slog.Logger
}

// Run works until the context is cancelled.
func (c *Controller) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	services, nodes := factory.Core().V1().Services(), factory.Core().V1().Nodes()
	b := &balancer{pools: c.Pools, networks: c.NodeCIDRs, router: c.Router, services: services.Lister(), ask: askNode}
	upstream, err := servicecontroller.New(cloud{balancer: b}, c.Client, services, nodes, c.Cluster,
		utilfeature.DefaultFeatureGate)
	if err != nil {
		return fmt.Errorf("make service controller: %w", err)
	}
	events := record.NewBroadcaster(record.WithContext(ctx))
	defer events.Shutdown()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.Client.CoreV1().Events("")})
	quiet := reporter{pools: c.Pools,
		events: events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "service-controller"})}
	if _, err := services.Informer().AddEventHandler(quiet.handler()); err != nil {
		return fmt.Errorf("watch services: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), services.Informer().HasSynced, nodes.Informer().HasSynced) {
		return nil // the context has ended
	}
	if err := b.begin(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		upstream.Run(ctx, workers, controllersmetrics.NewControllerManagerMetrics("mullion"))
	}()
	c.watchHealth(ctx, b)
	<-done
	return nil
}

// watchHealth checks the nodes until the context ends.
func (c *Controller) watchHealth(ctx context.Context, b *balancer) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	failed, last, noted := "", "", ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := b.check(ctx)
		switch {
		case err == nil:
			failed = ""
		case errors.Is(err, context.Canceled), err.Error() == failed:
		default:
			failed = err.Error()
			c.Log.Error("the router's connections cannot be updated, will retry", logkey.Error, err)
		}
		note := b.note()
		// One that changes at each check is a step on the way to another.
		if note == last && note != noted {
			noted = note
			c.Log.Warn("load balancers are not all as they should be", logkey.Reason, cmp.Or(note, "they are again"))
		}
		last = note
	}
}

// cloud is a cloud provider with a load balancer only.
type cloud struct {
	cloudprovider.Interface // nil: upstream's service controller uses the load balancer only
	balancer                *balancer
}

// LoadBalancer implements cloudprovider.Interface.
func (c cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c.balancer, true }

// ProviderName implements cloudprovider.Interface.
func (cloud) ProviderName() string { return "mullion" }

func sortedNames[T any](m map[types.NamespacedName]T) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(m), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	})
}
