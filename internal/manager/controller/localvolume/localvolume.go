// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package localvolume makes the StorageClass mullion-local work, on the side of the
// cluster: it makes PersistentVolumes for claims, with upstream's library for provisioners,
// and a CSIStorageCapacity of each node from the free space that the node reports, and
// emits an event on claims when the node with their data has left. The nodes' side is
// internal/agent/csidriver.
//
// The controller only makes a PersistentVolume: the directory is made for the first
// pod. Its data is deleted after the volume was marked as deleted.
package localvolume

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// Rules are the rights that the controller needs in the whole cluster.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"persistentvolumes"},
			Verbs: []string{"create", "delete", "get", "list", "patch", "update", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"},
			Verbs: []string{"get", "list", "update", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"},
			Verbs: []string{"get", "list", "patch", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{metav1.NamespaceSystem},
			Verbs: []string{"get"}},
		{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses"},
			Verbs: []string{"create", "get", "list", "watch"}},
	}
}

// NamespaceRules are the rights that it needs in the manager's namespace.
func NamespaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"csistoragecapacities"},
		Verbs: []string{"create", "delete", "list", "patch"}}}
}

// Config configures a Controller.
type Config struct {
	// Namespace has the CSIStorageCapacities.
	Namespace string
	Log       *slog.Logger
	// Informers may be shared with other controllers.
	Informers informers.SharedInformerFactory
}

// Controller provisions volumes and reports capacities.
type Controller struct {
	client    kubernetes.Interface
	cfg       Config
	cluster   string        // its UID
	lostAfter time.Duration // how long a node may be away before claims get an event
}

// New returns a controller. Call Run to start it.
func New(client kubernetes.Interface, c Config) *Controller {
	c.Log = c.Log.With(logkey.Name, storage.Driver)
	return &Controller{client: client, cfg: c, lostAfter: lostAfter}
}

// Run works until the context is cancelled.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.makeClass(ctx); err != nil {
		return err
	}
	system, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the cluster's UID: %w", err)
	}
	c.cluster = string(system.UID)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		logger := klog.FromContext(ctx)
		// The finalizer keeps a PersistentVolume that is deleted before its claim until Delete was called for it.
		p := controller.NewProvisionController(klog.NewContext(ctx, logger), c.client, storage.Driver,
			&provisioner{c}, controller.LeaderElection(false), controller.AddFinalizer(true),
			controller.FailedProvisionThreshold(0), controller.FailedDeleteThreshold(0))
		p.Run(ctx)
		return nil
	})
	group.Go(func() error { return c.reportCapacities(ctx) })
	group.Go(func() error { return c.tellLost(ctx) })
	group.Go(func() error { return c.unmark(ctx) })
	return group.Wait()
}

// makeClass makes the StorageClass if there isn't one of its name: users may
// change theirs. It is the default if the cluster has no other one.
func (c *Controller) makeClass(ctx context.Context) error {
	api := c.client.StorageV1().StorageClasses()
	list, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("look for StorageClasses: %w", err)
	}
	class := describeClass()
	for _, other := range list.Items {
		if other.Name == class.Name {
			return nil
		}
		if other.Annotations[defaultClass] == "true" {
			c.cfg.Log.Info("the cluster has another default StorageClass, which stays the default",
				logkey.Reason, other.Name)
			delete(class.Annotations, defaultClass)
		}
	}
	if _, err := api.Create(ctx, class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make StorageClass %s: %w", class.Name, err)
	}
	return nil
}

// defaultClass marks the StorageClass of claims that do not name one.
const defaultClass = "storageclass.kubernetes.io/is-default-class"

// describeClass returns the StorageClass mullion-local. A volume belongs to a node, so it waits
// until the scheduler has chosen one for the pod.
func describeClass() *storagev1.StorageClass {
	wait, remove := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete
	return &storagev1.StorageClass{
		TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
		ObjectMeta: metav1.ObjectMeta{Name: storage.Class, Labels: inventory.Labels(),
			Annotations: map[string]string{defaultClass: "true"}},
		Provisioner: storage.Driver, ReclaimPolicy: &remove, VolumeBindingMode: &wait,
	}
}
