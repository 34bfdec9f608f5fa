// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package localvolume

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
	parent "github.com/mullion-k8s/mullion/internal/manager/controller"
)

const (
	// reasonLost is the reason of the event of a claim whose data is on a node that is not in the cluster.
	reasonLost  = "VolumeNodeGone"
	lostMessage = "node %s, which has the data of this claim, is not in the cluster. If it does not come back, " +
		"delete the claim and the pods that use it, and make them again: they begin with an empty volume"
	// lostAfter is how long a node may be away before claims get an event: a kubelet whose Node was deleted
	// by mistake makes it again after a restart.
	lostAfter = 30 * time.Second
	// tellAgain is less than the hour after which the API server forgets an event (kube-apiserver --event-ttl).
	tellAgain = 45 * time.Minute
)

// tellLost emits an event with the remedy on claims when the node with their data is not in the cluster.
func (c *Controller) tellLost(ctx context.Context) error {
	events, end := parent.Events(c.client)
	defer end()
	nodes := c.cfg.Informers.Core().V1().Nodes().Informer()
	volumes := c.cfg.Informers.Core().V1().PersistentVolumes().Informer()
	queue := parent.NewQueue()
	later := func(v *corev1.PersistentVolume) {
		if nodeOf(v) != "" {
			queue.AddAfter(v.Name, c.lostAfter)
		}
	}
	sources := []parent.Source{
		{Informer: volumes, Handlers: cache.ResourceEventHandlerFuncs{AddFunc: parent.Typed(later)}},
		{Informer: nodes, Handlers: cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) {
			for _, v := range parent.All[corev1.PersistentVolume](volumes) {
				later(v)
			}
		}}},
	}
	return parent.Watch{Log: c.cfg.Log, Queue: queue, Handle: func(_ context.Context, name string) error {
		volume := parent.Find[corev1.PersistentVolume](volumes, name)
		if volume == nil {
			return nil
		}
		node, claim := nodeOf(volume), volume.Spec.ClaimRef
		if parent.Find[corev1.Node](nodes, node) != nil {
			return nil
		}
		if claim != nil && volume.Status.Phase == corev1.VolumeBound {
			events.Eventf(claim, corev1.EventTypeWarning, reasonLost, lostMessage, node)
		}
		queue.AddAfter(name, tellAgain)
		return nil
	}}.Run(ctx, sources, c.cfg.Informers)
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
