// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package registry connects to registries of container images: it decides which
// certificates are trusted, where plain HTTP is spoken, and which names mean the
// same registry or image. Packages that import it choose the requests; package
// lookup below it requests the platforms of images.
package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// dialTimeout and tlsTimeout are the values of containerd's default
	// transport (core/remotes/docker/config/hosts.go).
	dialTimeout = 30 * time.Second
	tlsTimeout  = 10 * time.Second
	// maxHeader bounds the headers of an answer, in bytes. Registries send a
	// few kB; net/http's own bound is 10 MB.
	maxHeader = 256 << 10
)

// Config configures how registries are reached.
type Config struct {
	// CertsDir has certificate authorities and client certificates, as containerd's
	// certs.d: ca.crt for all registries; HOST/ca.crt, HOST/client.cert and
	// HOST/client.key for one. They are used in addition to the system's. "" means
	// only the system's.
	CertsDir string
	// Insecure lists registries (host or host:port) that may be accessed over
	// plain HTTP. Registries on a loopback address always may.
	Insecure []string
	// Dial makes connections; nil means the usual way.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// HeaderTimeout bounds the time until an answer begins; 0 means no bound.
	HeaderTimeout time.Duration
	// IdlePerHost is how many connections to a host are kept; 0 means net/http's
	// default.
	IdlePerHost int
}

// Transport returns the HTTP transport for one registry, "host" or "host:port".
// It uses the proxy of the environment. CloseIdleConnections of an http.Client
// works with it.
func Transport(host string, c Config) (http.RoundTripper, error) {
	tlsConfig, err := c.tls(host)
	if err != nil {
		return nil, err
	}
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	return &guard{insecure: c.Insecure, Transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dial,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    tlsTimeout,
		ResponseHeaderTimeout:  c.HeaderTimeout,
		MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    c.IdlePerHost,
		IdleConnTimeout:        dialTimeout,
		// Manifests and blobs are compared with digests of their bytes as sent; and
		// a small body may not become a large one.
		DisableCompression: true,
	}}, nil
}

// tls reads the registry's directory in CertsDir.
func (c Config) tls(host string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CertsDir == "" {
		return cfg, nil
	}
	for _, dir := range []string{c.CertsDir, filepath.Join(c.CertsDir, filepath.Base(host))} {
		pem, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read certificate authority: %w", err)
		}
		if cfg.RootCAs == nil {
			// In addition to the system's authorities, not instead of them.
			if cfg.RootCAs, err = x509.SystemCertPool(); err != nil {
				cfg.RootCAs = x509.NewCertPool()
			}
		}
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read certificate authority: %s has no certificate", filepath.Join(dir, "ca.crt"))
		}
	}
	dir := filepath.Join(c.CertsDir, filepath.Base(host))
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.cert"), filepath.Join(dir, "client.key"))
	if err == nil {
		cfg.Certificates = []tls.Certificate{pair}
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read client certificate: %w", err)
	}
	return cfg, nil
}

// guard refuses plain HTTP to any host that is not on a loopback address or
// named insecure. Client libraries allow it for private addresses too.
type guard struct {
	insecure []string
	*http.Transport
}

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !Loopback(req.URL.Hostname()) && !slices.Contains(g.insecure, req.URL.Host) {
		return nil, fmt.Errorf("refuse plain HTTP to registry %s", req.URL.Host)
	}
	return g.Transport.RoundTrip(req)
}

// Loopback reports whether the name of a host, without a port, denotes this
// machine.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// Host returns the host of a registry's address, with its port if it has one.
// The address may be a URL. Docker Hub has several names and becomes
// "docker.io".
func Host(address string) string {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	switch u.Host {
	case "index.docker.io", "registry-1.docker.io":
		return "docker.io"
	}
	return u.Host
}
