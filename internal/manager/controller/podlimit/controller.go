// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package podlimit

import (
	"context"
	"log/slog"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/controller"
)

// Events per second, and how many may be made at once: pods that end again and again
// must not keep the API server busy.
const eventsPerSecond, burst = 5, 20

// Controller makes the events of a cluster.
type Controller struct {
	client kubernetes.Interface
	log    *slog.Logger
	pods   cache.SharedIndexInformer
	rate   flowcontrol.RateLimiter
	now    func() time.Time
	told   map[string]time.Time // by the event's name: when the container ended; used by the only worker
}

// New returns a Controller. Its client needs the rights of Rules.
func New(client kubernetes.Interface, log *slog.Logger) *Controller {
	return &Controller{
		client: client,
		log:    log,
		rate:   flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, burst),
		now:    time.Now,
		told:   map[string]time.Time{},
	}
}

// Run works until the context is cancelled, and then returns nil.
func (c *Controller) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0,
		informers.WithTransform(controller.Strip(hasEvents)))
	defer factory.Shutdown()
	c.pods = factory.Core().V1().Pods().Informer()
	w := controller.Watch{Log: c.log, Queue: controller.NewQueue(), Handle: c.handle}
	return w.Run(ctx, []controller.Source{{Informer: c.pods, Handlers: controller.Changes(nil, func(p *corev1.Pod) {
		if hasEvents(p) {
			w.Queue.Add(p.Namespace + "/" + p.Name)
		}
	})}}, factory)
}

// hasEvents reports whether a limit has ended a container of the pod.
func hasEvents(p *corev1.Pod) bool { return len(events(p)) > 0 }

// handle makes the events of one pod that were not made yet.
func (c *Controller) handle(ctx context.Context, key string) error {
	pod := controller.Find[corev1.Pod](c.pods, key)
	if pod == nil {
		return nil
	}
	for _, e := range events(pod) {
		if !c.isNew(e) {
			continue
		}
		if err := c.rate.Wait(ctx); err != nil {
			return nil // the context ends
		}
		if err := controller.Apply(ctx, c.client, e.Body); err != nil {
			return err
		}
		c.log.Debug("event recorded: container exceeded a limit", logkey.Namespace, pod.Namespace, logkey.Pod, pod.Name)
		c.told[e.Name] = e.At
	}
	return nil
}

// isNew reports whether an event is yet to be made.
func (c *Controller) isNew(e limitEvent) bool {
	old := c.now().Add(-maxAge)
	maps.DeleteFunc(c.told, func(_ string, at time.Time) bool { return at.Before(old) })
	_, told := c.told[e.Name]
	return !told && !e.At.Before(old)
}
