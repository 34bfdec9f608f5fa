// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/certificate"
	"github.com/mullion-k8s/mullion/internal/manager/controller/runtimeclass"
	"github.com/mullion-k8s/mullion/internal/manager/gmsa"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/manager/otherwebhooks"
	"github.com/mullion-k8s/mullion/internal/manager/registration"
	"github.com/mullion-k8s/mullion/internal/manager/webhook"
	"github.com/mullion-k8s/mullion/internal/registry/lookup"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// The components of a manager, as they stand in its log.
const (
	componentPrepare      = "prepare"
	componentFacts        = "facts"
	componentOthers       = "other-webhooks"
	componentCertificates = "certificates"
	componentWebhooks     = "webhooks"
	componentRegistration = "registration"
	componentControllers  = "controllers"
	componentHealth       = "health"
	componentMetrics      = "metrics"
	componentMemory       = "memory"
)

const (
	// requestsPerSecond and burst: the manager's rate limit for the API server.
	// A pod with a GMSA costs two requests; controllers write on changes of
	// nodes only.
	requestsPerSecond = 50
	burst             = 100
	// userAgent is how audit logs name the manager.
	userAgent = "mullion-manager"
)

// Run runs a manager. It returns nil when the context is cancelled and
// everything has stopped.
func Run(ctx context.Context, c Config) error {
	m, err := New(c)
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// Manager is one manager.
type Manager struct {
	cfg      Config
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	facts    source
	keeper   *certificate.Keeper
	register *registration.Keeper
	others   *otherwebhooks.Watcher
	handler  http.Handler
	metrics  *metrics // nil if metrics are off
	leads    atomic.Bool

	mu     sync.Mutex
	status []supervise.Status // guarded by mu
}

// New checks the configuration and returns a Manager. It sends no request.
func New(c Config) (*Manager, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	typed, err := kubernetes.NewForConfig(clientConfig(c.REST, "application/vnd.kubernetes.protobuf"))
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	trees, err := dynamic.NewForConfig(clientConfig(c.REST, ""))
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return assemble(c, typed, trees)
}

// clientConfig is a copy of the configuration with the manager's own limits.
func clientConfig(c *rest.Config, contentType string) *rest.Config {
	out := rest.CopyConfig(c)
	out.QPS, out.Burst, out.UserAgent = requestsPerSecond, burst, userAgent
	if contentType != "" {
		out.ContentType, out.AcceptContentTypes = contentType, contentType+",application/json"
	}
	return out
}

// assemble puts the parts together; no part runs yet.
func assemble(c Config, client kubernetes.Interface, trees dynamic.Interface) (*Manager, error) {
	m := &Manager{cfg: c, client: client, dynamic: trees}
	host, err := c.host()
	if err != nil {
		return nil, err
	}
	var countLookup func(lookup.Outcome)
	if c.Metrics != "" {
		m.metrics = newMetrics(prometheus.NewRegistry(), metricsSource{leads: m.leads.Load, certificate: m.certificate})
		countLookup = m.metrics.countLookup
	}
	m.facts = newSource(c, client, countLookup)
	m.others = otherwebhooks.New(otherwebhooks.Config{
		Client:  client,
		Dynamic: trees,
		Labels:  m.facts.Labels,
		Own:     registration.Name,
		Log:     c.Log.With(logkey.Component, componentOthers),
	})
	m.register = registration.NewKeeper(registration.KeeperConfig{
		Client: client, Config: c.registration(), Owner: m.owner(), Answers: m.answers,
		Log: c.Log.With(logkey.Component, componentRegistration),
	})
	m.keeper = certificate.New(certificate.Config{
		Client:    client,
		Namespace: c.Namespace,
		Name:      inventory.Secret,
		Hosts:     []string{host},
		OnChange:  m.register.Trust,
		Owner:     m.owner(),
		Log:       c.Log.With(logkey.Component, componentCertificates),
	})
	server := webhook.NewServer(m.handlers(), c.Log.With(logkey.Component, componentWebhooks))
	if m.metrics != nil {
		server.Observe(m.metrics)
	}
	m.handler = server
	return m, nil
}

// certificate returns the certificate being served, or nil if there is no certificate yet.
func (m *Manager) certificate() *tls.Certificate {
	c, err := m.keeper.Certificate(nil)
	if err != nil {
		return nil
	}
	return c
}

// classesClient returns the client that may delete RuntimeClasses. It is nil if
// the webhooks do not authenticate their clients: only the API server may be
// able to request deletions.
func (m *Manager) classesClient() kubernetes.Interface {
	if m.cfg.ClientCA == nil {
		return nil
	}
	return m.client
}

func (m *Manager) handlers() map[string]webhook.Handler {
	log := m.cfg.Log.With(logkey.Component, componentWebhooks)
	judge := webhook.ValidateConfig{Admission: m.cfg.Admission}
	if !m.cfg.NoGMSA {
		judge.Waived = gmsa.WaivedRules()
	}
	place, validate := webhook.Place(m.facts, log), webhook.Validate(m.facts, judge, log)
	out := map[string]webhook.Handler{
		registration.RulesPath:   validate,
		registration.ClassesPath: runtimeclass.Claim(m.classesClient(), log),
	}
	if !m.cfg.NoGMSA {
		g := gmsa.Config{Cluster: gmsa.API{Dynamic: m.dynamic, Client: m.client}, RandomHostname: m.cfg.RandomHostname}
		place = gmsa.MutateThen(g, place)
		out[registration.MutateGMSAPath], out[registration.ValidateGMSAPath] = gmsa.Mutate(g), gmsa.Validate(g)
	}
	if m.cfg.registration().ValidatesWithPlacement() {
		place = webhook.PlaceThenValidate(place, validate, m.others.Alone)
	}
	out[registration.PlacementPath] = place
	return out
}

// Run runs the manager until the context is cancelled. Parts that end are
// started again; errors that a retry cannot resolve, such as a port in use by
// another program, are returned. Preconditions: once per Manager.
func (m *Manager) Run(ctx context.Context) error {
	webhooks, err := m.listen(ctx)
	if err != nil {
		return err
	}
	defer webhooks.Close()
	components := m.components(&endpoint{first: webhooks})
	if m.cfg.OwnProcess {
		components = append(components, supervise.Component{
			Name:  componentMemory,
			Needs: []string{componentFacts},
			Once:  true,
			Run:   m.collectSeldom,
		})
	}
	for _, p := range []struct {
		name, address string
		handler       func() http.Handler
	}{{componentHealth, m.cfg.Health, m.health}, {componentMetrics, m.cfg.Metrics, m.metricsHandler}} {
		if p.address == "" {
			continue
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", p.address)
		if err != nil {
			return fmt.Errorf("listen for %s: %w", p.name, err)
		}
		defer l.Close()
		at := &endpoint{first: l}
		components = append(components, supervise.Component{Name: p.name, Run: func(ctx context.Context) error {
			return servePlain(ctx, at, p.handler())
		}})
	}
	sup, err := supervise.New(supervise.Config{Components: components, Log: m.cfg.Log,
		OnChange: func(s []supervise.Status) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.status = slices.Clone(s)
		}})
	if err != nil {
		return err
	}
	return sup.Run(ctx)
}

// components returns the components in their order; see the package comment.
func (m *Manager) components(webhooks *endpoint) []supervise.Component {
	return []supervise.Component{
		{Name: componentPrepare, Once: true, Run: m.prepare},
		{Name: componentFacts, Run: m.facts.Run, Ready: func(context.Context) error {
			if !m.facts.Synced() {
				return errors.New("nodes and RuntimeClasses are not known yet")
			}
			return nil
		}},
		// No component waits for it: until it has synced, a webhook judges new pods.
		{Name: componentOthers, Run: m.others.Run},
		{Name: componentCertificates, Needs: []string{componentPrepare}, Run: m.keeper.Run,
			Ready: func(context.Context) error {
				if m.keeper.Bundle() == nil {
					return errors.New("there is no certificate yet")
				}
				return nil
			}},
		{Name: componentWebhooks, Needs: []string{componentCertificates}, Run: func(ctx context.Context) error {
			return m.serve(ctx, webhooks)
		},
			Ready: func(ctx context.Context) error {
				return m.dial(ctx, webhooks.first.Addr().String(), m.keeper.Bundle())
			}},
		{Name: componentRegistration, Needs: []string{componentWebhooks, componentFacts}, Run: m.register.Run,
			Ready: func(context.Context) error { return m.register.Registered() }},
		// Uses: they are stopped before the webhooks, which go on for a moment; the
		// next leader need not wait for that.
		{Name: componentControllers, Needs: []string{componentPrepare, componentFacts},
			Uses: []string{componentRegistration}, Run: m.lead},
	}
}

// Ready returns nil if the webhooks are registered and answer; otherwise the
// error describes the missing part.
func (m *Manager) Ready(context.Context) error {
	return m.is(componentFacts, componentWebhooks, componentRegistration)
}

// serving returns an error if the manager cannot answer reviews. It can before it is
// registered, and its Service must find it before that.
func (m *Manager) serving() error { return m.is(componentFacts, componentWebhooks) }

// is returns an error if one of the components is not ready.
func (m *Manager) is(names ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		i := slices.IndexFunc(m.status, func(s supervise.Status) bool { return s.Name == name })
		if i < 0 {
			return errors.New("the manager does not run")
		}
		if s := m.status[i]; s.State != supervise.Ready {
			if s.Message != "" {
				return fmt.Errorf("%s: %s: %s", name, s.State, s.Message)
			}
			return fmt.Errorf("%s: %s", name, s.State)
		}
	}
	return nil
}

// host returns the name for which the serving certificate is issued.
func (c Config) host() (string, error) {
	if c.URL == "" {
		return c.Service.Host(), nil
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return "", fmt.Errorf("address of the webhooks: %w", err)
	}
	return u.Hostname(), nil
}

// address is where the API server connects to.
func (c Config) address() string {
	if c.URL == "" {
		return net.JoinHostPort(c.Service.Host(), "443")
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return "" // Validate has refused it
	}
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return u.Host
}

// answers connects as the API server will.
func (m *Manager) answers(ctx context.Context, bundle []byte) error {
	return m.dial(ctx, m.cfg.address(), bundle)
}

// shutdown is how long requests that are in work may take after a stop; the
// API server waits no longer for placement.
const shutdown = 2 * time.Second
