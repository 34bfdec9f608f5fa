// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package windowsnode

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/controller"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/policy"
)

// Config configures a Controller.
type Config struct {
	Log *slog.Logger
	// Taint is kept on every Windows node; the zero value takes those away that
	// were added before.
	Taint policy.Taint
	// Informers may be shared with others; nil makes the controller watch by itself.
	Informers informers.SharedInformerFactory
}

// Controller keeps the labels and taints of Windows nodes.
type Controller struct {
	client kubernetes.Interface
	cfg    Config
	nodes  corelisters.NodeLister

	mu    sync.Mutex
	noted map[string]string // guarded by mu; by node: the last thing that was said about it
}

// New returns a Controller. Its client needs the rights of Rules.
func New(client kubernetes.Interface, cfg Config) *Controller {
	return &Controller{client: client, cfg: cfg, noted: map[string]string{}}
}

// Run works until the context is cancelled, and then returns nil.
func (c *Controller) Run(ctx context.Context) error {
	queue := controller.NewQueue()
	factory, stop := controller.Informers(c.cfg.Informers, c.client)
	defer stop()
	nodes := factory.Core().V1().Nodes()
	c.nodes = nodes.Lister()
	put := func(obj any) {
		// Patch is cheap: it says here already whether there is anything to do.
		if n, ok := obj.(*corev1.Node); ok {
			if data, note, err := Patch(n, c.cfg.Taint); data != nil || note != "" || err != nil {
				queue.Add(n.Name)
			}
		}
	}
	watching, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: put,
		UpdateFunc: func(_, obj any) {
			put(obj)
		}})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	factory.Start(ctx.Done())
	return controller.Work(ctx, c.cfg.Log, queue, []cache.InformerSynced{watching.HasSynced}, 1, c.handle)
}

// handle gives one node what it lacks.
func (c *Controller) handle(ctx context.Context, name string) error {
	n, err := c.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	note, err := c.apply(ctx, n)
	c.note(name, note)
	return err
}

// apply patches a node if it needs it. A node that is gone needs nothing.
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

// note logs what cannot be done about a node, once.
func (c *Controller) note(node, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
