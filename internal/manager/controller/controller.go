// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package controller holds the common parts of the controllers below it: the
// informers with the loop that works on a queue, and the recorder of events. Each controller keeps
// one kind of thing true, writes only when something differs, and may be
// stopped and started anywhere; the program that runs them ensures that only
// one of each runs in a cluster.
package controller

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// Times of looking again after an error: the second try is soon, because it is
// mostly a conflict with another writer; the last is often enough for errors
// that an administrator must resolve.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Queue holds the keys of objects to process.
type Queue = workqueue.TypedRateLimitingInterface[string]

// NewQueue returns an empty Queue.
func NewQueue() Queue {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry,
		lastRetry))
}

// Watch is the loop of a controller, with informers that fill its queue.
type Watch struct {
	Log   *slog.Logger
	Queue Queue
	// Workers is how many keys are handled at the same time; 0 means one.
	Workers int
	// Handle handles a key. One whose handling fails comes back later.
	Handle func(ctx context.Context, key string) error
}

// Source is an informer and the handlers that put its objects into the queue.
type Source struct {
	Informer cache.SharedIndexInformer
	Handlers cache.ResourceEventHandlerFuncs
}

// Run adds the handlers to the informers, starts the informers, which are those of the factories, waits until the
// handlers have seen everything that exists, and works until the context is cancelled. It returns nil after a stop.
func (w Watch) Run(ctx context.Context, sources []Source, factories ...informers.SharedInformerFactory) error {
	var synced []cache.InformerSynced
	for _, s := range sources {
		added, err := s.Informer.AddEventHandler(s.Handlers)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch objects: %w", err)
		}
		// A shared informer may live longer. The only error is that it has ended.
		defer func() { _ = s.Informer.RemoveEventHandler(added) }()
		synced = append(synced, added.HasSynced)
	}
	for _, f := range factories {
		f.Start(ctx.Done())
	}
	defer context.AfterFunc(ctx, w.Queue.ShutDown)()
	defer w.Queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // a stop
	}
	var all sync.WaitGroup
	for range max(1, w.Workers) {
		all.Go(func() {
			for w.next(ctx) {
			}
		})
	}
	all.Wait()
	return nil
}

// Changes returns handlers that call put with each object that is new or gone, and with both states of one that has
// changed. same, if not nil, reports whether a change has no meaning for the controller: most changes of nodes are
// heartbeats.
func Changes[T any](same func(old, now T) bool, put func(T)) cache.ResourceEventHandlerFuncs {
	one := Typed(put)
	return cache.ResourceEventHandlerFuncs{AddFunc: one, DeleteFunc: one, UpdateFunc: func(old, now any) {
		before, ok1 := old.(T)
		after, ok2 := now.(T)
		if same == nil || !ok1 || !ok2 || !same(before, after) {
			one(old)
			one(now)
		}
	}}
}

// Typed returns a handler that calls f with objects of its type, also with the last known state of one that is gone.
func Typed[T any](f func(T)) func(obj any) {
	return func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if o, ok := obj.(T); ok {
			f(o)
		}
	}
}

// Find returns the object of a key, or nil if it is gone.
func Find[T any](informer cache.SharedIndexInformer, key string) *T {
	obj, _, _ := informer.GetStore().GetByKey(key) // the store of an informer returns no error
	found, _ := obj.(*T)
	return found
}

// All returns the objects of an informer.
func All[T any](informer cache.SharedIndexInformer) []*T {
	var all []*T
	for _, obj := range informer.GetStore().List() {
		if o, ok := obj.(*T); ok {
			all = append(all, o)
		}
	}
	return all
}

// Strip returns the transformation that reduces a pod that need not be kept to its identity: the
// cache holds all pods of the cluster.
func Strip(keep func(*corev1.Pod) bool) cache.TransformFunc {
	return func(obj any) (any, error) {
		p, ok := obj.(*corev1.Pod)
		if !ok {
			return obj, nil
		}
		if keep(p) {
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
}

// ErrWait is returned, wrapped, for an object that cannot be handled yet; it comes back as after another error.
var ErrWait = errors.New("wait")

// next handles one key, and reports whether there may be more.
func (w Watch) next(ctx context.Context) bool {
	key, down := w.Queue.Get()
	if down {
		return false
	}
	defer w.Queue.Done(key)
	err := guard(ctx, w.Handle, key)
	if err == nil || ctx.Err() != nil {
		w.Queue.Forget(key)
		return true
	}
	level := slog.LevelWarn
	if apierrors.IsConflict(err) || errors.Is(err, ErrWait) { // another writer was first: not worth a line
		level = slog.LevelDebug
	}
	w.Log.Log(ctx, level, "will look again", logkey.Name, key, logkey.Error, err)
	w.Queue.AddRateLimited(key)
	return true
}

// guard turns a panic into an error: one unexpected object must not
// end the process, which may be the control plane.
func guard(ctx context.Context, handle func(context.Context, string) error, key string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return handle(ctx, key)
}

// PodEvent returns a Warning event about a pod. The same pod, reason and id always give the same event.
func PodEvent(pod *corev1.Pod, id, reason, message string, at metav1.Time) *applycorev1.EventApplyConfiguration {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s%s", pod.UID, id, reason)
	// A name has at most 253 bytes (a DNS subdomain), and so may the pod's name.
	name := fmt.Sprintf("%s.%016x", strings.TrimRight(pod.Name[:min(len(pod.Name), 200)], ".-"), h.Sum64())
	return applycorev1.Event(name, pod.Namespace).
		WithInvolvedObject(applycorev1.ObjectReference().
			WithAPIVersion("v1").WithKind("Pod").WithNamespace(pod.Namespace).WithName(pod.Name).WithUID(pod.UID)).
		WithType(corev1.EventTypeWarning).WithReason(reason).WithMessage(message).
		WithSource(applycorev1.EventSource().WithComponent(inventory.Owner)).WithReportingController(inventory.Owner).
		WithFirstTimestamp(at).WithLastTimestamp(at).WithCount(1)
}

// Apply writes an event, in place of an earlier one of its name. A recorder would drop events when there are many.
func Apply(ctx context.Context, client kubernetes.Interface, e *applycorev1.EventApplyConfiguration) error {
	_, err := client.CoreV1().Events(*e.Namespace).Apply(ctx, e,
		metav1.ApplyOptions{FieldManager: inventory.Owner, Force: true})
	if err != nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return fmt.Errorf("write event of pod %s/%s: %w", *e.Namespace, *e.InvolvedObject.Name, err)
	}
	return nil
}

// Events returns a recorder that writes to the cluster, and a function that
// ends it.
func Events(client kubernetes.Interface) (record.EventRecorder, func()) {
	b := record.NewBroadcaster()
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: inventory.Owner}), b.Shutdown
}
