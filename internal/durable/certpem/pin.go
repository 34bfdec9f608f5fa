// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package certpem

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

const pinPrefix = "sha256:"

// Pin returns the hash of an authority's public key, which people copy from one
// machine to another. It has the form of kubeadm's --discovery-token-ca-cert-hash.
func Pin(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return pinPrefix + hex.EncodeToString(sum[:])
}

// ValidPin reports whether a text has the form of a pin: "sha256:" and 64
// hexadecimal digits in lower case.
func ValidPin(pin string) bool {
	digits, ok := strings.CutPrefix(pin, pinPrefix)
	_, err := hex.DecodeString(digits)
	return ok && err == nil && len(digits) == hex.EncodedLen(sha256.Size) && strings.ToLower(digits) == digits
}

// CheckPin makes sure that the file of an authority holds only the pinned certificate: a
// second certificate in the file would be trusted as well.
func CheckPin(data []byte, pin string) error {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != Certificate {
		return errors.New("the CA file holds no PEM certificate")
	}
	if more, _ := pem.Decode(rest); more != nil {
		return errors.New("the CA file holds more than one certificate")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("parse CA certificate: %w", err)
	}
	if got := Pin(c); subtle.ConstantTimeCompare([]byte(got), []byte(pin)) != 1 {
		return fmt.Errorf("the CA certificate is not the pinned one: it has hash %s, the configuration says %s", got,
			pin)
	}
	return nil
}
