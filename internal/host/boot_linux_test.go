// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReadSecrets(t *testing.T) {
	dir := t.TempDir()
	ca, token := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "token")
	if _, _, err := readSecrets(ca, token); err == nil {
		t.Error("no error without a certificate")
	}
	if err := os.WriteFile(ca, []byte("certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"", token} {
		if c, tok, err := readSecrets(ca, file); string(c) != "certificate" || tok != "" || err != nil {
			t.Errorf("token file %q: %q, %q, %v", file, c, tok, err)
		}
	}
	if err := os.WriteFile(token, []byte("abcdef.0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, tok, err := readSecrets(ca, token); tok != "abcdef.0123456789abcdef" || err != nil {
		t.Errorf("%q, %v", tok, err)
	}
	if _, _, err := readSecrets(ca, dir); err == nil {
		t.Error("no error for a token that cannot be read")
	}
}
