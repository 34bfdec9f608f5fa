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

// Name is the name of each object that exists once: the Deployment, the
// ServiceAccount, the roles.
const Name = "mullion-manager"

// Labels of the objects. All objects carry them, so that objects of older
// versions are found too.
const (
	nameLabel      = "app.kubernetes.io/name"
	componentLabel = "app.kubernetes.io/component"

	appName   = "mullion"
	component = "manager"
)

// Selector finds the objects of any installation, except objects that the
// manager creates at run time.
const Selector = inventory.ManagedBy + "=" + appName + "," + nameLabel + "=" + appName

func labels() map[string]string {
	return map[string]string{nameLabel: appName, componentLabel: component, inventory.ManagedBy: appName}
}

// selected returns the labels by which the Service and the Deployment find the
// manager's pods; a Deployment's selector labels are immutable.
func selected() map[string]string {
	return map[string]string{nameLabel: appName, componentLabel: component}
}

// Objects returns the objects of an installation, in the order in which to
// create them.
func Objects(c Config) ([]*unstructured.Unstructured, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	typed := []runtime.Object{c.namespace(), c.quota(), c.serviceAccount()}
	typed = append(typed, c.account().Rights()...)
	if c.Storage {
		typed = append(typed, inventory.Storage(labels())...)
	}
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

// namespace admits only restricted pods: the manager needs no more
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
func (c Config) namespace() *corev1.Namespace {
	n := c.account().Space()
	for _, mode := range []string{"enforce", "audit", "warn"} {
		n.Labels["pod-security.kubernetes.io/"+mode] = "restricted"
	}
	return n
}

// quota allows critical pods: some clusters, such as GKE, admit them only in
// namespaces with a quota
// (https://kubernetes.io/docs/concepts/policy/resource-quotas/#limit-priority-class-consumption-by-default).
func (c Config) quota() *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}, ObjectMeta: c.meta("mullion-critical-pods"),
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: quotaPods},
			ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
				ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn,
				Values: []string{priorityClass},
			}}},
		},
	}
}

func (c Config) serviceAccount() *corev1.ServiceAccount {
	no := false
	return &corev1.ServiceAccount{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: c.meta(Name),
		AutomountServiceAccountToken: &no, // the Deployment enables it
	}
}

func (c Config) service() *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: c.meta(inventory.Service),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: selected(),
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP,
				TargetPort: intstr.FromString(webhookPort)}},
		},
	}
}

// disruptionBudget keeps a drain from stopping all managers at once, but does
// not block the drain of a node if there is only one.
func (c Config) disruptionBudget() *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{
		TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}, ObjectMeta: c.meta(Name),
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one,
			Selector: &metav1.LabelSelector{MatchLabels: selected()}},
	}
}
