// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// fieldManager is the name under which fields are applied.
const fieldManager = "mullion"

// oldest is the first version in which matchConditions of webhooks are stable
// (https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#matchconditions).
// An older API server may drop them, and would then delay every pod of the
// cluster for a webhook that concerns only pods with a GMSA.
var oldest = version.MajorMinor(1, 30)

// Times.
const (
	// requestLimit bounds one request to the API server: a working one answers
	// in milliseconds, and another webhook may delay a change for up to 30 s.
	requestLimit = 40 * time.Second
	lookEvery    = 250 * time.Millisecond
)

// Cluster is the cluster to install on.
type Cluster struct {
	dynamic   dynamic.Interface
	discovery discovery.DiscoveryInterface
	typed     kubernetes.Interface // for the facts of a report
}

// Connect returns a Cluster. It sends no request.
func Connect(cfg *rest.Config) (*Cluster, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // a few dozen requests, one after the other
	cfg.Timeout = cmp.Or(cfg.Timeout, requestLimit)
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", cfg.Host, err)
	}
	disc, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", cfg.Host, err)
	}
	typed, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", cfg.Host, err)
	}
	return &Cluster{dynamic: dyn, discovery: disc, typed: typed}, nil
}

// ErrUnreachable is wrapped by the errors of Apply and Remove when the cluster
// does not answer their first request.
var ErrUnreachable = errors.New("the cluster does not answer")

// TooOldError refuses a cluster.
type TooOldError struct{ Version string }

func (e *TooOldError) Error() string {
	return fmt.Sprintf("the cluster runs Kubernetes %s; mullion needs %s or newer, whose webhooks choose their "+
		"objects by matchConditions", e.Version, oldest)
}

// check requests the version.
func (c *Cluster) check() error {
	info, err := c.discovery.ServerVersion()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	v, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return fmt.Errorf("read the cluster's version %q: %w", info.GitVersion, err)
	}
	if v.LessThan(oldest) {
		return &TooOldError{info.GitVersion}
	}
	return nil
}

// kind describes how to request objects of a kind.
type kind struct {
	name       string
	gvr        schema.GroupVersionResource
	namespaced bool
}

// group is version 1 of a resource.
func group(g, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: g, Version: "v1", Resource: resource}
}

// The kinds that an installation consists of.
var (
	namespaces        = kind{"Namespace", group("", "namespaces"), false}
	resourceQuotas    = kind{"ResourceQuota", group("", "resourcequotas"), true}
	serviceAccounts   = kind{"ServiceAccount", group("", "serviceaccounts"), true}
	services          = kind{"Service", group("", "services"), true}
	secrets           = kind{"Secret", group("", "secrets"), true}
	configMaps        = kind{"ConfigMap", group("", "configmaps"), true}
	pods              = kind{"Pod", group("", "pods"), true}
	nodes             = kind{"Node", group("", "nodes"), false}
	leases            = kind{"Lease", group("coordination.k8s.io", "leases"), true}
	deployments       = kind{"Deployment", group("apps", "deployments"), true}
	replicaSets       = kind{"ReplicaSet", group("apps", "replicasets"), true}
	disruptionBudgets = kind{"PodDisruptionBudget", group("policy", "poddisruptionbudgets"), true}
	clusterRoles      = kind{"ClusterRole", group("rbac.authorization.k8s.io", "clusterroles"), false}
	clusterBindings   = kind{"ClusterRoleBinding", group("rbac.authorization.k8s.io", "clusterrolebindings"),
		false}
	roles        = kind{"Role", group("rbac.authorization.k8s.io", "roles"), true}
	roleBindings = kind{"RoleBinding", group("rbac.authorization.k8s.io", "rolebindings"), true}
	csiDrivers   = kind{"CSIDriver", group("storage.k8s.io", "csidrivers"), false}
	classes      = kind{"StorageClass", group("storage.k8s.io", "storageclasses"), false}
	volumes      = kind{"PersistentVolume", group("", "persistentvolumes"), false}
	definitions  = kind{"CustomResourceDefinition",
		group("apiextensions.k8s.io", "customresourcedefinitions"), false}
	mutatingWebhooks = kind{"MutatingWebhookConfiguration",
		group("admissionregistration.k8s.io", "mutatingwebhookconfigurations"), false}
	validatingWebhooks = kind{"ValidatingWebhookConfiguration",
		group("admissionregistration.k8s.io", "validatingwebhookconfigurations"), false}
	runtimeClasses     = kind{"RuntimeClass", group("node.k8s.io", "runtimeclasses"), false}
	credentialSpecObjs = kind{"GMSACredentialSpec", group("windows.k8s.io", "gmsacredentialspecs"), false}
)

// applied lists the kinds that Objects is made of.
func applied() []kind {
	return []kind{namespaces, definitions, resourceQuotas, serviceAccounts, clusterRoles, clusterBindings, roles,
		roleBindings, csiDrivers, services, disruptionBudgets, deployments}
}

func kindOf(o *unstructured.Unstructured) (kind, error) {
	for _, k := range applied() {
		if k.name == o.GetKind() {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("%s: unknown kind", describe(o))
}

// at returns the client for a kind; it ignores namespace for kinds without one.
func (c *Cluster) at(k kind, namespace string) dynamic.ResourceInterface {
	if k.namespaced {
		return c.dynamic.Resource(k.gvr).Namespace(namespace)
	}
	return c.dynamic.Resource(k.gvr)
}

// get returns nil if there is no such object, or no such kind.
func (c *Cluster) get(ctx context.Context, k kind, namespace, name string) (*unstructured.Unstructured, error) {
	o, err := c.at(k, namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", k.name, name, err)
	}
	return o, nil
}

// pageSize is the number of objects per request, the same as kubectl's.
const pageSize = 500

// list returns the objects of a kind that match a selector, in all namespaces
// if namespace is "". It returns nil if there is no such kind.
func (c *Cluster) list(ctx context.Context, k kind, namespace, selector string) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	opts := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		page, err := c.at(k, namespace).List(ctx, opts)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", k.gvr.Resource, err)
		}
		out = append(out, page.Items...)
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			return out, nil
		}
	}
}

// until calls done until it returns true or an error, or the context ends; the
// error then names the missing condition.
func until(ctx context.Context, what func() string, done func(context.Context) (bool, error)) error {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		ok, err := done(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("wait for %s: %w", what(), context.Cause(ctx))
		}
		if err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what(), context.Cause(ctx))
		case <-t.C:
		}
	}
}
