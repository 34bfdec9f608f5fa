// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package podlimit

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/controller"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// Events per second, and how many may be made at once: pods that end again and again
// must not keep the API server busy.
const tells, burst = 5, 20

// Controller makes the events of a cluster.
type Controller struct {
	client kubernetes.Interface
	log    *slog.Logger
	pods   corelisters.PodLister
	rate   flowcontrol.RateLimiter
	now    func() time.Time

	mu   sync.Mutex
	told map[string]time.Time // guarded by mu; by the event's name: when the container ended
}

// New returns a Controller. Its client needs the rights of Rules.
func New(client kubernetes.Interface, log *slog.Logger) *Controller {
	return &Controller{
		client: client,
		log:    log,
		rate:   flowcontrol.NewTokenBucketRateLimiter(tells, burst),
		now:    time.Now,
		told:   map[string]time.Time{},
	}
}

// Run works until the context is cancelled, and then returns nil.
func (c *Controller) Run(ctx context.Context) error {
	queue := controller.NewQueue()
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(strip))
	defer factory.Shutdown()
	pods := factory.Core().V1().Pods()
	c.pods = pods.Lister()
	put := func(obj any) {
		if p, ok := obj.(*corev1.Pod); ok && len(events(p)) > 0 {
			queue.Add(p.Namespace + "/" + p.Name)
		}
	}
	watching, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    put,
		UpdateFunc: func(_, obj any) { put(obj) },
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	factory.Start(ctx.Done())
	return controller.Work(ctx, c.log, queue, []cache.InformerSynced{watching.HasSynced}, 1, c.handle)
}

// strip reduces a pod that has nothing to tell to its identity: the cache holds all
// pods of the cluster.
func strip(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	if len(events(p)) > 0 {
		p.ManagedFields = nil
		return p, nil
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace:       p.Namespace,
		Name:            p.Name,
		UID:             p.UID,
		ResourceVersion: p.ResourceVersion,
	}}, nil
}

// handle makes the events of one pod that were not made yet.
func (c *Controller) handle(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return fmt.Errorf("read key %q: %w", key, err)
	}
	pod, err := c.pods.Pods(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read pod %s: %w", key, err)
	}
	for _, e := range events(pod) {
		if !c.isNew(e) {
			continue
		}
		if err := c.rate.Wait(ctx); err != nil {
			return nil // the context ends
		}
		options := metav1.ApplyOptions{FieldManager: inventory.Owner, Force: true}
		_, err := c.client.CoreV1().Events(namespace).Apply(ctx, e.Body, options)
		if err != nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return fmt.Errorf("write event of pod %s: %w", key, err)
		}
		c.log.Debug("told a pod which limit has ended it", logkey.Namespace, namespace, logkey.Pod, name)
		c.mu.Lock()
		c.told[e.Name] = e.At
		c.mu.Unlock()
	}
	return nil
}

// isNew reports whether an event is yet to be made.
func (c *Controller) isNew(e limitEvent) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.now().Add(-maxAge)
	maps.DeleteFunc(c.told, func(_ string, at time.Time) bool { return at.Before(old) })
	_, told := c.told[e.Name]
	return !told && !e.At.Before(old)
}
