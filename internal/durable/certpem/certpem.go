// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package certpem reads and writes certificates and their keys as PEM text, and
// computes the hash that pins a certificate authority. The control plane writes
// these files, and nodes read them.
package certpem

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

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
