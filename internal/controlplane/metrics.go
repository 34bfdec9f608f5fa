// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/metrics-server/cmd/metrics-server/app/options"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
)

// metricsServer runs metrics-server, which serves the metrics API.
type metricsServer struct {
	argv    []string
	address netip.AddrPort
	caFile  string
	// name is the one in its certificate.
	name string

	mu     sync.Mutex
	client *http.Client // guarded by mu
}

func newMetricsServer(c config.Config) *metricsServer {
	return &metricsServer{
		address: c.MetricsAddress,
		caFile:  c.ClusterCA(),
		name:    pki.MetricsServerName,
	}
}

// run is upstream's main program without its settings for logs, which are ours.
func (m *metricsServer) run(ctx context.Context) error {
	opts := options.NewOptions()
	if err := parse(opts.Flags(), m.argv); err != nil {
		return err
	}
	// It authenticates its callers by the certificate of kube-apiserver and needs no
	// token reviews.
	opts.Authentication.RemoteKubeConfigFileOptional = true
	if errs := append(opts.KubeletClient.Validate(), opts.GenericServerRunOptions.Validate()...); len(errs) > 0 {
		return fmt.Errorf("validate options: %w", utilerrors.NewAggregate(errs))
	}
	config, err := opts.ServerConfig()
	if err != nil {
		return fmt.Errorf("configure: %w", explain(m.address.String(), err))
	}
	server, err := config.Complete()
	if err != nil {
		return fmt.Errorf("create server: %w", err)
	}
	return server.RunUntil(ctx.Done())
}

// isReady checks that it responds. Its own readiness check requires metrics, and
// therefore nodes, which a cluster may not have.
func (m *metricsServer) isReady(ctx context.Context) error {
	client, err := m.checker()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+m.address.String()+"/livez", nil)
	if err != nil {
		return fmt.Errorf("query metrics-server: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("query metrics-server: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return fmt.Errorf("query metrics-server: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("query metrics-server: %s: %s", resp.Status, failedChecks(body))
	}
	return nil
}

func (m *metricsServer) checker() (*http.Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client != nil {
		return m.client, nil
	}
	data, err := os.ReadFile(m.caFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data) {
		return nil, errors.New("read certificate authority: " + m.caFile + " holds no certificate")
	}
	m.client = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: m.name, MinVersion: tls.VersionTLS12},
	}}
	return m.client, nil
}
