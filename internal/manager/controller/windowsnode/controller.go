// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package windowsnode

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/controller"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/policy"
)

// Config configures a Controller.
type Config struct {
	Log *slog.Logger
	// Taint is kept on every Windows node; the zero value removes taints added
	// before.
	Taint policy.Taint
	// Informers may be shared with others.
	Informers informers.SharedInformerFactory
}

// Controller keeps the labels and taints of Windows nodes.
type Controller struct {
	client kubernetes.Interface
	cfg    Config
	nodes  cache.SharedIndexInformer

	noted map[string]string // by node: the last note about it; used by the only worker
}

// New returns a Controller. Its client needs the rights of Rules.
func New(client kubernetes.Interface, cfg Config) *Controller {
	return &Controller{client: client, cfg: cfg, noted: map[string]string{}}
}

// Run works until the context is cancelled, and then returns nil.
func (c *Controller) Run(ctx context.Context) error {
	c.nodes = c.cfg.Informers.Core().V1().Nodes().Informer()
	w := controller.Watch{Log: c.cfg.Log, Queue: controller.NewQueue(), Handle: c.handle}
	return w.Run(ctx, []controller.Source{{Informer: c.nodes, Handlers: controller.Changes(nil, func(n *corev1.Node) {
		// Patch is cheap, so it filters the nodes here already.
		if data, note, err := Patch(n, c.cfg.Taint); data != nil || note != "" || err != nil {
			w.Queue.Add(n.Name)
		}
	})}}, c.cfg.Informers)
}

// handle adds the missing label and taint to one node.
func (c *Controller) handle(ctx context.Context, name string) error {
	n := controller.Find[corev1.Node](c.nodes, name)
	if n == nil {
		return nil
	}
	note, err := c.apply(ctx, n)
	c.note(name, note)
	return err
}

// apply patches a node if it needs it. It skips a node that is gone.
func (c *Controller) apply(ctx context.Context, n *corev1.Node) (note string, err error) {
	data, note, err := Patch(n, c.cfg.Taint)
	if err != nil || data == nil {
		return note, err
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, data,
		metav1.PatchOptions{FieldManager: inventory.Owner})
	if err != nil && !apierrors.IsNotFound(err) {
		return note, fmt.Errorf("change node %s: %w", n.Name, err)
	}
	c.cfg.Log.Info("changed the labels or taints of a node", logkey.Node, n.Name, "patch", string(data))
	return note, nil
}

// note logs once why a node cannot be patched.
func (c *Controller) note(node, text string) {
	if c.noted[node] == text {
		return
	}
	if text == "" {
		delete(c.noted, node)
		return
	}
	c.noted[node] = text
	c.cfg.Log.Warn("the taint policy does not hold on a node", logkey.Node, node, logkey.Reason, text)
}
