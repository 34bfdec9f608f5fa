// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/mullion-k8s/mullion/internal/durable/certpem"
)

type pair = certpem.Pair

func marshalPublicKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("marshal public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

func parsePair(certPEM, keyPEM []byte) (pair, error) {
	cert, err := certpem.Parse(certPEM)
	if err != nil {
		return pair{}, err
	}
	key, err := certpem.ParseKey(keyPEM)
	if err != nil {
		return pair{}, err
	}
	if pub, ok := cert.PublicKey.(crypto.PublicKey).(*ecdsa.PublicKey); !ok || !pub.Equal(key.Public()) {
		return pair{}, errors.New("certificate and key do not belong together")
	}
	return pair{Cert: cert, Key: key}, nil
}

// selfSign makes an authority's certificate.
func selfSign(a Authority, now time.Time) (pair, error) {
	return certpem.Sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: a.CommonName},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		// An authority below this one is never wanted.
		MaxPathLenZero: true,
	}, nil)
}

// issue makes a leaf's certificate and a new key for it.
func issue(l Leaf, ca pair, now time.Time) (pair, error) {
	t := &x509.Certificate{
		Subject:   pkix.Name{CommonName: l.CommonName, Organization: l.Organizations},
		NotBefore: now.Add(-backdate),
		NotAfter:  now.Add(leafLife),
		KeyUsage:  x509.KeyUsageDigitalSignature,
		DNSNames:  l.Names,
	}
	if t.NotBefore.Before(ca.Cert.NotBefore) {
		t.NotBefore = ca.Cert.NotBefore
	}
	if t.NotAfter.After(ca.Cert.NotAfter) {
		t.NotAfter = ca.Cert.NotAfter
	}
	for _, a := range l.Addresses {
		t.IPAddresses = append(t.IPAddresses, net.IP(a.AsSlice()))
	}
	t.ExtKeyUsage = usages(l)
	return certpem.Sign(t, &ca)
}

func usages(l Leaf) []x509.ExtKeyUsage {
	var u []x509.ExtKeyUsage
	if len(l.Names)+len(l.Addresses) > 0 {
		u = append(u, x509.ExtKeyUsageServerAuth)
	}
	if l.Client {
		u = append(u, x509.ExtKeyUsageClientAuth)
	}
	return u
}

// outdated returns the reason why a leaf must be replaced, or "".
func outdated(l Leaf, p pair, ca pair, now time.Time) string {
	c := p.Cert
	switch {
	case c.CheckSignatureFrom(ca.Cert) != nil:
		return "another authority signed it"
	case now.Before(c.NotBefore):
		return "it is not valid yet"
	case now.After(c.NotAfter):
		return "it has expired"
	case now.Add(renewBefore).After(c.NotAfter) && c.NotAfter.Before(ca.Cert.NotAfter):
		return "it expires soon"
	case c.Subject.CommonName != l.CommonName || !slices.Equal(c.Subject.Organization, l.Organizations):
		return "it has another subject"
	case !slices.Equal(c.ExtKeyUsage, usages(l)):
		return "it is for another use"
	}
	want, err := issueNames(l)
	if err != nil || !slices.Equal(c.DNSNames, l.Names) || !slices.EqualFunc(c.IPAddresses, want, net.IP.Equal) {
		return "it is for other names or addresses"
	}
	return ""
}

func issueNames(l Leaf) ([]net.IP, error) {
	var ips []net.IP
	for _, a := range l.Addresses {
		if !a.IsValid() {
			return nil, errors.New("invalid address")
		}
		ips = append(ips, net.IP(a.AsSlice()))
	}
	return ips, nil
}
