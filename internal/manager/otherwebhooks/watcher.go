// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package otherwebhooks

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/mullion-k8s/mullion/internal/logkey"
)

const (
	group    = "admissionregistration.k8s.io"
	policies = "mutatingadmissionpolicies"
	// lookEvery is the interval at which an API server without mutating admission
	// policies is checked for them: it may be upgraded.
	lookEvery = 10 * time.Minute
)

// Config holds the sources of a Watcher.
type Config struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Labels returns the labels of a namespace. ok is false if they are not known.
	Labels func(ctx context.Context, namespace string) (labels map[string]string, ok bool)
	// Own is the name of mullion's own MutatingWebhookConfiguration.
	Own string
	Log *slog.Logger
}

// Watcher keeps its list of webhooks and policies up to date.
type Watcher struct {
	cfg    Config
	others atomic.Pointer[[]other] // nil while they are not known
}

// other may change new pods, in namespaces with the labels.
type other struct {
	name       string
	namespaces labels.Selector
}

// New returns a watcher. It has no data until it runs.
func New(c Config) *Watcher { return &Watcher{cfg: c} }

// Alone reports whether mullion alone changes new pods of a namespace. It is
// false as long as that is not known.
func (w *Watcher) Alone(ctx context.Context, namespace string) bool {
	others := w.others.Load()
	if others == nil || len(*others) == 0 {
		return others != nil
	}
	of, ok := w.cfg.Labels(ctx, namespace)
	return ok && !slices.ContainsFunc(*others, func(o other) bool { return o.namespaces.Matches(labels.Set(of)) })
}

// Run watches until the context is cancelled.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.others.Store(nil)
	for {
		policies, err := w.servedPolicies()
		if err != nil {
			return err
		}
		// The API server may serve them later: retry.
		round, cancel := ctx, context.CancelFunc(func() {})
		if policies.Empty() {
			round, cancel = context.WithTimeout(ctx, lookEvery)
		}
		err = w.watch(round, policies)
		cancel()
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// servedPolicies is the resource of mutating admission policies (alpha in
// Kubernetes 1.32, beta and off by default in 1.34). It is empty if the server
// does not have it.
func (w *Watcher) servedPolicies() (schema.GroupVersionResource, error) {
	for _, version := range []string{"v1", "v1beta1", "v1alpha1"} {
		gv := schema.GroupVersion{Group: group, Version: version}
		list, err := w.cfg.Client.Discovery().ServerResourcesForGroupVersion(gv.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return schema.GroupVersionResource{}, fmt.Errorf("list the resources of %s: %w", gv, err)
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == policies }) {
			return gv.WithResource(policies), nil
		}
	}
	return schema.GroupVersionResource{}, nil
}

// watch keeps Alone up to date until the context ends.
func (w *Watcher) watch(ctx context.Context, policies schema.GroupVersionResource) error {
	typed := informers.NewSharedInformerFactory(w.cfg.Client, 0)
	trees := dynamicinformer.NewDynamicSharedInformerFactory(w.cfg.Dynamic, 0)
	watched := []cache.SharedIndexInformer{
		typed.Admissionregistration().V1().MutatingWebhookConfigurations().Informer()}
	if !policies.Empty() {
		watched = append(watched, trees.ForResource(policies).Informer())
	}
	var mu sync.Mutex // informers notify concurrently; the last look must win
	look := func() {
		mu.Lock()
		defer mu.Unlock()
		others := []other{}
		for _, informer := range watched {
			// Received objects are in the store already; until all are received the answer is
			// not known.
			if !informer.HasSynced() {
				return
			}
			for _, o := range informer.GetStore().List() {
				others = append(others, w.parts(o)...)
			}
		}
		if before := w.others.Swap(&others); before == nil || !slices.Equal(names(*before), names(others)) {
			w.cfg.Log.Info("who else changes new pods", logkey.Name, names(others))
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { look() }, UpdateFunc: func(any, any) { look() }, DeleteFunc: func(any) { look() },
	}
	for _, informer := range watched {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch who changes pods: %w", err)
		}
	}
	typed.Start(ctx.Done())
	trees.Start(ctx.Done())
	defer typed.Shutdown()
	defer trees.Shutdown()
	for _, informer := range watched {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return nil // stopped by the caller
		}
	}
	look() // there may be no objects, and so no notification
	<-ctx.Done()
	return nil
}

// parts returns the parts of an object, if it is not mullion's, that may change new pods.
func (w *Watcher) parts(object any) []other {
	switch o := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		if o.Name == w.cfg.Own {
			return nil
		}
		var out []other
		for _, hook := range o.Webhooks {
			if slices.ContainsFunc(hook.Rules, newPods) {
				out = append(out, other{o.Name + "/" + hook.Name, selector(hook.NamespaceSelector)})
			}
		}
		return out
	case *unstructured.Unstructured:
		var p struct {
			Spec struct {
				MatchConstraints struct {
					NamespaceSelector *metav1.LabelSelector                        `json:"namespaceSelector"`
					ResourceRules     []admissionregistrationv1.RuleWithOperations `json:"resourceRules"`
				} `json:"matchConstraints"`
			} `json:"spec"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p); err != nil {
			return []other{{o.GetName(), labels.Everything()}}
		}
		if m := p.Spec.MatchConstraints; slices.ContainsFunc(m.ResourceRules, newPods) {
			return []other{{o.GetName(), selector(m.NamespaceSelector)}}
		}
	}
	return nil
}

// selector converts a selector as the API server does: without one it selects
// all namespaces.
func selector(s *metav1.LabelSelector) labels.Selector {
	if s == nil {
		return labels.Everything()
	}
	out, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Everything()
	}
	return out
}

func names(others []other) []string {
	out := make([]string, 0, len(others))
	for _, o := range others {
		out = append(out, o.name)
	}
	slices.Sort(out)
	return out
}

// newPods reports whether a rule is about the creation of pods.
func newPods(r admissionregistrationv1.RuleWithOperations) bool {
	has := func(list []string, values ...string) bool {
		return slices.ContainsFunc(values, func(v string) bool { return slices.Contains(list, v) })
	}
	create := slices.Contains(r.Operations, admissionregistrationv1.Create) ||
		slices.Contains(r.Operations, admissionregistrationv1.OperationAll)
	namespaced := r.Scope == nil || *r.Scope != admissionregistrationv1.ClusterScope
	return create && namespaced && has(r.APIGroups, "", "*") && has(r.Resources, "pods", "*", "*/*")
}

// Rules are the rights that the watcher needs in the whole cluster: to see who
// changes objects, but not the objects themselves.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{group}, Resources: []string{"mutatingwebhookconfigurations", policies},
		Verbs: []string{"list", "watch"},
	}}
}
