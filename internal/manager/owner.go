// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// owner finds the object with which the manager's objects are garbage
// collected: an installation is removed as a whole. It is nil without an
// installation.
func (m *Manager) owner() func(context.Context) (*metav1.OwnerReference, error) {
	name := m.cfg.OwnerClusterRole
	if name == "" {
		return nil
	}
	return func(ctx context.Context) (*metav1.OwnerReference, error) {
		role, err := m.client.RbacV1().ClusterRoles().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("find the owner of the manager's objects: %w", err)
		}
		return &metav1.OwnerReference{
			APIVersion: rbacv1.SchemeGroupVersion.String(),
			Kind:       "ClusterRole",
			Name:       role.Name,
			UID:        role.UID,
		}, nil
	}
}

// ownerRules is the right to see it.
func (c Config) ownerRules() []rbacv1.PolicyRule {
	if c.OwnerClusterRole == "" {
		return nil
	}
	return []rbacv1.PolicyRule{{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"},
		ResourceNames: []string{c.OwnerClusterRole}, Verbs: []string{"get"},
	}}
}
