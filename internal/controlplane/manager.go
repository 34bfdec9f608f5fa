// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
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

// listenForAdmission opens the webhooks' port before the API server starts: objects that
// controllers create in the first moments wait there until the webhooks respond, instead
// of bypassing them.
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
	// The manager's roles and namespace are created with rights that the manager doesn't
	// have.
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
		REST:      rest,
		Listener:  w.listener,
		URL:       "https://" + plan.AdmissionAddress(c).String(),
		ClientCA:  clientCA,
		Namespace: inventory.Namespace,
		Admission: policy.Admission(c.Admission),
		Storage:   !c.NoStorage,
		Registry:  lookup.Config{CertsDir: registryCerts},
		Log:       w.server.log.With(logkey.Component, plan.Manager),
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

// managerObjects returns the manager's namespace, the definition of
// GMSACredentialSpec, and the manager's rights.
func managerObjects(c manager.Config) ([]plan.Object, error) {
	account := inventory.Manager{
		Name:           "mullion:manager",
		Namespace:      c.Namespace,
		Labels:         inventory.Labels(),
		Subject:        rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: pki.ManagerUser},
		ClusterRules:   c.ClusterRules(),
		NamespaceRules: c.NamespaceRules(),
	}
	space, err := inventory.Untyped(account.Space())
	if err != nil {
		return nil, err
	}
	crd, err := inventory.Definition(nil)
	if err != nil {
		return nil, err
	}
	all := []*unstructured.Unstructured{space, crd}
	objects := account.Rights()
	if c.Storage {
		objects = append(objects, inventory.Storage(inventory.Labels())...)
	}
	for _, right := range objects {
		u, err := inventory.Untyped(right)
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	var out []plan.Object
	for _, u := range all {
		content, err := u.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("marshal %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		out = append(out, plan.Object{Path: inventory.Path(u), Content: content})
	}
	return out, nil
}
