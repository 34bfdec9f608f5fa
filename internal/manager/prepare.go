// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mullion-k8s/mullion/internal/admission/gmsa"
	"github.com/mullion-k8s/mullion/internal/admission/registration"
)

// prepare makes what the parts need in the cluster.
func (m *Manager) prepare(ctx context.Context) error {
	if err := m.namespace(ctx); err != nil {
		return err
	}
	if m.cfg.ApplyCRD {
		return m.applyCRD(ctx)
	}
	return nil
}

// namespace makes the manager's namespace where there is none; an installation
// has made it.
func (m *Manager) namespace(ctx context.Context) error {
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

func (m *Manager) applyCRD(ctx context.Context) error {
	crd, err := gmsa.CRD()
	if err != nil {
		return err
	}
	body, err := json.Marshal(crd)
	if err != nil {
		return fmt.Errorf("encode the definition of GMSACredentialSpec: %w", err)
	}
	meta, _ := crd["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	force := true
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	_, err = m.dynamic.Resource(resource).Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: registration.FieldManager, Force: &force})
	if err != nil {
		return fmt.Errorf("apply CustomResourceDefinition %s: %w", name, err)
	}
	return nil
}
