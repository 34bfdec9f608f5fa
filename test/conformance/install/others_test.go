// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mullion-k8s/mullion/internal/install"
)

func (c *cluster) target() *install.Cluster {
	c.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	out, err := install.Connect(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// others: what users have put beside an installation is kept, until it is
// purged; a namespace that cannot go is waited for, with the reason.
func (c *cluster) others(before map[string]string) {
	ctx := c.t.Context()
	args := []string{"install", "--image", image, "--replicas", "1", "--wait=false"}
	c.must(args...)
	maps := c.client.CoreV1().ConfigMaps(install.DefaultNamespace)
	if _, err := maps.Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "of-a-user", Finalizers: []string{"example.com/hold"}}},
		metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	specs := c.dynamic.Resource(schema.GroupVersionResource{Group: "windows.k8s.io", Version: "v1",
		Resource: "gmsacredentialspecs"})
	spec := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "windows.k8s.io/v1",
		"kind": "GMSACredentialSpec", "metadata": map[string]any{"name": "web"}, "credspec": map[string]any{}}}
	c.eventually("the kind GMSACredentialSpec", func() error {
		_, err := specs.Create(ctx, spec, metav1.CreateOptions{})
		return err
	})
	errs := c.must("uninstall")
	for _, want := range []string{"Namespace mullion-system kept", "ConfigMap of-a-user",
		"gmsacredentialspecs.windows.k8s.io kept", "1 GMSACredentialSpecs"} {
		if !strings.Contains(errs, want) {
			c.t.Errorf("uninstall does not say %q\n%s", want, errs)
		}
	}
	c.must(args...) // onto what was left

	// Ctrl-C, once it says what holds the namespace.
	held, cancel := context.WithTimeout(ctx, limit)
	err := install.Remove(held, c.target(), install.RemoveOptions{Purge: true, Waiting: func(what string) {
		if strings.Contains(what, "example.com/hold") {
			cancel()
		}
	}})
	cancel()
	if !errors.Is(err, context.Canceled) {
		c.t.Errorf("a namespace that is held: %v", err)
	}
	code, errs := c.mullion(ctx, append(args, "--timeout", "2s")...)
	if code != 1 || !strings.Contains(errs, "example.com/hold") || !strings.Contains(errs, "run it again") {
		c.t.Errorf("install into a namespace that goes: exit code %d\n%s", code, errs)
	}
	user, err := maps.Get(ctx, "of-a-user", metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	user.Finalizers = nil
	if _, err := maps.Update(ctx, user, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.must("uninstall", "--purge")
	if d := difference(before, c.snapshot()); d != "" {
		c.t.Errorf("left behind:\n%s", d)
	}
}

// byHand checks that deleting the installed objects, as helm uninstall does, also
// removes the webhooks: the ClusterRole owns them.
func (c *cluster) byHand() {
	ctx := c.t.Context()
	c.must("install", "--image", image, "--replicas", "1", "--wait=false")
	c.dns()
	c.manager()
	c.must("install", "--image", image, "--replicas", "1")
	if err := c.client.RbacV1().ClusterRoles().Delete(ctx, install.Name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.eventually("the removal of the webhooks", func() error {
		for _, of := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
			_, err := c.dynamic.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io",
				Version: "v1", Resource: of}).Get(ctx, "mullion", metav1.GetOptions{})
			if err == nil {
				return fmt.Errorf("%s: it is still there", of)
			}
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s: %w", of, err)
			}
		}
		return nil
	})
}
