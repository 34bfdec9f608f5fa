// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package nodeapi

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCheckToken: a token is known when the server answers, be it with a refusal of the request.
func TestCheckToken(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer abcdef.0123456789abcdef" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for _, c := range []struct {
		status      int
		token, want string
	}{
		{http.StatusOK, "abcdef.0123456789abcdef", ""},
		{http.StatusForbidden, "abcdef.0123456789abcdef", ""},
		{http.StatusOK, "abcdef.ffffffffffffffff", "does not know the bootstrap token yet"},
		{http.StatusServiceUnavailable, "abcdef.0123456789abcdef", "503"},
	} {
		status = c.status
		err := CheckToken(context.Background(), server.URL, ca, c.token)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("status %d, token %s: %v, want %q", c.status, c.token, err, c.want)
		}
	}
	if err := CheckToken(context.Background(), server.URL, []byte("no certificate"), "x"); err == nil {
		t.Error("a CA without a certificate is accepted")
	}
	server.Close()
	if err := CheckToken(context.Background(), server.URL, ca, "abcdef.0123456789abcdef"); err == nil {
		t.Error("no server, no error")
	}
}
