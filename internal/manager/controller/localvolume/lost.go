// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package localvolume

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	parent "github.com/mullion-k8s/mullion/internal/manager/controller"
	"github.com/mullion-k8s/mullion/internal/storage"
)

const (
	// reasonLost is the reason of the event of a claim whose data is on a node that is not in the cluster.
	reasonLost  = "VolumeNodeGone"
	lostMessage = "node %s, which has the data of this claim, is not in the cluster. If it does not come back, " +
		"delete the claim and the pods that use it, and make them again: they begin with an empty volume"
	// lostAfter is how long a node may be away before claims are told: kubelets whose Node was deleted by mistake
	// make it again when they are restarted.
	lostAfter = 30 * time.Second
	// tellAgain is less than the hour after which the API server forgets an event (kube-apiserver --event-ttl).
	tellAgain = 45 * time.Minute
)

// tellLost gives claims an event that says what to do when the node with their data is not in the cluster.
func (c *Controller) tellLost(ctx context.Context) error {
	factory, stop := parent.Informers(c.cfg.Informers, c.client)
	defer stop()
	events, end := parent.Events(c.client)
	defer end()
	nodes, volumes := factory.Core().V1().Nodes(), factory.Core().V1().PersistentVolumes()
	queue := parent.NewQueue()
	later := func(o any) {
		if v, ok := o.(*corev1.PersistentVolume); ok && nodeOf(v) != "" {
			queue.AddAfter(v.Name, c.lostAfter)
		}
	}
	made, err := volumes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: later})
	if err != nil {
		return fmt.Errorf("watch PersistentVolumes: %w", err)
	}
	defer func() { _ = volumes.Informer().RemoveEventHandler(made) }() // its only error: it is gone
	left, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) {
		for _, v := range volumes.Informer().GetStore().List() {
			later(v)
		}
	}})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	defer func() { _ = nodes.Informer().RemoveEventHandler(left) }() // its only error: it is gone
	factory.Start(ctx.Done())
	return parent.Work(ctx, c.cfg.Log, queue, []cache.InformerSynced{made.HasSynced, left.HasSynced}, 1,
		func(_ context.Context, name string) error {
			volume, err := volumes.Lister().Get(name)
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("look up PersistentVolume %s: %w", name, err)
			}
			node, claim := nodeOf(volume), volume.Spec.ClaimRef
			if _, err := nodes.Lister().Get(node); !apierrors.IsNotFound(err) {
				return err
			}
			if claim != nil && volume.Status.Phase == corev1.VolumeBound {
				events.Eventf(claim, corev1.EventTypeWarning, reasonLost, lostMessage, node)
			}
			queue.AddAfter(name, tellAgain)
			return nil
		})
}

// nodeOf returns the node that has the data of a volume of the driver, and "" for other volumes.
func nodeOf(v *corev1.PersistentVolume) string {
	if v.Spec.CSI == nil || v.Spec.CSI.Driver != storage.Driver || v.Spec.NodeAffinity == nil ||
		v.Spec.NodeAffinity.Required == nil {
		return ""
	}
	for _, term := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			if e.Key == storage.TopologyKey && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
				return e.Values[0]
			}
		}
	}
	return ""
}
