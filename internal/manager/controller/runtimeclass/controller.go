// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package runtimeclass

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
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
	// Informers may be shared with others.
	Informers informers.SharedInformerFactory
	// Events records events for users; nil writes them to the API.
	Events record.EventRecorder
}

// Controller keeps the RuntimeClasses of a cluster.
type Controller struct {
	client  kubernetes.Interface
	cfg     Config
	nodes   cache.SharedIndexInformer
	classes cache.SharedIndexInformer
	queue   controller.Queue
	vacancy time.Duration
	said    map[string]string // by class: the last event about it; used by the only worker
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
	c.nodes = c.cfg.Informers.Core().V1().Nodes().Informer()
	c.classes = c.cfg.Informers.Node().V1().RuntimeClasses().Informer()
	return controller.Watch{Log: c.cfg.Log, Queue: c.queue, Handle: c.handle}.Run(ctx, []controller.Source{
		{Informer: c.nodes, Handlers: controller.Changes(same, c.put)},
		{Informer: c.classes, Handlers: cache.ResourceEventHandlerFuncs{
			AddFunc:    c.look(0),
			UpdateFunc: func(_, o any) { c.look(0)(o) },
			DeleteFunc: c.look(c.vacancy),
		}},
	}, c.cfg.Informers)
}

// same reports whether two states of a node need the same classes.
func same(a, b *corev1.Node) bool {
	return a.Labels[corev1.LabelOSStable] == b.Labels[corev1.LabelOSStable] &&
		a.Labels[corev1.LabelWindowsBuild] == b.Labels[corev1.LabelWindowsBuild] &&
		equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		equality.Semantic.DeepEqual(a.Status.RuntimeHandlers, b.Status.RuntimeHandlers)
}

// put queues the class of a node's build.
func (c *Controller) put(n *corev1.Node) {
	if b, ok := build(n); ok {
		c.queue.Add(className(b))
	} else if l := n.Labels[corev1.LabelWindowsBuild]; l != "" {
		c.cfg.Log.Info("no RuntimeClass for a node whose build of Windows is not known; a newer version may support it",
			logkey.Node, n.Name, logkey.Build, l)
	}
}

// look returns a handler that queues a class if the controller makes one of its name.
func (c *Controller) look(after time.Duration) func(obj any) {
	return controller.Typed(func(class *nodev1.RuntimeClass) {
		if slices.Contains(classNames(), class.Name) {
			c.queue.AddAfter(class.Name, after)
		}
	})
}

// handle brings one class into the state that the nodes require.
func (c *Controller) handle(ctx context.Context, name string) error {
	nodes := slices.DeleteFunc(controller.All[corev1.Node](c.nodes), func(n *corev1.Node) bool {
		b, ok := build(n)
		return !ok || className(b) != name
	})
	current := controller.Find[nodev1.RuntimeClass](c.classes, name)
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

// write creates, replaces or patches a class if necessary.
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

// say emits an event about a class, once.
func (c *Controller) say(class *nodev1.RuntimeClass, kind, reason, message string) {
	if what := string(class.UID) + reason + message; c.said[class.Name] != what {
		c.said[class.Name] = what
		c.cfg.Events.Event(class, kind, reason, message)
		c.cfg.Log.Info("RuntimeClass is not kept", logkey.Name, class.Name, logkey.Reason, message)
	}
}
