// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package facts

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/controller"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/registry/lookup"
)

// kind is one sort of object that is watched.
type kind struct {
	synced atomic.Pointer[cache.InformerSynced] // nil before Run
	denied atomic.Bool                          // it may not be listed
}

// known reports whether all of the sort that exist were seen.
func (k *kind) known() bool {
	synced := k.synced.Load()
	return synced != nil && (*synced)()
}

// final reports whether waiting would make no more of it known.
func (k *kind) final() bool { return k.known() || k.denied.Load() }

// Rules returns the rights that a Source needs in the whole cluster.
func Rules() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"node.k8s.io"}, Resources: []string{"runtimeclasses"},
			Verbs: []string{"get", "list", "watch"}},
	}, lookup.Rules()...)
}

// NamespaceRules returns the additional rights that it needs in Config.Namespace.
func NamespaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"},
		ResourceNames: []string{inventory.LoadedImages}, Verbs: []string{"get", "list", "watch"}}}
}

// watch makes the informers fill the caches.
func (s *Source) watch(shared, own informers.SharedInformerFactory) error {
	loaded := func(cm *corev1.ConfigMap) {
		if cm.Name == inventory.LoadedImages {
			images := loadedImages(cm)
			s.loaded.Store(&images)
		}
	}
	for _, w := range []struct {
		kind     *kind
		name     string
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandlerFuncs
	}{
		{&s.nodeKind, "nodes", shared.Core().V1().Nodes().Informer(), handlers(s.nodes.set, func(n *corev1.Node) {
			s.nodes.remove(n.Name)
		})},
		{&s.classKind, "RuntimeClasses", shared.Node().V1().RuntimeClasses().Informer(),
			handlers(s.classes.set, s.classes.remove)},
		{&s.spaceKind, "namespaces", shared.Core().V1().Namespaces().Informer(),
			handlers(s.spaces.set, s.spaces.remove)},
		{&s.loadedKind, "loaded images", own.Core().V1().ConfigMaps().Informer(),
			handlers(loaded, func(*corev1.ConfigMap) {
				s.loaded.Store(nil)
			})},
	} {
		k := w.kind
		// Refused only once the informer runs: then it is another's, who logs.
		_ = w.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
			if apierrors.IsForbidden(err) {
				k.denied.Store(true)
			}
			if ctx.Err() == nil {
				s.cfg.Log.Warn("the objects of the cluster are unknown or outdated", "kind", w.name,
					logkey.Error, err)
			}
		})
		registration, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			return fmt.Errorf("watch %s: %w", w.name, err)
		}
		synced := cache.InformerSynced(registration.HasSynced)
		k.synced.Store(&synced)
	}
	return nil
}

// handlers makes typed handlers of events; a change is an addition.
func handlers[T any](set, remove func(T)) cache.ResourceEventHandlerFuncs {
	add := controller.Typed(set)
	return cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) },
		DeleteFunc: controller.Typed(remove)}
}

// slim drops unused fields from objects before they are cached.
func slim(obj any) (any, error) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
		if _, ok := obj.(*corev1.Namespace); !ok {
			m.SetAnnotations(nil)
		}
	}
	return obj, nil
}

// classes keeps the RuntimeClasses.
type classes struct {
	mu     sync.Mutex
	byName map[string]policy.RuntimeClass // guarded by mu; replaced, never changed
}

func newClasses() *classes { return &classes{byName: map[string]policy.RuntimeClass{}} }

func (s *classes) set(c *nodev1.RuntimeClass) {
	s.change(func(m map[string]policy.RuntimeClass) { m[c.Name] = describeClass(c) })
}

func (s *classes) remove(c *nodev1.RuntimeClass) {
	s.change(func(m map[string]policy.RuntimeClass) { delete(m, c.Name) })
}

func (s *classes) change(f func(map[string]policy.RuntimeClass)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(s.byName)
	f(next)
	s.byName = next
}

func (s *classes) all() map[string]policy.RuntimeClass {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName
}

// spaces caches namespaces.
type spaces struct {
	mu     sync.RWMutex
	byName map[string]policy.Namespace // guarded by mu
}

func newSpaces() *spaces { return &spaces{byName: map[string]policy.Namespace{}} }

func describeSpace(ns *corev1.Namespace) policy.Namespace {
	return policy.NewNamespace(ns.Labels, ns.Annotations)
}

func (s *spaces) set(ns *corev1.Namespace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[ns.Name] = describeSpace(ns)
}

func (s *spaces) remove(ns *corev1.Namespace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, ns.Name)
}

func (s *spaces) get(name string) (policy.Namespace, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n, ok := s.byName[name]
	return n, ok
}
