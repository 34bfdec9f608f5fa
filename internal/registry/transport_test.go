// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package registry

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHost(t *testing.T) {
	for address, want := range map[string]string{
		"example.com": "example.com", "example.com:5000/a": "example.com:5000",
		"https://example.com/v1/": "example.com", "docker.io": "docker.io", "https://index.docker.io/v1/": "docker.io",
		"registry-1.docker.io": "docker.io",
	} {
		if got := Host(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true,
		"localhost.evil": false, "10.0.0.1": false, "example.com": false, "": false} {
		if got := Loopback(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

func get(t *testing.T, host string, c Config, url string) error {
	t.Helper()
	tr, err := Transport(host, c)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: tr}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func TestPlainHTTP(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	if err := get(t, srv.Listener.Addr().String(), Config{}, srv.URL); err != nil {
		t.Errorf("loopback: %v", err)
	}
	if err := get(t, "example.com", Config{}, "http://example.com/"); err == nil ||
		!strings.Contains(err.Error(), "refuse plain HTTP to registry example.com") {
		t.Errorf("not allowed: %v", err)
	}
	toServer := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, srv.Listener.Addr().String())
	}
	if err := get(t, "example.com", Config{Insecure: []string{"example.com"}, Dial: toServer},
		"http://example.com/"); err != nil {
		t.Errorf("allowed: %v", err)
	}
}

func TestAuthorityThatIsNone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Transport("example.com", Config{CertsDir: dir}); err == nil ||
		!strings.Contains(err.Error(), "has no certificate") {
		t.Errorf("error %v", err)
	}
}
