// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/storage"
)

// storage removes the StorageClass mullion-local and the CSIDriver, unless volumes need
// them. The data of volumes stays on the nodes in any case: without their rights they
// cannot tell what is wanted, and keep everything.
func (r *removal) storage(ctx context.Context) error {
	list, err := r.c.list(ctx, volumes, "", "")
	if err != nil {
		return err
	}
	used := 0
	for _, pv := range list {
		if driver, _, _ := unstructured.NestedString(pv.Object, "spec", "csi", "driver"); driver == storage.Driver {
			used++
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
