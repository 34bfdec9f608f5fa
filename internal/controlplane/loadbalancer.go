// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mullion-k8s/mullion/internal/controlplane/loadbalancer"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
)

// serviceController gives Services of type LoadBalancer their addresses, with an identity that
// has upstream's role for it.
func (s *server) serviceController(ctx context.Context) error {
	c := s.plan.Config
	cfg, err := clientcmd.BuildConfigFromFlags("", plan.Kubeconfig(c, plan.ServiceController))
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	lb := loadbalancer.Controller{
		Client:    client,
		Cluster:   c.Name,
		Pools:     c.LoadBalancer.Pools(),
		NodeCIDRs: c.NodeCIDRs(),
		Router:    fabric.OpenBalancer(c.LoadBalancer.Router, c.NodeCIDR, c.LoadBalancer.Pools()...),
		Log:       s.log.With(logkey.Component, plan.ServiceController),
	}
	return lb.Run(ctx)
}
