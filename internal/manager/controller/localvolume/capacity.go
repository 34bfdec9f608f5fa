// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package localvolume

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applystoragev1 "k8s.io/client-go/applyconfigurations/storage/v1"
	"k8s.io/client-go/tools/cache"

	parent "github.com/mullion-k8s/mullion/internal/manager/controller"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/storage"
)

// reportCapacities keeps a CSIStorageCapacity for each node that reports free space:
// the scheduler puts a pod with a new volume only where the volume fits.
func (c *Controller) reportCapacities(ctx context.Context) error {
	factory, stop := parent.Informers(c.cfg.Informers, c.client)
	nodes, classes := factory.Core().V1().Nodes(), factory.Storage().V1().StorageClasses()
	queue := parent.NewQueue()
	enqueue := func(o any) {
		if n, ok := o.(*corev1.Node); ok {
			queue.Add(n.Name)
		}
	}
	registered, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue,
		UpdateFunc: func(old, now any) {
			before, ok1 := old.(*corev1.Node)
			after, ok2 := now.(*corev1.Node)
			if !ok1 || !ok2 || before.Annotations[storage.FreeAnnotation] != after.Annotations[storage.FreeAnnotation] {
				enqueue(now)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	defer func() { _ = nodes.Informer().RemoveEventHandler(registered) }() // its only error: it is gone
	newClass, err := classes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		for _, n := range nodes.Informer().GetStore().List() {
			enqueue(n)
		}
	}})
	if err != nil {
		return fmt.Errorf("watch StorageClasses: %w", err)
	}
	defer func() { _ = classes.Informer().RemoveEventHandler(newClass) }() // its only error: it is gone
	factory.Start(ctx.Done())
	defer stop()
	return parent.Work(ctx, c.cfg.Log, queue, []cache.InformerSynced{registered.HasSynced, newClass.HasSynced}, 1,
		func(ctx context.Context, name string) error {
			node, err := nodes.Lister().Get(name)
			if apierrors.IsNotFound(err) {
				return nil // the garbage collector removes what the Node owns
			}
			if err != nil {
				return fmt.Errorf("look up node %s: %w", name, err)
			}
			all, err := classes.Lister().List(labels.Everything())
			if err != nil {
				return fmt.Errorf("look up StorageClasses: %w", err)
			}
			for _, class := range all {
				capacity := describeCapacity(node, class, c.cfg.Namespace)
				if capacity == nil {
					continue
				}
				_, err = c.client.StorageV1().CSIStorageCapacities(c.cfg.Namespace).Apply(ctx, capacity,
					metav1.ApplyOptions{FieldManager: inventory.Owner, Force: true})
				if err != nil {
					return fmt.Errorf("write the capacity of node %s: %w", name, err)
				}
			}
			return nil
		})
}

// describeCapacity returns the CSIStorageCapacity of a node for a class; nil if the class
// has another provisioner, or the node reports no free space or something that is not a
// number.
func describeCapacity(n *corev1.Node, class *storagev1.StorageClass,
	namespace string) *applystoragev1.CSIStorageCapacityApplyConfiguration {
	free, err := strconv.ParseInt(n.Annotations[storage.FreeAnnotation], 10, 64)
	if err != nil || free < 0 || class.Provisioner != storage.Driver {
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
