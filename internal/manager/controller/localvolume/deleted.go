// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package localvolume

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/logkey"
	parent "github.com/mullion-k8s/mullion/internal/manager/controller"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// Delete marks a volume as deleted, by an annotation of the node with its data; without the mark, the node keeps the
// data forever. The library calls it for PersistentVolumes that are released and have the policy Delete, and for no
// others. If another PersistentVolume has the same data, or it is not known which node has it, there is no mark.
func (c *provisioner) Delete(ctx context.Context, v *corev1.PersistentVolume) error {
	node := nodeOf(v)
	if node == "" || v.Spec.CSI.VolumeAttributes[storage.ClusterKey] != c.cluster {
		c.cfg.Log.Warn("the data of a deleted volume stays: it is not of this cluster or of no node", logkey.Name,
			v.Name)
		return nil
	}
	key := storage.DeletedAnnotation(v.Spec.CSI.VolumeHandle)
	if wanted, err := c.wanted(ctx, node, key); wanted || err != nil {
		return err
	}
	err := c.annotate(ctx, node, map[string]any{"annotations": map[string]string{
		key: time.Now().UTC().Format(time.RFC3339Nano)}})
	if apierrors.IsNotFound(err) {
		c.cfg.Log.Warn("the data of a deleted volume stays: its node is not in the cluster", logkey.Name, v.Name,
			logkey.Node, node)
		return nil
	}
	return err
}

// wanted reports whether a node has to keep the data with the key: a PersistentVolume has it that is not to be
// deleted. The cache only finds candidates, because it may be behind.
func (c *Controller) wanted(ctx context.Context, node, key string) (bool, error) {
	volumes := c.cfg.Informers.Core().V1().PersistentVolumes().Informer()
	for _, v := range parent.All[corev1.PersistentVolume](volumes) {
		if !hasData(v, node, key) {
			continue
		}
		now, err := c.client.CoreV1().PersistentVolumes().Get(ctx, v.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("look at PersistentVolume %s: %w", v.Name, err)
		}
		if hasData(now, node, key) && (now.Status.Phase != corev1.VolumeReleased ||
			now.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete) {
			return true, nil
		}
	}
	return false, nil
}

// hasData reports whether the data of a PersistentVolume is, or may be, that with the key on the node.
func hasData(v *corev1.PersistentVolume, node, key string) bool {
	if v.Spec.CSI == nil || v.Spec.CSI.Driver != storage.Driver {
		return false
	}
	on := nodeOf(v)
	return (on == node || on == "") && storage.DeletedAnnotation(v.Spec.CSI.VolumeHandle) == key
}

// annotate merges something into the metadata of a node.
func (c *Controller) annotate(ctx context.Context, node string, metadata map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: inventory.Owner})
	if err != nil {
		return fmt.Errorf("annotate node %s: %w", node, err)
	}
	return nil
}

// unmark removes marks of data that a PersistentVolume has again, under any name, because etcd was restored or a user
// has made it. The node takes the data out of its trash.
func (c *Controller) unmark(ctx context.Context) error {
	nodes := c.cfg.Informers.Core().V1().Nodes().Informer()
	queue := parent.NewQueue()
	handlers := parent.Changes(nil, func(any) {
		for _, n := range parent.All[corev1.Node](nodes) {
			if len(marks(n)) > 0 {
				queue.Add(n.Name)
			}
		}
	})
	sources := []parent.Source{{Informer: nodes, Handlers: handlers},
		{Informer: c.cfg.Informers.Core().V1().PersistentVolumes().Informer(), Handlers: handlers}}
	return parent.Watch{Log: c.cfg.Log, Queue: queue, Handle: func(ctx context.Context, name string) error {
		node := parent.Find[corev1.Node](nodes, name)
		if node == nil {
			return nil
		}
		back := map[string]any{}
		for _, key := range marks(node) {
			wanted, err := c.wanted(ctx, name, key)
			if err != nil {
				return err
			}
			if wanted {
				back[key] = nil
			}
		}
		if len(back) == 0 {
			return nil
		}
		// With the version, because the volume may have been deleted again meanwhile.
		return c.annotate(ctx, name, map[string]any{"annotations": back, "resourceVersion": node.ResourceVersion})
	}}.Run(ctx, sources, c.cfg.Informers)
}

// marks returns the keys of the volumes of a node that are marked as deleted.
func marks(n *corev1.Node) []string {
	var out []string
	for key := range n.Annotations {
		if strings.HasPrefix(key, storage.DeletedPrefix) {
			out = append(out, key)
		}
	}
	return out
}
