// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/mullion-k8s/mullion/internal/logkey"
)

const (
	// dialLimit bounds the question whether the webhooks answer.
	dialLimit = 2 * time.Second
	// headerLimit, bodyLimit, idleLimit: no client may hold a connection without use.
	// The API server sends a review in one go and keeps its connections. It closes
	// idle connections after 90 s (k8s.io/apimachinery pkg/util/net,
	// SetOldTransportDefaults); if the server closed them earlier, a review could be
	// lost with its connection.
	headerLimit = 5 * time.Second
	bodyLimit   = 15 * time.Second
	idleLimit   = 2 * time.Minute
	// maxHeader, in bytes: a review has a few hundred.
	maxHeader = 16 << 10
	// drain is how long a manager behind a Service continues to answer after
	// the signal to stop: clients continue to send for a moment.
	drain = 3 * time.Second
)

func (m *Manager) listen(ctx context.Context) (net.Listener, error) {
	if m.cfg.Listener != nil {
		return m.cfg.Listener, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", m.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for reviews: %w", err)
	}
	return l, nil
}

// tlsConfig: API servers speak TLS 1.3 since Kubernetes 1.19 was built with
// Go 1.15.
func (m *Manager) tlsConfig() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: m.keeper.Certificate}
	if m.cfg.ClientCA != nil {
		c.ClientCAs = x509.NewCertPool()
		c.ClientCAs.AppendCertsFromPEM(m.cfg.ClientCA) // Validate has read it
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c
}

// serve answers reviews until the context is cancelled, and then finishes the
// reviews in progress.
func (m *Manager) serve(ctx context.Context, d *endpoint) error {
	l, err := d.listener(ctx)
	if err != nil {
		return err
	}
	log := m.cfg.Log.With(logkey.Component, componentWebhooks)
	server := &http.Server{
		Handler:           closeOnStop(ctx, m.handler),
		TLSConfig:         m.tlsConfig(),
		ReadHeaderTimeout: headerLimit,
		ReadTimeout:       bodyLimit,
		WriteTimeout:      bodyLimit,
		IdleTimeout:       idleLimit,
		MaxHeaderBytes:    maxHeader,
		// HTTP/1.1: an API server then has a connection for each review that waits,
		// and no review waits behind another's frames; the slowest of a hundred
		// answers come a fifth sooner.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		// Failed handshakes of clients. The manager's own probe is one if clients
		// must present a certificate.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return serveUntil(ctx, server, func() error { return server.ServeTLS(l, "", "") }, m.cfg.URL == "")
}

// closeOnStop serves next and, once ctx is done, makes clients close the
// connection: an API server would send the next review over it, and it ends
// soon.
func closeOnStop(ctx context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ctx.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// endpoint is where a server listens. A server closes its listener when it ends;
// one that is started again opens another at the same address.
type endpoint struct {
	first net.Listener
	used  bool
}

func (d *endpoint) listener(ctx context.Context) (net.Listener, error) {
	if !d.used {
		d.used = true
		return d.first, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", d.first.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("listen again: %w", err)
	}
	return l, nil
}

// serveUntil runs a server until the context is cancelled.
func serveUntil(ctx context.Context, server *http.Server, serve func() error, behindService bool) error {
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	if behindService {
		time.Sleep(drain) // bounded; new requests are still answered
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close() // requests that still hang
	}
	return nil
}

// dial returns an error if no webhook with the right certificate answers at an address.
// It does not check client authentication: only the API server has a certificate.
func (m *Manager) dial(ctx context.Context, address string, bundle []byte) error {
	host, err := m.cfg.host()
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return errors.New("there is no certificate yet")
	}
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	d := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: host}}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", address, err)
	}
	return c.Close()
}

// health answers kubelets, which have no certificate for the webhooks.
func (m *Manager) health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := m.serving(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

// metricsHandler answers Prometheus.
func (m *Manager) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.metrics.handler())
	return mux
}

// servePlain answers without TLS until the context is cancelled.
func servePlain(ctx context.Context, d *endpoint, h http.Handler) error {
	l, err := d.listener(ctx)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerLimit,
		ReadTimeout:       headerLimit,
		WriteTimeout:      headerLimit,
		MaxHeaderBytes:    maxHeader,
	}
	return serveUntil(ctx, server, func() error { return server.Serve(l) }, false)
}
