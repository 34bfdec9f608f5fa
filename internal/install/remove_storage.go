// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// storage removes the StorageClass mullion-local and the CSIDriver, unless volumes need
// them. The data of volumes stays on the nodes in any case: without a manager it is
// never marked as deleted. The finalizers of PersistentVolumes would never be removed,
// either.
func (r *removal) storage(ctx context.Context) error {
	list, err := r.c.list(ctx, volumes, "", "")
	if err != nil {
		return err
	}
	used := 0
	for _, pv := range list {
		if driver, _, _ := unstructured.NestedString(pv.Object, "spec", "csi", "driver"); driver == storage.Driver {
			used++
			if err := r.finalizer(ctx, &pv); err != nil {
				return err
			}
		}
	}
	var all []Step
	class, err := r.c.get(ctx, classes, "", storage.Class)
	if err != nil {
		return err
	}
	if class != nil && class.GetLabels()[inventory.ManagedBy] == appName {
		all = append(all, step(classes, class))
	}
	for _, s := range r.found {
		if s.kind == csiDrivers {
			all = append(all, s)
		}
	}
	for _, s := range all {
		if used > 0 && !r.opts.Purge {
			s.Action, s.Why = Kept, fmt.Sprintf("%d PersistentVolumes need it; --purge removes it", used)
			r.say(s)
			continue
		}
		if err := r.remove(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// provisionerFinalizer is the finalizer of the provisioner's library, which does not
// export it.
const provisionerFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"

// finalizer removes the provisioner's finalizer from a PersistentVolume, with which it could not be deleted.
func (r *removal) finalizer(ctx context.Context, pv *unstructured.Unstructured) error {
	all := pv.GetFinalizers()
	left := slices.DeleteFunc(slices.Clone(all), func(f string) bool { return f == provisionerFinalizer })
	if len(left) == len(all) {
		return nil
	}
	if !r.opts.DryRun {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"finalizers": left, "resourceVersion": pv.GetResourceVersion()}})
		if err != nil {
			return err
		}
		_, err = r.c.at(volumes, "").Patch(ctx, pv.GetName(), types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: fieldManager})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the finalizer of PersistentVolume %s; try again: %w", pv.GetName(), err)
		}
	}
	r.say(Step{Object: "finalizer of PersistentVolume " + pv.GetName(), Action: Removed})
	return nil
}
