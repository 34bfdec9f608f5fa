// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package certpem_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/durable/certpem"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func TestCertificate(t *testing.T) {
	one, two := testenv.NewAuthority(t), testenv.NewAuthority(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := certpem.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := slices.Concat([]byte("# a comment\n"), keyPEM, one.PEM, two.PEM)
	c, err := certpem.Parse(file)
	if err != nil || !c.Equal(one.Certificate) || !bytes.Equal(certpem.Encode(c), one.PEM) {
		t.Errorf("certificate: %v", err)
	}
	k, err := certpem.ParseKey(file)
	if err != nil || !k.Equal(key) {
		t.Errorf("key: %v", err)
	}
	if b := certpem.Find(file, certpem.Key); b == nil || certpem.Find(file, "PUBLIC KEY") != nil {
		t.Errorf("block %v", b)
	}
	for _, bad := range [][]byte{nil, []byte("hello"), one.PEM[:200]} {
		if _, err := certpem.Parse(bad); err == nil || !strings.Contains(err.Error(), "no certificate") {
			t.Errorf("certificate in %.20q: %v", bad, err)
		}
		if _, err := certpem.ParseKey(bad); err == nil || !strings.Contains(err.Error(), "no key") {
			t.Errorf("key in %.20q: %v", bad, err)
		}
	}
	damaged := []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	if _, err := certpem.Parse(damaged); err == nil || !strings.Contains(err.Error(), "parse certificate") {
		t.Errorf("damaged: %v", err)
	}
}

func TestPin(t *testing.T) {
	one, two := testenv.NewAuthority(t), testenv.NewAuthority(t)
	pin := certpem.Pin(one.Certificate)
	if !certpem.ValidPin(pin) || pin == certpem.Pin(two.Certificate) {
		t.Errorf("pins %s, %s", pin, certpem.Pin(two.Certificate))
	}
	short := pin[:len(pin)-1]
	for _, bad := range []string{"", "sha256:", short, pin + "0", "md5:" + pin[7:], strings.ToUpper(pin),
		short + "g", pin[7:]} {
		if certpem.ValidPin(bad) {
			t.Errorf("%q is taken for a pin", bad)
		}
	}
	for _, tt := range []struct{ name, file, want string }{
		{"the pinned one", string(one.PEM), ""},
		{"another", string(two.PEM), "not the pinned one"},
		{"the pinned one and another", string(one.PEM) + string(two.PEM), "more than one"},
		{"no certificate", "hello", "no PEM certificate"},
		{"half a certificate", string(one.PEM[:200]), "no PEM certificate"},
	} {
		err := certpem.CheckPin([]byte(tt.file), pin)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
