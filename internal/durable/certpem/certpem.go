// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package certpem makes certificates, reads and writes them and their keys as PEM text, and
// computes the hash that pins a certificate authority. The control plane and the
// manager write them, and nodes read them.
package certpem

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// Pair is a certificate with its key.
type Pair struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// NewKey makes a key.
func NewKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return key, nil
}

// Sign makes a key and a certificate for it. Without an authority the certificate signs itself.
func Sign(t *x509.Certificate, authority *Pair) (Pair, error) {
	key, err := NewKey()
	if err != nil {
		return Pair{}, err
	}
	by := Pair{t, key}
	if authority != nil {
		by = *authority
	}
	// A nil SerialNumber makes CreateCertificate choose a random one (RFC 5280).
	der, err := x509.CreateCertificate(rand.Reader, t, by.Cert, key.Public(), by.Key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign certificate %q: %w", t.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	return Pair{cert, key}, err
}

// Types of PEM blocks.
const (
	Certificate = "CERTIFICATE"
	// Key is the SEC 1 form, not PKCS #8: Kubernetes' keyutil reads both and writes
	// SEC 1.
	Key = "EC PRIVATE KEY"
)

// Find returns the first block of a type, or nil.
func Find(data []byte, kind string) *pem.Block {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == kind {
			return block
		}
	}
	return nil
}

// Parse returns the first certificate.
func Parse(data []byte) (*x509.Certificate, error) {
	block := Find(data, Certificate)
	if block == nil {
		return nil, errors.New("no certificate in it")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", err)
	}
	return c, nil
}

// Encode is the inverse of Parse.
func Encode(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: Certificate, Bytes: c.Raw})
}

// ParseKey returns the first key.
func ParseKey(data []byte) (*ecdsa.PrivateKey, error) {
	block := Find(data, Key)
	if block == nil {
		return nil, errors.New("no key in it")
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse key: %w", err)
	}
	return key, nil
}

// EncodeKey is the inverse of ParseKey.
func EncodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("marshal key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: Key, Bytes: der}), nil
}
