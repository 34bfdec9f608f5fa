// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package join

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

const hashPrefix = "sha256:"

// CAHash is how people carry an authority from one machine to another: the hash
// of its public key, in the form of `kubeadm join --discovery-token-ca-cert-hash`.
func CAHash(caPEM []byte) (string, error) {
	certs, err := parseCerts(caPEM)
	if err != nil {
		return "", fmt.Errorf("hash authority: %w", err)
	}
	return hash(certs[0]), nil
}

func hash(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hashPrefix + hex.EncodeToString(sum[:])
}

func parseCerts(data []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate: %w", err)
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errors.New("no certificate in it")
	}
	return certs, nil
}

// FetchCA asks a server for its authority and believes it only if it has the
// given hash and has signed the server's certificate for this very address. Our
// API server sends the authority along for that purpose.
func FetchCA(ctx context.Context, server, want string) (caPEM []byte, err error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("fetch authority: %q is not https://HOST:PORT", server)
	}
	if raw, ok := strings.CutPrefix(want, hashPrefix); !ok || len(raw) != hex.EncodedLen(sha256.Size) {
		return nil, errors.New("fetch authority: the hash must be sha256: and 64 hexadecimal digits")
	}
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "443")
	}
	verify := func(cs tls.ConnectionState) error {
		var err error
		caPEM, err = pick(cs.PeerCertificates, u.Hostname(), want)
		return err
	}
	// Ordinary verification needs the authority that is being looked for;
	// VerifyConnection takes its place, on every connection.
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, VerifyConnection: verify, ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("fetch authority of %s: %w", server, err)
	}
	// Nothing was sent over it.
	_ = conn.Close()
	return caPEM, nil
}

// pick finds the authority with the hash in a server's chain.
func pick(chain []*x509.Certificate, host, want string) ([]byte, error) {
	if len(chain) == 0 {
		return nil, errors.New("the server sent no certificate")
	}
	for _, c := range chain[1:] {
		if subtle.ConstantTimeCompare([]byte(hash(c)), []byte(want)) != 1 {
			continue
		}
		roots := x509.NewCertPool()
		roots.AddCert(c)
		if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			return nil, fmt.Errorf("the authority has not signed the server's certificate: %w", err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}), nil
	}
	return nil, fmt.Errorf("no authority with the hash %s: this is another cluster, or somebody is posing as it", want)
}

// normalise drops everything but certificates from PEM data.
func normalise(caPEM []byte) ([]byte, error) {
	certs, err := parseCerts(caPEM)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, c := range certs {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return b.Bytes(), nil
}
