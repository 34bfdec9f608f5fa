// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package inventory

import (
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
)

// storageNode is the name of the role of nodes with volumes.
const storageNode = "mullion:storage-node"

// Storage returns the objects that the class mullion-local needs. The manager makes the
// class itself: the CSIDriver, which makes nodes run the driver, and their right to
// identify their cluster.
func Storage(labels map[string]string) []runtime.Object {
	no, yes, file := false, true, storagev1.FileFSGroupPolicy
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Labels: maps.Clone(labels)}
	}
	kind := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	return []runtime.Object{
		&storagev1.CSIDriver{
			TypeMeta:   metav1.TypeMeta{APIVersion: storagev1.SchemeGroupVersion.String(), Kind: "CSIDriver"},
			ObjectMeta: meta(storage.Driver),
			Spec: storagev1.CSIDriverSpec{
				AttachRequired: &no, StorageCapacity: &yes, FSGroupPolicy: &file,
				VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
			},
		},
		&rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: meta(storageNode), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"namespaces"},
				ResourceNames: []string{metav1.NamespaceSystem}, Verbs: []string{"get"}},
		}},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: meta(storageNode),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: storageNode},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}},
		},
	}
}
