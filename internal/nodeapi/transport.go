// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package nodeapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"time"
)

// dialLimit is the timeout of a connection attempt: the server is near, or away.
const dialLimit = 10 * time.Second

// Transport returns a transport that authenticates with the node's certificate in
// keyPair, to a server of the authority (PEM). It reads the file for each connection,
// because the kubelet renews it.
func Transport(authority []byte, keyPair string) (*http.Transport, error) {
	t, err := serverTransport(authority)
	if err != nil {
		return nil, err
	}
	t.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(keyPair, keyPair)
		return &cert, err
	}
	return t, nil
}

// serverTransport returns a transport to a server of the authority (PEM), without an identity.
func serverTransport(authority []byte) (*http.Transport, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("read CA certificate: no certificate found")
	}
	return &http.Transport{
		DialContext:       (&net.Dialer{Timeout: dialLimit}).DialContext,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		ForceAttemptHTTP2: false,
		MaxIdleConns:      1,
		// Longer than the interval between requests in a steady state, shorter than any
		// certificate's life.
		IdleConnTimeout: time.Minute,
	}, nil
}
