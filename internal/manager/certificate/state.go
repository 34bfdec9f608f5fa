// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package certificate

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// The keys of the Secret. Its type is kubernetes.io/tls, which requires the
// first two.
const (
	keyServingCert = "tls.crt"
	keyServingKey  = "tls.key"
	keyCACert      = "ca.crt"
	keyCAKey       = "ca.key"
	keyNextCert    = "next-ca.crt"
	keyNextKey     = "next-ca.key"
	keyOldCert     = "old-ca.crt"
)

// pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// state is the content of the Secret. The zero value means that it is empty.
type state struct {
	serving pair
	ca      pair              // signed serving
	next    pair              // trusted already; may be zero
	old     *x509.Certificate // trusted still; may be nil
}

// bundle returns, in PEM, the authorities that may have signed a serving
// certificate.
func (s state) bundle() []byte {
	var out []byte
	for _, c := range []*x509.Certificate{s.ca.cert, s.next.cert, s.old} {
		if c != nil {
			out = append(out, encodeCert(c)...)
		}
	}
	return out
}

// tls returns the serving certificate.
func (s state) tls() *tls.Certificate {
	if s.serving.cert == nil {
		return nil
	}
	return &tls.Certificate{Certificate: [][]byte{s.serving.cert.Raw}, PrivateKey: s.serving.key, Leaf: s.serving.cert}
}

// equal reports whether both hold the same certificates.
func (s state) equal(o state) bool {
	return same(s.serving.cert, o.serving.cert) && same(s.ca.cert, o.ca.cert) && same(s.next.cert, o.next.cert) &&
		same(s.old, o.old)
}

func same(a, b *x509.Certificate) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(b)
}

// data returns the data of the Secret.
func (s state) data() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, p := range []struct {
		cert, key string
		pair      pair
	}{{keyServingCert, keyServingKey, s.serving}, {keyCACert, keyCAKey, s.ca}, {keyNextCert, keyNextKey, s.next}} {
		if p.pair.cert == nil {
			continue
		}
		key, err := encodeKey(p.pair.key)
		if err != nil {
			return nil, err
		}
		out[p.cert], out[p.key] = encodeCert(p.pair.cert), key
	}
	if s.old != nil {
		out[keyOldCert] = encodeCert(s.old)
	}
	return out, nil
}

// parse reads a Secret's data. An empty Secret is an error too: the caller
// makes new certificates then.
func parse(data map[string][]byte) (state, error) {
	var s state
	var err error
	if s.serving, err = parsePair(data, keyServingCert, keyServingKey); err != nil {
		return state{}, err
	}
	if s.ca, err = parsePair(data, keyCACert, keyCAKey); err != nil {
		return state{}, err
	}
	if len(data[keyNextCert]) > 0 {
		if s.next, err = parsePair(data, keyNextCert, keyNextKey); err != nil {
			return state{}, err
		}
	}
	if len(data[keyOldCert]) > 0 {
		if s.old, err = parseCert(data[keyOldCert]); err != nil {
			return state{}, fmt.Errorf("read %s: %w", keyOldCert, err)
		}
	}
	if !s.ca.cert.IsCA || s.next.cert != nil && !s.next.cert.IsCA {
		return state{}, fmt.Errorf("read %s: it is not the certificate of an authority", keyCACert)
	}
	if err := s.serving.cert.CheckSignatureFrom(s.ca.cert); err != nil {
		return state{}, fmt.Errorf("read %s: not signed by %s: %w", keyServingCert, keyCACert, err)
	}
	return s, nil
}

func parsePair(data map[string][]byte, certName, keyName string) (pair, error) {
	cert, err := parseCert(data[certName])
	if err != nil {
		return pair{}, fmt.Errorf("read %s: %w", certName, err)
	}
	key, err := parseKey(data[keyName])
	if err != nil {
		return pair{}, fmt.Errorf("read %s: %w", keyName, err)
	}
	if public, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !key.PublicKey.Equal(public) {
		return pair{}, fmt.Errorf("read %s: the key does not belong to %s", keyName, certName)
	}
	return pair{cert, key}, nil
}

func parseCert(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no certificate in it")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", err)
	}
	return cert, nil
}

func parseKey(data []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "EC PRIVATE KEY" {
		return nil, errors.New("no key in it")
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse key: %w", err)
	}
	return key, nil
}

func encodeCert(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("marshal key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
