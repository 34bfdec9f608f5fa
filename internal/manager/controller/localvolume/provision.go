// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package localvolume

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// provisioner makes PersistentVolumes for upstream's library.
type provisioner struct{ *Controller }

// Provision returns the PersistentVolume of a claim. Its errors become events of the
// claim.
func (p *provisioner) Provision(ctx context.Context, o controller.ProvisionOptions) (*corev1.PersistentVolume,
	controller.ProvisioningState, error) {
	if err := check(o); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	if o.SelectedNodeName == "" {
		nodes, err := p.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: storage.TopologyKey})
		if err == nil {
			o.SelectedNodeName, err = choose(o, nodes.Items)
		}
		if err != nil {
			return nil, controller.ProvisioningNoChange, err
		}
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

// choose returns a node for a volume that no pod waits for: one that the class allows,
// that is ready and has room.
func choose(o controller.ProvisionOptions, nodes []corev1.Node) (string, error) {
	size := o.PVC.Spec.Resources.Requests[corev1.ResourceStorage]
	var fit []string
	for _, n := range nodes {
		free, ok := freeSpace(&n)
		ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if ok && free >= size.Value() && ready && !n.Spec.Unschedulable &&
			slices.ContainsFunc(o.StorageClass.AllowedTopologies, func(term corev1.TopologySelectorTerm) bool {
				return matches(term, &n)
			}) {
			fit = append(fit, n.Name)
		}
	}
	if len(fit) == 0 {
		return "",
			fmt.Errorf("StorageClass %s: no node of its allowedTopologies is Ready, runs the driver %s and has %s "+
				"free", o.StorageClass.Name, storage.Driver, size.String())
	}
	// The volumes spread, and each try for one comes to the same node.
	slices.Sort(fit)
	return fit[crc32.ChecksumIEEE([]byte(o.PVName))%uint32(len(fit))], nil
}

// matches reports whether a node has one of the values of each of the term's labels. A
// term without labels does not match any node, as in the scheduler.
func matches(term corev1.TopologySelectorTerm, n *corev1.Node) bool {
	for _, e := range term.MatchLabelExpressions {
		if !slices.Contains(e.Values, n.Labels[e.Key]) {
			return false
		}
	}
	return len(term.MatchLabelExpressions) > 0
}

// SupportsBlock makes the library pass claims of block devices to Provision, which
// returns an error with the alternative.
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
	case o.SelectedNodeName == "" && len(o.StorageClass.AllowedTopologies) == 0:
		return fmt.Errorf("StorageClass %s: a volume of %s belongs to a node, which is known once a pod uses it; set "+
			"volumeBindingMode: WaitForFirstConsumer, or choose nodes by allowedTopologies", o.StorageClass.Name,
			storage.Driver)
	}
	if err := storage.CheckID(o.PVName); err != nil {
		return errors.Join(errors.New("the PersistentVolume cannot have a directory"), err)
	}
	return nil
}

// describe returns the PersistentVolume.
func describe(o controller.ProvisionOptions, cluster, node string) *corev1.PersistentVolume {
	mode := corev1.PersistentVolumeFilesystem
	size := o.PVC.Spec.Resources.Requests[corev1.ResourceStorage]
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName, Labels: inventory.Labels()},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: o.PVC.Spec.AccessModes,
			VolumeMode:  &mode,
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: size},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: storage.Driver, VolumeHandle: o.PVName,
				VolumeAttributes: map[string]string{
					storage.ClusterKey: cluster, storage.BytesKey: strconv.FormatInt(size.Value(), 10)},
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
