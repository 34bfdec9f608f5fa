// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// prepare makes the manager's namespace if it does not exist; an installation
// has made it.
func (m *Manager) prepare(ctx context.Context) error {
	api, name := m.client.CoreV1().Namespaces(), m.cfg.Namespace
	_, err := api.Get(ctx, name, metav1.GetOptions{})
	if err == nil || apierrors.IsForbidden(err) {
		// Forbidden: an installation's manager may not read namespaces by itself, but
		// lives in this one.
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("read namespace %s: %w", name, err)
	}
	space := inventory.Manager{Namespace: name, Labels: inventory.Labels()}.Space()
	_, err = api.Create(ctx, space, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace %s: %w", name, err)
	}
	return nil
}
