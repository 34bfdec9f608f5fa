// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// fakeAPI is the part of an API server that the agent uses, over TLS with
// client certificates. It answers with Kubernetes' status documents.
type fakeAPI struct {
	t      *testing.T
	node   string
	caPEM  []byte
	ca     *x509.Certificate
	key    *ecdsa.PrivateKey
	server *httptest.Server

	mu      sync.Mutex
	podCIDR string // "" means that the node does not exist
	ready   bool
	broken  bool
	serial  int64
}

func newFakeAPI(t *testing.T, node string) *fakeAPI {
	t.Helper()
	a := &fakeAPI{t: t, node: node}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(10 * 365 * 24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.caPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pair, err := tls.X509KeyPair(a.pair("127.0.0.1", time.Now().Add(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(a.ca)
	a.server = httptest.NewUnstartedServer(a)
	a.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
	a.server.StartTLS()
	t.Cleanup(a.server.Close)
	return a
}

func (a *fakeAPI) url() string { return a.server.URL }

func (a *fakeAPI) pin() string {
	sum := sha256.Sum256(a.ca.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// pair makes a certificate and its key.
func (a *fakeAPI) pair(name string, until time.Time) (cert, key []byte) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.certify(name, k.Public(), until), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func (a *fakeAPI) issue(name string, until time.Time) []byte {
	cert, key := a.pair(name, until)
	return append(cert, key...)
}

func (a *fakeAPI) certify(name string, public any, until time.Time) []byte {
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(100 + a.serial), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.ca, public, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func (a *fakeAPI) setNode(podCIDR string, ready bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.podCIDR, a.ready = podCIDR, ready
}

func (a *fakeAPI) down(broken bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = broken
}

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := r.TLS.PeerCertificates[0].Subject.CommonName; got != "system:node:"+a.node {
		a.t.Errorf("request by %q", got)
	}
	switch {
	case a.broken:
		answer(w, http.StatusServiceUnavailable, map[string]string{"message": "etcd is down"})
	case r.URL.Path == "/api/v1/nodes/"+a.node && a.podCIDR != "":
		condition := map[string]string{"type": "Ready", "status": map[bool]string{true: "True", false: "False"}[a.ready]}
		answer(w, http.StatusOK, map[string]any{"spec": map[string]any{"podCIDR": a.podCIDR}, "status": map[string]any{"conditions": []any{condition}}})
	default:
		answer(w, http.StatusNotFound, map[string]string{"message": r.URL.Path + " not found"})
	}
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
