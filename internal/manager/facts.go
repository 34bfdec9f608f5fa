// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"context"

	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/facts"
	"github.com/mullion-k8s/mullion/internal/manager/webhook"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/registry/lookup"
)

// source is where facts come from.
type source interface {
	webhook.Facts
	// Labels returns the labels of a namespace. ok is false if they are not known.
	Labels(ctx context.Context, namespace string) (labels map[string]string, ok bool)
	// Run keeps the facts until the context is cancelled.
	Run(ctx context.Context) error
	// Synced reports whether the caches hold all existing objects.
	Synced() bool
}

func newSource(c Config, client kubernetes.Interface, countLookup func(lookup.Outcome)) source {
	if c.Facts != nil {
		return fixedFacts{c.Facts}
	}
	return facts.New(client, facts.Config{
		Log:       c.Log.With(logkey.Component, componentFacts),
		Namespace: c.Namespace,
		DefaultOS: c.DefaultOS,
		Registry:  c.Registry,
		Looked:    countLookup,
	})
}

// fixedFacts are the facts of a configuration, in place of the cluster's.
type fixedFacts struct{ facts webhook.Facts }

func (g fixedFacts) Facts(ctx context.Context, namespace string, object *policy.Parsed) (policy.Facts, []string) {
	return g.facts.Facts(ctx, namespace, object)
}

func (fixedFacts) Labels(context.Context, string) (map[string]string, bool) { return nil, false }

func (fixedFacts) Synced() bool { return true }

func (fixedFacts) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
