// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package controller holds what the controllers below it have in common: the
// loop that works on a queue, and the recorder of events. Each controller keeps
// one kind of thing true, writes only when something differs, and may be
// stopped and started anywhere; the program that runs them ensures that only
// one of each runs in a cluster.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
// mostly a conflict with another writer; the last is often enough for
// what takes a person to repair.
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

// errNotSynced ends a controller whose caches did not fill before its context
// was cancelled. It is not returned for a cancelled context, which is a stop.
var errNotSynced = errors.New("caches were not filled")

// Work waits until the handlers have seen everything that exists, then hands
// keys to handle, in as many goroutines as there are workers, until the context
// is cancelled. A key whose handling fails comes back later. It returns nil
// after a stop.
func Work(ctx context.Context, log *slog.Logger, queue Queue, synced []cache.InformerSynced, workers int,
	handle func(context.Context, string) error) error {
	defer context.AfterFunc(ctx, queue.ShutDown)()
	defer queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		if ctx.Err() != nil {
			return nil
		}
		return errNotSynced
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for next(ctx, log, queue, handle) {
			}
		})
	}
	all.Wait()
	return nil
}

func next(ctx context.Context, log *slog.Logger, queue Queue, handle func(context.Context, string) error) bool {
	key, down := queue.Get()
	if down {
		return false
	}
	defer queue.Done(key)
	err := guard(ctx, handle, key)
	if err == nil || ctx.Err() != nil {
		queue.Forget(key)
		return true
	}
	level := slog.LevelWarn
	if apierrors.IsConflict(err) { // another writer was first: not worth a line
		level = slog.LevelDebug
	}
	log.Log(ctx, level, "will look again", logkey.Name, key, logkey.Error, err)
	queue.AddRateLimited(key)
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

// Informers returns the factory to use: the given one, which others may share,
// or a new one. stop waits until a new one has ended after its context has.
func Informers(shared informers.SharedInformerFactory,
	client kubernetes.Interface) (factory informers.SharedInformerFactory, stop func()) {
	if shared != nil {
		return shared, func() {}
	}
	factory = informers.NewSharedInformerFactory(client, 0)
	return factory, factory.Shutdown
}

// Events returns a recorder that writes to the cluster, and a function that
// ends it.
func Events(client kubernetes.Interface) (record.EventRecorder, func()) {
	b := record.NewBroadcaster()
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: inventory.Owner}), b.Shutdown
}
