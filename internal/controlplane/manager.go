// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager"
	"github.com/mullion-k8s/mullion/internal/manager/gmsa"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/registry/lookup"
)

// registryCerts has the authorities of registries: the directory that the
// emulated hosts pull with, too (package winhost).
const registryCerts = "/etc/docker/certs.d"

// windows runs the admission webhooks, and the controllers of Windows nodes,
// with an identity of their own.
type windows struct {
	server   *server
	listener net.Listener
	manager  atomic.Pointer[manager.Manager]
}

// listenForAdmission opens the webhooks' port before the API server starts:
// what controllers create in the first moments waits there until the webhooks
// answer, instead of passing them by.
func listenForAdmission(ctx context.Context, c config.Config) (net.Listener, error) {
	at := plan.AdmissionAddress(c).String()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", at)
	if err != nil {
		return nil, explain(at, err)
	}
	return l, nil
}

func (w *windows) run(ctx context.Context) error {
	cfg, err := w.config()
	if err != nil {
		return err
	}
	objects, err := managerObjects(cfg)
	if err != nil {
		return err
	}
	// What the manager may do, and where, is made with other rights than its own.
	loopback, err := w.server.api.client()
	if err != nil {
		return err
	}
	if err := bootstrap(ctx, loopback, objects); err != nil {
		return err
	}
	m, err := manager.New(cfg)
	if err != nil {
		return err
	}
	w.manager.Store(m)
	return m.Run(ctx)
}

func (w *windows) config() (manager.Config, error) {
	c := w.server.plan.Config
	rest, err := clientcmd.BuildConfigFromFlags("", plan.Kubeconfig(c, plan.Manager))
	if err != nil {
		return manager.Config{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	rest.QPS = -1 // no limit: it is our own server
	clientCA, err := os.ReadFile(plan.AdmissionClientCA(c))
	if err != nil {
		return manager.Config{}, fmt.Errorf("read the authority of the webhooks' clients: %w", err)
	}
	cfg := manager.Config{
		REST: rest, Listener: w.listener, URL: "https://" + plan.AdmissionAddress(c).String(), ClientCA: clientCA,
		Namespace: manager.DefaultNamespace, Registry: lookup.Config{CertsDir: registryCerts}, Log: w.server.log.With(logkey.Component, plan.Manager),
	}
	if c.WindowsTaint != "" {
		if cfg.WindowsTaint, err = policy.ParseWindowsTaint(c.WindowsTaint); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}

func (w *windows) isReady(ctx context.Context) error {
	m := w.manager.Load()
	if m == nil {
		return errors.New("the manager has not begun yet")
	}
	return m.Ready(ctx)
}

// managerObjects are the manager's namespace, its rights, and the definition of
// GMSACredentialSpec.
func managerObjects(c manager.Config) ([]plan.Object, error) {
	const name, rbac = "mullion:manager", "/apis/rbac.authorization.k8s.io/v1"
	crd, err := gmsa.CRD()
	if err != nil {
		return nil, err
	}
	space := "/namespaces/" + c.Namespace
	meta := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": "mullion"}}
	}
	kind := func(k string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: k}
	}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: pki.ManagerUser}}
	var out []plan.Object
	for _, x := range []struct {
		path   string
		object any
	}{
		{"/api/v1" + space, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
			"name": c.Namespace, "labels": map[string]string{"app.kubernetes.io/managed-by": "mullion"}}}},
		{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + gmsa.CRDName, crd},
		{rbac + "/clusterroles/" + name, rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: meta(""), Rules: c.ClusterRules()}},
		{rbac + "/clusterrolebindings/" + name, rbacv1.ClusterRoleBinding{TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: meta(""),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: subjects}},
		{rbac + space + "/roles/" + name, rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: meta(c.Namespace), Rules: c.NamespaceRules()}},
		{rbac + space + "/rolebindings/" + name, rbacv1.RoleBinding{TypeMeta: kind("RoleBinding"), ObjectMeta: meta(c.Namespace),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: subjects}},
	} {
		content, err := json.Marshal(x.object)
		if err != nil {
			return nil, fmt.Errorf("marshal %s: %w", x.path, err)
		}
		out = append(out, plan.Object{Path: x.path, Content: content})
	}
	return out, nil
}
