// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install_test

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mullion-k8s/mullion/internal/manager/controller/podreason"
)

// aggregated returns an error until aggregated ClusterRoles have all of their
// rules, which a controller adds.
func (c *cluster) aggregated() error {
	// Of each a rule of its own, and one of each role within.
	for name, resources := range map[string][]string{
		"view": {"bindings"}, "edit": {"bindings", "pods/eviction"},
		"admin": {"bindings", "pods/eviction", "localsubjectaccessreviews"},
	} {
		role, err := c.client.RbacV1().ClusterRoles().Get(c.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, resource := range resources {
			if !slices.ContainsFunc(role.Rules,
				func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, resource) }) {
				return fmt.Errorf("%s has no rule about %s yet", name, resource)
			}
		}
	}
	return nil
}

// reason: a pod whose last node goes is told why it finds none. It takes the
// rights to write conditions and events.
func (c *cluster) reason() {
	ctx := c.t.Context()
	c.node(node("win-2025", "windows", "10.0.26100.4946"))
	c.eventually("RuntimeClass windows-2025", func() error {
		_, err := c.client.NodeV1().RuntimeClasses().Get(ctx, "windows-2025", metav1.GetOptions{})
		return err
	})
	p, err := c.create(pod("late", "mcr.microsoft.com/windows/nanoserver:ltsc2025"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer c.remove(p)
	if err := c.client.CoreV1().Nodes().Delete(ctx, "win-2025", metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	// As the scheduler writes it.
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.Now()}}
	if _, err := c.client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.eventually("the pod's condition", func() error {
		p, err := c.client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, cond := range p.Status.Conditions {
			if cond.Type == podreason.Condition && cond.Status == corev1.ConditionFalse &&
				strings.Contains(cond.Message, "26100") {
				return nil
			}
		}
		return fmt.Errorf("%+v", p.Status.Conditions)
	})
	c.eventually("the pod's event", func() error {
		list, err := c.client.CoreV1().Events(p.Namespace).List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + p.Name + ",type=Warning"})
		if err == nil && len(list.Items) == 0 {
			err = fmt.Errorf("none")
		}
		return err
	})
}

// gmsa: contents are filled in for who may use them, and only for those. It
// takes the rights to read credential specs and to ask about rights.
func (c *cluster) gmsa() {
	ctx := c.t.Context()
	specs := c.dynamic.Resource(schema.GroupVersionResource{Group: "windows.k8s.io", Version: "v1",
		Resource: "gmsacredentialspecs"})
	spec := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "windows.k8s.io/v1",
		"kind": "GMSACredentialSpec", "metadata": map[string]any{"name": "web"},
		"credspec": map[string]any{"CmsPlugins": []any{"ActiveDirectory"}}}}
	if _, err := specs.Create(ctx, spec, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		if err := specs.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
			c.t.Error(err)
		}
	}()
	name := "web"
	with := pod("with-gmsa", windowsImage)
	with.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{
		GMSACredentialSpecName: &name}}
	if p, err := c.create(with); err == nil || !strings.Contains(err.Error(), "gmsa.mullion.dev") {
		c.t.Errorf("without the right to use it: %v, %+v", err, p)
	}
	// Roles are removed with the rest of the test's objects: the snapshot wants none.
	roles, bindings := c.client.RbacV1().Roles("apps"), c.client.RbacV1().RoleBindings("apps")
	if _, err := roles.Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"windows.k8s.io"}, Resources: []string{"gmsacredentialspecs"},
			Verbs: []string{"use"}, ResourceNames: []string{"web"}}}}, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	if _, err := bindings.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "web"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "apps", Name: "default"}}},
		metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		if err := bindings.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
			c.t.Error(err)
		}
		if err := roles.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
			c.t.Error(err)
		}
	}()
	c.eventually("a pod with its credential spec", func() error {
		p, err := c.create(with.DeepCopy())
		if err != nil {
			return err
		}
		defer c.remove(p)
		got := p.Spec.SecurityContext.WindowsOptions.GMSACredentialSpec
		if got == nil || !strings.Contains(*got, "ActiveDirectory") {
			return fmt.Errorf("%+v", p.Spec.SecurityContext.WindowsOptions)
		}
		return nil
	})
}
