// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package certpem_test

import (
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/durable/certpem"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// FuzzPEM: the certificate that a machine is given with a pin is refused, unless it
// is the one of the pin; and what is read is the same when it is written and read.
func FuzzPEM(f *testing.F) {
	authority := testenv.NewAuthority(f)
	pem, pin := authority.PEM, certpem.Pin(authority.Certificate)
	for _, s := range []string{
		string(pem), "\ufeff" + string(pem), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"-----BEGIN EC PRIVATE KEY-----\n", "",
	} {
		f.Add([]byte(s), pin)
	}
	f.Add(pem, "sha256:"+strings.Repeat("0", 64))
	f.Add(pem, "")
	f.Fuzz(func(t *testing.T, data []byte, pin string) {
		c, err := certpem.Parse(data)
		if err == nil {
			again, err := certpem.Parse(certpem.Encode(c))
			if err != nil || !again.Equal(c) {
				t.Errorf("a certificate came back as another: %v", err)
			}
		}
		if certpem.CheckPin(data, pin) == nil && (c == nil || certpem.Pin(c) != pin || !certpem.ValidPin(pin)) {
			t.Errorf("accepted pin %q of %q", pin, data)
		}
		if key, err := certpem.ParseKey(data); err == nil {
			if _, err := certpem.EncodeKey(key); err != nil {
				t.Errorf("a key that was read cannot be written: %v", err)
			}
		}
	})
}
