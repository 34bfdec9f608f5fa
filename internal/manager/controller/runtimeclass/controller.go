// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package runtimeclass

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	nodelisters "k8s.io/client-go/listers/node/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/controller"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// vacancy is how long a name is left free after its class was deleted: a user
// who deletes a class to create another one with the name has that long for it.
// Pods that name the class are refused meanwhile.
const vacancy = 5 * time.Second

// Reasons of the events.
const (
	reasonForeign = "NotManaged"
	reasonHandler = "RuntimeHandlerMissing"
)

// Config configures a Controller.
type Config struct {
	Log *slog.Logger
	// Informers may be shared with others; nil makes the controller watch by itself.
	Informers informers.SharedInformerFactory
	// Events records events for users; nil writes them to the API.
	Events record.EventRecorder
}

// Controller keeps the RuntimeClasses of a cluster.
type Controller struct {
	client  kubernetes.Interface
	cfg     Config
	nodes   corelisters.NodeLister
	classes nodelisters.RuntimeClassLister
	queue   controller.Queue
	vacancy time.Duration

	mu   sync.Mutex
	said map[string]string // guarded by mu; by class: the last thing that was said about it
}

// New returns a Controller. Its client needs the rights of Rules.
func New(client kubernetes.Interface, cfg Config) *Controller {
	return &Controller{client: client, cfg: cfg, vacancy: vacancy, said: map[string]string{}}
}

// Run works until the context is cancelled, and then returns nil.
func (c *Controller) Run(ctx context.Context) error {
	if c.cfg.Events == nil {
		events, stop := controller.Events(c.client)
		defer stop()
		c.cfg.Events = events
	}
	c.queue = controller.NewQueue()
	factory, stop := controller.Informers(c.cfg.Informers, c.client)
	defer stop()
	nodes, classes := factory.Core().V1().Nodes(), factory.Node().V1().RuntimeClasses()
	c.nodes, c.classes = nodes.Lister(), classes.Lister()
	watching, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { c.put(o) },
		UpdateFunc: func(old, now any) {
			if o, n := old.(*corev1.Node), now.(*corev1.Node); !same(o, n) {
				c.put(o)
				c.put(n)
			}
		},
		DeleteFunc: func(o any) { c.put(o) },
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	seeing, err := classes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.look(o, 0) },
		UpdateFunc: func(_, o any) { c.look(o, 0) },
		DeleteFunc: func(o any) { c.look(o, c.vacancy) },
	})
	if err != nil {
		return fmt.Errorf("watch RuntimeClasses: %w", err)
	}
	factory.Start(ctx.Done())
	synced := []cache.InformerSynced{watching.HasSynced, seeing.HasSynced}
	return controller.Work(ctx, c.cfg.Log, c.queue, synced, 1, c.handle)
}

// same reports whether two states of a node ask for the same classes. Most
// changes of nodes are heartbeats.
func same(a, b *corev1.Node) bool {
	return a.Labels[corev1.LabelOSStable] == b.Labels[corev1.LabelOSStable] &&
		a.Labels[corev1.LabelWindowsBuild] == b.Labels[corev1.LabelWindowsBuild] &&
		equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		equality.Semantic.DeepEqual(a.Status.RuntimeHandlers, b.Status.RuntimeHandlers)
}

// put queues the class of a node's build.
func (c *Controller) put(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	n, ok := obj.(*corev1.Node)
	if !ok {
		return
	}
	if b, ok := build(n); ok {
		c.queue.Add(className(b))
	} else if l := n.Labels[corev1.LabelWindowsBuild]; l != "" {
		c.cfg.Log.Info("no RuntimeClass for a node whose build of Windows is not known; a newer version may know it",
			logkey.Node, n.Name, logkey.Build, l)
	}
}

// look queues a class if the controller makes one of its name.
func (c *Controller) look(obj any, after time.Duration) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err == nil && slices.Contains(classNames(), key) {
		c.queue.AddAfter(key, after)
	}
}

// handle brings one class into the state that the nodes require.
func (c *Controller) handle(ctx context.Context, name string) error {
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool {
		b, ok := build(n)
		return !ok || className(b) != name
	})
	current, err := c.classes.Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read RuntimeClass %s: %w", name, err)
	}
	if err != nil {
		current = nil
	}
	if len(nodes) == 0 { // the class of a build that has lost its nodes stays
		return nil
	}
	desired := desired(nodes)[0]
	if current != nil && !ours(current) {
		c.say(current, corev1.EventTypeNormal, reasonForeign,
			fmt.Sprintf("RuntimeClass %s has no label %s: %s and is left as it is; delete it to get one that follows "+
				"the nodes", name, inventory.ManagedBy, inventory.Owner))
		return nil
	}
	if without := lacking(nodes); len(without) > 0 {
		about := desired
		if current != nil {
			about = current
		}
		c.say(about, corev1.EventTypeWarning, reasonHandler,
			fmt.Sprintf("the containerd of %s has no runtime handler %s; configure it there",
				strings.Join(without, ", "), Handler))
		if current == nil {
			return nil // a pod with the class could fail on such a node
		}
	}
	return c.write(ctx, current, desired)
}

// write creates, replaces or patches a class, or does nothing.
func (c *Controller) write(ctx context.Context, current, desired *nodev1.RuntimeClass) error {
	api := c.client.NodeV1().RuntimeClasses()
	name := desired.Name
	if current != nil && current.Handler == desired.Handler {
		patch, err := patch(current, desired)
		if err != nil || patch == nil {
			return err
		}
		if _, err := api.Patch(ctx, name, types.JSONPatchType, patch,
			metav1.PatchOptions{FieldManager: inventory.Owner}); err != nil {
			return fmt.Errorf("change RuntimeClass %s: %w", name, err)
		}
		c.cfg.Log.Info("changed RuntimeClass", logkey.Name, name)
		return nil
	}
	if current != nil { // the handler cannot be changed
		only := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &current.UID,
			ResourceVersion: &current.ResourceVersion}}
		if err := api.Delete(ctx, name, only); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete RuntimeClass %s, whose handler is %s: %w", name, current.Handler, err)
		}
	}
	_, err := api.Create(ctx, desired, metav1.CreateOptions{FieldManager: inventory.Owner})
	if apierrors.IsAlreadyExists(err) {
		return nil // another one was quicker; its event brings the class back here
	}
	if err != nil {
		return fmt.Errorf("create RuntimeClass %s: %w", name, err)
	}
	c.cfg.Log.Info("created RuntimeClass", logkey.Name, name, logkey.Build,
		desired.Scheduling.NodeSelector[corev1.LabelWindowsBuild])
	return nil
}

// say tells users something about a class, once.
func (c *Controller) say(class *nodev1.RuntimeClass, kind, reason, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if what := string(class.UID) + reason + message; c.said[class.Name] != what {
		c.said[class.Name] = what
		c.cfg.Events.Event(class, kind, reason, message)
		c.cfg.Log.Info("RuntimeClass is not kept", logkey.Name, class.Name, logkey.Reason, message)
	}
}
