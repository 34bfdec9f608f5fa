// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package localvolume

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applystoragev1 "k8s.io/client-go/applyconfigurations/storage/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
	parent "github.com/mullion-k8s/mullion/internal/manager/controller"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// reportCapacities keeps a CSIStorageCapacity for each node that reports free space:
// the scheduler puts a pod with a new volume only where the volume fits.
func (c *Controller) reportCapacities(ctx context.Context) error {
	nodes := c.cfg.Informers.Core().V1().Nodes().Informer()
	classes := c.cfg.Informers.Storage().V1().StorageClasses().Informer()
	queue := parent.NewQueue()
	enqueue := func(n *corev1.Node) { queue.Add(n.Name) }
	sources := []parent.Source{
		{Informer: nodes, Handlers: parent.Changes(func(old, now *corev1.Node) bool {
			return old.Annotations[storage.FreeAnnotation] == now.Annotations[storage.FreeAnnotation]
		}, enqueue)},
		{Informer: classes, Handlers: cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			for _, n := range parent.All[corev1.Node](nodes) {
				enqueue(n)
			}
		}, DeleteFunc: func(any) { queue.Add(oldClasses) }}},
	}
	queue.Add(oldClasses)
	return parent.Watch{Log: c.cfg.Log, Queue: queue, Handle: func(ctx context.Context, name string) error {
		all := parent.All[storagev1.StorageClass](classes)
		if name == oldClasses {
			return c.removeCapacities(ctx, all)
		}
		node := parent.Find[corev1.Node](nodes, name)
		if node == nil {
			return nil // the garbage collector removes the Node's dependents
		}
		for _, class := range all {
			capacity := describeCapacity(node, class, c.cfg.Namespace)
			if capacity == nil {
				continue
			}
			_, err := c.client.StorageV1().CSIStorageCapacities(c.cfg.Namespace).Apply(ctx, capacity,
				metav1.ApplyOptions{FieldManager: inventory.Owner, Force: true})
			if err != nil {
				return fmt.Errorf("write the capacity of node %s: %w", name, err)
			}
		}
		return nil
	}}.Run(ctx, sources, c.cfg.Informers)
}

// oldClasses stands in the queue for the CSIStorageCapacities of classes that are gone. No node has this name.
const oldClasses = ""

// removeCapacities removes the CSIStorageCapacities of classes other than these.
func (c *Controller) removeCapacities(ctx context.Context, classes []*storagev1.StorageClass) error {
	api := c.client.StorageV1().CSIStorageCapacities(c.cfg.Namespace)
	list, err := api.List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(inventory.Labels()).String()})
	if err != nil {
		return fmt.Errorf("list CSIStorageCapacities: %w", err)
	}
	for _, capacity := range list.Items {
		if slices.ContainsFunc(classes, func(class *storagev1.StorageClass) bool {
			return strings.HasSuffix(capacity.Name, "-"+string(class.UID))
		}) {
			continue
		}
		if err := api.Delete(ctx, capacity.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the capacity of StorageClass %s: %w", capacity.StorageClassName, err)
		}
	}
	return nil
}

// freeSpace returns the bytes that a node reports as free for volumes; ok is false if the value is missing or not
// a number.
func freeSpace(n *corev1.Node) (bytes int64, ok bool) {
	bytes, err := strconv.ParseInt(n.Annotations[storage.FreeAnnotation], 10, 64)
	return bytes, err == nil && bytes >= 0
}

// describeCapacity returns the CSIStorageCapacity of a node for a class; nil if the class
// has another provisioner, or the node reports no free space.
func describeCapacity(n *corev1.Node, class *storagev1.StorageClass,
	namespace string) *applystoragev1.CSIStorageCapacityApplyConfiguration {
	free, ok := freeSpace(n)
	if !ok || class.Provisioner != storage.Driver {
		return nil
	}
	// Both names together could be too long for one.
	return applystoragev1.CSIStorageCapacity(string(n.UID)+"-"+string(class.UID), namespace).
		WithLabels(inventory.Labels()).
		WithOwnerReferences(applymetav1.OwnerReference().
			WithAPIVersion("v1").WithKind("Node").WithName(n.Name).WithUID(n.UID)).
		WithStorageClassName(class.Name).
		WithNodeTopology(applymetav1.LabelSelector().WithMatchLabels(map[string]string{storage.TopologyKey: n.Name})).
		WithCapacity(*resource.NewQuantity(free, resource.BinarySI))
}
