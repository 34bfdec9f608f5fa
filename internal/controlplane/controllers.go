// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mullion-k8s/mullion/internal/controlplane/approve"
	"github.com/mullion-k8s/mullion/internal/controlplane/loadbalancer"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
)

// client returns a client with the identity of a component.
func (s *server) client(component string) (kubernetes.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", plan.Kubeconfig(s.plan.Config, component))
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

// approver runs the controller that approves nodes' certificate requests, with
// an identity that may do just that.
func (s *server) approver(ctx context.Context) error {
	client, err := s.client(plan.Controllers)
	if err != nil {
		return err
	}
	c := s.plan.Config
	a := approve.Controller{
		Client:    client,
		NodeCIDRs: c.NodeCIDRs(),
		Reserved:  c.Addresses,
		Log:       s.log.With(logkey.Component, plan.Controllers),
	}
	return a.Run(ctx)
}

// serviceController gives Services of type LoadBalancer their addresses, with an identity that
// has upstream's role for it.
func (s *server) serviceController(ctx context.Context) error {
	client, err := s.client(plan.ServiceController)
	if err != nil {
		return err
	}
	c := s.plan.Config
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

// defaultAccount serves as readiness check of the controller manager, which doesn't have
// a health check: without the account that it makes in each namespace no pod can be
// created.
func (s *server) defaultAccount(ctx context.Context) error {
	cfg, err := s.api.client()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if _, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default",
		metav1.GetOptions{}); err != nil {
		return fmt.Errorf("look for the default service account: %w", err)
	}
	if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, "kube-root-ca.crt",
		metav1.GetOptions{}); err != nil {
		return errors.Join(errors.New("look for the published certificate authority"), err)
	}
	return nil
}
