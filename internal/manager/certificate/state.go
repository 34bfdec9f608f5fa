// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package certificate

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/mullion-k8s/mullion/internal/durable/certpem"
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

type pair = certpem.Pair

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
	for _, c := range []*x509.Certificate{s.ca.Cert, s.next.Cert, s.old} {
		if c != nil {
			out = append(out, certpem.Encode(c)...)
		}
	}
	return out
}

// tls returns the serving certificate.
func (s state) tls() *tls.Certificate {
	if s.serving.Cert == nil {
		return nil
	}
	return &tls.Certificate{Certificate: [][]byte{s.serving.Cert.Raw}, PrivateKey: s.serving.Key, Leaf: s.serving.Cert}
}

// equal reports whether both hold the same certificates.
func (s state) equal(o state) bool {
	return same(s.serving.Cert, o.serving.Cert) && same(s.ca.Cert, o.ca.Cert) && same(s.next.Cert, o.next.Cert) &&
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
		if p.pair.Cert == nil {
			continue
		}
		key, err := certpem.EncodeKey(p.pair.Key)
		if err != nil {
			return nil, err
		}
		out[p.cert], out[p.key] = certpem.Encode(p.pair.Cert), key
	}
	if s.old != nil {
		out[keyOldCert] = certpem.Encode(s.old)
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
		if s.old, err = certpem.Parse(data[keyOldCert]); err != nil {
			return state{}, fmt.Errorf("read %s: %w", keyOldCert, err)
		}
	}
	if !s.ca.Cert.IsCA || s.next.Cert != nil && !s.next.Cert.IsCA {
		return state{}, fmt.Errorf("read %s: it is not the certificate of an authority", keyCACert)
	}
	if err := s.serving.Cert.CheckSignatureFrom(s.ca.Cert); err != nil {
		return state{}, fmt.Errorf("read %s: not signed by %s: %w", keyServingCert, keyCACert, err)
	}
	return s, nil
}

func parsePair(data map[string][]byte, certName, keyName string) (pair, error) {
	cert, err := certpem.Parse(data[certName])
	if err != nil {
		return pair{}, fmt.Errorf("read %s: %w", certName, err)
	}
	key, err := certpem.ParseKey(data[keyName])
	if err != nil {
		return pair{}, fmt.Errorf("read %s: %w", keyName, err)
	}
	if public, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !key.PublicKey.Equal(public) {
		return pair{}, fmt.Errorf("read %s: the key does not belong to %s", keyName, certName)
	}
	return pair{Cert: cert, Key: key}, nil
}
