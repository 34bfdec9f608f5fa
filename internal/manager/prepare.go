// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// prepare makes the manager's namespace where there is none; an installation
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
	_, err = api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": "mullion"}}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace %s: %w", name, err)
	}
	return nil
}
