// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package localvolume

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/storage"
)

// provisioner makes PersistentVolumes for upstream's library.
type provisioner struct {
	client  kubernetes.Interface
	cluster string // its UID
}

// Provision returns the PersistentVolume of a claim. Its errors become events of the
// claim.
func (p *provisioner) Provision(ctx context.Context, o controller.ProvisionOptions) (*corev1.PersistentVolume,
	controller.ProvisioningState, error) {
	if err := check(o); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	node, err := p.client.CoreV1().Nodes().Get(ctx, o.SelectedNodeName, metav1.GetOptions{})
	if err != nil {
		return nil, controller.ProvisioningNoChange, fmt.Errorf("look at node %s: %w", o.SelectedNodeName, err)
	}
	if node.Labels[storage.TopologyKey] == "" {
		return nil, controller.ProvisioningReschedule, fmt.Errorf("node %s does not run the driver %s: "+
			"mullion's agent does on Windows nodes, and mullion's Linux workers do", node.Name, storage.Driver)
	}
	return describe(o, p.cluster, node.Labels[storage.TopologyKey]), controller.ProvisioningFinished, nil
}

// Delete does nothing: the node removes the data once the PersistentVolume is gone.
func (p *provisioner) Delete(context.Context, *corev1.PersistentVolume) error { return nil }

// SupportsBlock makes the library pass claims of block devices to Provision, which says
// what to do instead.
func (p *provisioner) SupportsBlock(context.Context) bool { return true }

// check refuses claims that a directory of one node cannot satisfy.
func check(o controller.ProvisionOptions) error {
	spec := o.PVC.Spec
	for _, m := range spec.AccessModes {
		if m != corev1.ReadWriteOnce && m != corev1.ReadWriteOncePod {
			return fmt.Errorf("access mode %s: volumes of %s are directories of one node, so they can be "+
				"ReadWriteOnce or ReadWriteOncePod only; a share (SMB) can be used by pods of several nodes", m,
				storage.Driver)
		}
	}
	switch {
	case spec.VolumeMode != nil && *spec.VolumeMode != corev1.PersistentVolumeFilesystem:
		return fmt.Errorf("volumeMode %s: volumes of %s are directories; use Filesystem", *spec.VolumeMode,
			storage.Driver)
	case spec.DataSource != nil || spec.DataSourceRef != nil:
		return fmt.Errorf("dataSource: volumes of %s begin empty; snapshots and clones are not supported",
			storage.Driver)
	case spec.Selector != nil:
		return fmt.Errorf("selector: it selects existing PersistentVolumes, but %s makes new ones; remove it",
			storage.Driver)
	case len(o.StorageClass.MountOptions) > 0:
		return fmt.Errorf("StorageClass %s: mountOptions are not supported", o.StorageClass.Name)
	case len(o.StorageClass.Parameters) > 0:
		return fmt.Errorf("StorageClass %s: %s has no parameters", o.StorageClass.Name, storage.Driver)
	case o.SelectedNodeName == "":
		return fmt.Errorf("StorageClass %s: a volume of %s belongs to a node, which is known once a pod uses it; set "+
			"volumeBindingMode: WaitForFirstConsumer", o.StorageClass.Name, storage.Driver)
	}
	if err := storage.CheckID(o.PVName); err != nil {
		return errors.Join(errors.New("the PersistentVolume cannot have a directory"), err)
	}
	return nil
}

// describe returns the PersistentVolume.
func describe(o controller.ProvisionOptions, cluster, node string) *corev1.PersistentVolume {
	mode := corev1.PersistentVolumeFilesystem
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName, Labels: inventory.Labels()},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: o.PVC.Spec.AccessModes,
			VolumeMode:  &mode,
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: o.PVC.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: storage.Driver, VolumeHandle: o.PVName,
				VolumeAttributes: map[string]string{storage.ClusterKey: cluster},
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: storage.TopologyKey, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}},
		},
	}
	if o.StorageClass.ReclaimPolicy != nil {
		pv.Spec.PersistentVolumeReclaimPolicy = *o.StorageClass.ReclaimPolicy
	}
	return pv
}
