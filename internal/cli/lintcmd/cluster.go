// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lintcmd

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/lint"
	"github.com/mullion-k8s/mullion/internal/lint/live"
	"github.com/mullion-k8s/mullion/internal/manager/facts"
	"github.com/mullion-k8s/mullion/internal/manager/registration"
	"github.com/mullion-k8s/mullion/internal/policy"
)

// connection is a connection to the cluster that --cluster selects.
type connection struct {
	host  string
	typed kubernetes.Interface
	trees dynamic.Interface
	names metadata.Interface
}

// Limits for requests per second and in a burst. lint reads about twenty pages;
// client-go's default of 5 per second would slow it down.
const requestsPerSecond, burst = 50, 100

// connect finds the cluster as kubectl does. It does not contact the cluster.
func connect(f flags) (*connection, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: f.context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, cli.Environmentf("choose a file with --kubeconfig or $KUBECONFIG",
			"find the cluster: there is no kubeconfig")
	}
	if err != nil {
		return nil, cli.Usagef("find the cluster: %w", err)
	}
	return dial(cfg)
}

func dial(cfg *rest.Config) (*connection, error) {
	cfg.UserAgent, cfg.QPS, cfg.Burst = "mullion-lint", requestsPerSecond, burst
	typed, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	trees, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	names, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	return &connection{host: cfg.Host, typed: typed, trees: trees, names: names}, nil
}

// facts reads the facts from the cluster. It prints a note for everything that
// the user may not read; those facts stay unknown.
func (c *connection) facts(ctx context.Context, s cli.Streams, flags policy.Facts) (policy.Facts, error) {
	facts, notes, err := facts.Read(ctx, c.typed)
	if err != nil {
		return facts, c.silent(ctx, err)
	}
	known, more, err := live.Known(ctx, c.names)
	if err != nil {
		return facts, c.silent(ctx, err)
	}
	facts.Objects = known
	for _, n := range append(notes, more...) {
		fmt.Fprintf(s.Err, "mullion: %s\n", n)
	}
	if flags.Platform != "" {
		facts.Platform = flags.Platform
	}
	return facts, nil
}

// silent returns the error about a cluster that does not respond. Its exit code differs
// from the one for findings.
func (c *connection) silent(ctx context.Context, err error) error {
	err = fmt.Errorf("query the cluster at %s: %w", c.host, err)
	if ctx.Err() != nil {
		return err
	}
	return cli.Environmentf("check that it runs and that you may read it, or choose another with --context; "+
		"without --cluster, lint needs none", "%w", err)
}

// places reports whether the cluster has mullion's placement. Without
// permission to list webhooks, placement is assumed absent.
func (c *connection) places(ctx context.Context) bool {
	list, err := c.typed.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	for _, conf := range list.Items {
		if slices.ContainsFunc(conf.Webhooks,
			func(w admissionv1.MutatingWebhook) bool { return w.Name == registration.PlacementWebhook }) {
			return true
		}
	}
	return false
}

// lint checks the objects in the cluster.
func (c *connection) lint(ctx context.Context, s cli.Streams, cfg lint.Config, namespace string,
	emit func(lint.Result) error) (lint.Summary, error) {
	return lint.Objects(cfg, func(yield func(map[string]any) error) error {
		notes, err := live.Objects(ctx, c.trees, namespace, yield)
		for _, n := range notes {
			fmt.Fprintf(s.Err, "mullion: %s\n", n)
		}
		return err
	}, emit)
}
