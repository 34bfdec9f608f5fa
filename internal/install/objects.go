// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// Name is the name of what there is one of: the Deployment, the ServiceAccount,
// the roles.
const Name = "mullion-manager"

// Labels of the objects. All carry them, so that what an older version made is
// found, too.
const (
	nameLabel      = "app.kubernetes.io/name"
	componentLabel = "app.kubernetes.io/component"

	appName   = "mullion"
	component = "manager"
)

// Selector finds the objects of any installation, those that the manager makes
// at run time left out.
const Selector = inventory.ManagedBy + "=" + appName + "," + nameLabel + "=" + appName

func labels() map[string]string {
	return map[string]string{nameLabel: appName, componentLabel: component, inventory.ManagedBy: appName}
}

// selected are the labels of the manager's pods by which Service and Deployment
// find them; a Deployment's can never be changed.
func selected() map[string]string {
	return map[string]string{nameLabel: appName, componentLabel: component}
}

// Objects are the objects of an installation, in the order in which they are to
// be made.
func Objects(c Config) ([]*unstructured.Unstructured, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	typed := []runtime.Object{c.namespace(), c.quota(), c.serviceAccount()}
	typed = append(typed, c.account().Rights()...)
	typed = append(typed, c.service(), c.disruptionBudget(), c.deployment())
	var out []*unstructured.Unstructured
	for _, o := range typed {
		u, err := inventory.Untyped(o)
		if err != nil {
			return nil, err
		}
		out = append(out, u)
		if u.GetKind() == "Namespace" && !c.NoGMSA {
			crd, err := inventory.Definition(labels())
			if err != nil {
				return nil, err
			}
			out = append(out, crd)
		}
	}
	return out, nil
}

func (c Config) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: c.Namespace, Name: name, Labels: labels()}
}

// namespace admits restricted pods only: the manager needs no more
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
func (c Config) namespace() *corev1.Namespace {
	n := c.account().Space()
	for _, mode := range []string{"enforce", "audit", "warn"} {
		n.Labels["pod-security.kubernetes.io/"+mode] = "restricted"
	}
	return n
}

// quota: clusters may admit critical pods only where a quota says so (GKE does;
// https://kubernetes.io/docs/concepts/policy/resource-quotas/#limit-priority-class-consumption-by-default).
func (c Config) quota() *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}, ObjectMeta: c.meta("mullion-critical-pods"),
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: quotaPods},
			ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
				ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{priorityClass},
			}}},
		},
	}
}

func (c Config) serviceAccount() *corev1.ServiceAccount {
	no := false
	return &corev1.ServiceAccount{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: c.meta(Name),
		AutomountServiceAccountToken: &no, // the Deployment asks for it
	}
}

func (c Config) service() *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: c.meta(inventory.Service),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: selected(),
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString(webhookPort)}},
		},
	}
}

// disruptionBudget keeps a drain from taking all managers at once, and never
// holds up the drain of a node when there is only one.
func (c Config) disruptionBudget() *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{
		TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}, ObjectMeta: c.meta(Name),
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: selected()}},
	}
}
