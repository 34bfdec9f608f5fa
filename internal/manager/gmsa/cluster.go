// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package gmsa

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

const (
	group    = "windows.k8s.io"
	resource = "gmsacredentialspecs"
)

// The reasons for missing contents.
var (
	errNotFound   = errors.New("no such GMSACredentialSpec")
	errNoContents = errors.New("the GMSACredentialSpec has no credspec")
)

// Cluster answers questions about credential specs.
type Cluster interface {
	// CredentialSpec is the credspec of a GMSACredentialSpec as JSON. The error is
	// errNotFound or errNoContents, or the error of reading it.
	CredentialSpec(ctx context.Context, name string) (string, error)
	// MayUse reports whether a service account may use a credential spec in its
	// namespace, and why (not), if there is a reason.
	MayUse(ctx context.Context, namespace, serviceAccount, spec string) (allowed bool, reason string, err error)
	// OptedOut reports whether a namespace has a label of OptOut.
	OptedOut(ctx context.Context, namespace string) (bool, error)
}

// Label is a label of a namespace.
type Label struct{ Key, Value string }

// OptOut are the labels that keep upstream's webhook off a namespace, and these
// too: the chart's and the plain manifest's (github.com/kubernetes-sigs/windows-gmsa
// charts/gmsa/templates/validatingwebhook.yaml,
// admission-webhook/deploy/gmsa-webhook.yml.tpl).
func OptOut() []Label {
	return []Label{{"windows.k8s.io/disabled", "true"}, {"gmsa-webhook", "disabled"}}
}

// API is the Cluster that reads from an API server. It does not cache: pods
// with a GMSA are few, and revoking a right must take effect at once.
type API struct {
	Dynamic dynamic.Interface
	Client  kubernetes.Interface
}

// CredentialSpec reads one.
func (a API) CredentialSpec(ctx context.Context, name string) (string, error) {
	o, err := a.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).Get(ctx,
		name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("%w: %s", errNotFound, name)
	}
	if err != nil {
		return "", fmt.Errorf("read GMSACredentialSpec %s: %w", name, err)
	}
	contents, ok := o.Object["credspec"]
	if !ok || contents == nil || contents == "" {
		return "", fmt.Errorf("%w: %s", errNoContents, name)
	}
	text, err := json.Marshal(contents)
	if err != nil {
		return "", fmt.Errorf("encode GMSACredentialSpec %s: %w", name, err)
	}
	return string(text), nil
}

// MayUse queries the API server's authorizers. A RoleBinding in the namespace
// is enough.
func (a API) MayUse(ctx context.Context, namespace, serviceAccount, spec string) (bool, string, error) {
	// The names that a service account's tokens have: k8s.io/apiserver
	// pkg/authentication/serviceaccount, MakeUsername and MakeGroupNames.
	review := &authorizationv1.LocalSubjectAccessReview{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + namespace + ":" + serviceAccount,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: "use", Group: group, Version: "v1", Resource: resource, Name: spec,
			},
		},
	}
	out, err := a.Client.AuthorizationV1().LocalSubjectAccessReviews(namespace).Create(ctx, review,
		metav1.CreateOptions{})
	if err != nil {
		return false, "", fmt.Errorf("check the service account's right to use it: %w", err)
	}
	return out.Status.Allowed && !out.Status.Denied, out.Status.Reason, nil
}

// OptedOut reads the namespace.
func (a API) OptedOut(ctx context.Context, namespace string) (bool, error) {
	ns, err := a.Client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("read namespace %s: %w", namespace, err)
	}
	return slices.ContainsFunc(OptOut(), func(l Label) bool { return ns.Labels[l.Key] == l.Value }), nil
}

// Rules are the rights that the API needs in the whole cluster.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"get"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"localsubjectaccessreviews"},
			Verbs: []string{"create"}},
	}
}
