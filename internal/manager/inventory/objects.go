// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package inventory describes the objects of a manager in a cluster: the names,
// its namespace, its rights, and the definition of GMSACredentialSpec. The
// control plane of `mullion up` makes these objects; `mullion install` adds the
// objects that run a manager in a cluster. The Helm chart is compared with the
// output of `mullion install` (docs/internals/install.md).
package inventory

import (
	_ "embed" // the definition of GMSACredentialSpec
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Manager is the identity of a manager in the cluster.
type Manager struct {
	Name      string            // of its roles and of their bindings
	Namespace string            // the namespace of its own objects
	Labels    map[string]string // of all its objects
	Subject   rbacv1.Subject    // who it is

	ClusterRules   []rbacv1.PolicyRule // its rights in the whole cluster
	NamespaceRules []rbacv1.PolicyRule // its rights in its namespace
}

// Space returns the manager's namespace.
func (m Manager) Space() *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: m.Namespace, Labels: maps.Clone(m.Labels)},
	}
}

// Rights returns the roles and their bindings.
func (m Manager) Rights() []runtime.Object {
	kind := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	named := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: m.Name, Labels: maps.Clone(m.Labels)}
	}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: m.Name}
	}
	subjects := []rbacv1.Subject{m.Subject}
	return []runtime.Object{
		&rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: named(""), Rules: m.ClusterRules},
		&rbacv1.ClusterRoleBinding{
			TypeMeta:   kind("ClusterRoleBinding"),
			ObjectMeta: named(""),
			RoleRef:    ref("ClusterRole"),
			Subjects:   subjects,
		},
		&rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: named(m.Namespace), Rules: m.NamespaceRules},
		&rbacv1.RoleBinding{
			TypeMeta:   kind("RoleBinding"),
			ObjectMeta: named(m.Namespace),
			RoleRef:    ref("Role"),
			Subjects:   subjects,
		},
	}
}

//go:embed gmsacredentialspecs.yaml
var definition []byte

// Definition returns the CustomResourceDefinition of GMSACredentialSpec, with
// labels.
func Definition(labels map[string]string) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(definition, &out.Object); err != nil {
		return nil, fmt.Errorf("read the definition of GMSACredentialSpec: %w", err)
	}
	all := map[string]string{}
	maps.Copy(all, out.GetLabels())
	maps.Copy(all, labels)
	if len(all) > 0 {
		out.SetLabels(all)
	}
	return out, nil
}

// Untyped converts a typed object to the form sent to an API server: without a
// status, and without unset fields that the Go types write.
func Untyped(o runtime.Object) (*unstructured.Unstructured, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", o.GetObjectKind().GroupVersionKind().Kind, err)
	}
	delete(m, "status")
	prune(m)
	return &unstructured.Unstructured{Object: m}, nil
}

// prune removes nulls and empty maps, and reports whether the result is empty.
// An empty map has no meaning in a manager's objects.
func prune(v any) (empty bool) {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for k, x := range v {
			if prune(x) {
				delete(v, k)
			}
		}
		return len(v) == 0
	case []any:
		for _, x := range v {
			prune(x)
		}
	}
	return false
}

// Path returns the path of an object at an API server.
func Path(o *unstructured.Unstructured) string {
	kind := o.GroupVersionKind()
	root := "/apis/" + kind.GroupVersion().String()
	if kind.Group == "" {
		root = "/api/" + kind.Version
	}
	if namespace := o.GetNamespace(); namespace != "" {
		root += "/namespaces/" + namespace
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return root + "/" + resource.Resource + "/" + o.GetName()
}
