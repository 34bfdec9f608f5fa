// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/durable/certpem"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// fakeAPI is the part of an API server that the agent uses, over TLS with
// client certificates. It answers with Kubernetes' status documents.
type fakeAPI struct {
	t      *testing.T
	node   string
	ca     *testenv.Authority
	server *httptest.Server

	mu      sync.Mutex
	version int      // of the node
	podCIDR string   // "" means that the node does not exist
	ipv6    string   // pod range of IPv6, if any
	pods    string   // of the node, as items of a list
	deleted []string // paths
	events  []string // messages
	uid     string
	ready   bool
	broken  bool
	tooOld  bool // every watch is refused
	reads   int  // of the node
	// lists has the items of a list by the last part of its path. A watch is refused, so
	// that the agent lists again.
	lists map[string]string
}

func newFakeAPI(t *testing.T, node string) *fakeAPI {
	t.Helper()
	a := &fakeAPI{t: t, node: node, ca: testenv.NewAuthority(t)}
	pair := a.pair("127.0.0.1", time.Now().Add(time.Hour))
	clients := x509.NewCertPool()
	clients.AddCert(a.ca.Certificate)
	a.server = httptest.NewUnstartedServer(a)
	a.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients,
		ClientAuth: tls.RequireAndVerifyClientCert}
	a.server.StartTLS()
	t.Cleanup(a.server.Close)
	return a
}

func (a *fakeAPI) url() string { return a.server.URL }

func (a *fakeAPI) pin() string { return certpem.Pin(a.ca.Certificate) }

func (a *fakeAPI) pair(name string, until time.Time) tls.Certificate {
	return a.ca.Issue(a.t, x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	})
}

// issue returns a certificate and its key in a file.
func (a *fakeAPI) issue(name string, until time.Time) []byte {
	pair := a.pair(name, until)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	return append(cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
}

func (a *fakeAPI) setNode(podCIDR string, ready bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.podCIDR, a.ready = podCIDR, ready
	a.version++
}

// setIPv6 gives the node a pod range of IPv6.
func (a *fakeAPI) setIPv6(podCIDR string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ipv6 = podCIDR
	a.version++
}

// setPods sets the items of the list of the node's pods.
func (a *fakeAPI) setPods(items string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pods = items
}

// deletions lists the paths of the objects that were deleted.
func (a *fakeAPI) deletions() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.deleted)
}

// warnings lists the events that were recorded.
func (a *fakeAPI) warnings() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events)
}

// podCIDRs is called with mu held.
func (a *fakeAPI) podCIDRs() []string {
	if a.ipv6 == "" {
		return []string{a.podCIDR}
	}
	return []string{a.podCIDR, a.ipv6}
}

// setUID makes the node another object.
func (a *fakeAPI) setUID(uid string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.uid = uid
	a.version++
}

// setList sets the items of a list; the first one lets all lists be read.
func (a *fakeAPI) setList(kind, items string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lists == nil {
		a.lists = map[string]string{}
	}
	a.lists[kind] = items
}

func (a *fakeAPI) down(broken bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = broken
}

// nodes is called with mu held.
func (a *fakeAPI) nodes() []any {
	if a.podCIDR == "" {
		return []any{}
	}
	ready := map[bool]string{true: "True", false: "False"}[a.ready]
	return []any{map[string]any{
		"metadata": map[string]any{"uid": a.uid},
		"spec":     map[string]any{"podCIDR": a.podCIDR, "podCIDRs": a.podCIDRs()},
		"status":   map[string]any{"conditions": []any{map[string]string{"type": "Ready", "status": ready}}}}}
}

// watch answers when the node is of another version than the client knows.
func (a *fakeAPI) watch(w http.ResponseWriter, r *http.Request) {
	if got := r.URL.Query().Get("fieldSelector"); got != "metadata.name="+a.node {
		a.t.Errorf("a node watches %q", got)
	}
	for r.Context().Err() == nil {
		a.mu.Lock()
		if a.tooOld {
			a.mu.Unlock()
			answer(w, http.StatusOK, map[string]any{"type": "ERROR", "object": map[string]any{"kind": "Status",
				"code": http.StatusGone, "message": "too old resource version: 5 (9)"}})
			return
		}
		version := strconv.Itoa(a.version)
		a.mu.Unlock()
		if version != r.URL.Query().Get("resourceVersion") {
			answer(w, http.StatusOK, map[string]string{"type": "MODIFIED"})
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/api/v1/nodes" && r.FormValue("watch") != "" {
		a.watch(w, r)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := r.TLS.PeerCertificates[0].Subject.CommonName; got != "system:node:"+a.node {
		a.t.Errorf("request by %q", got)
	}
	switch {
	case a.broken:
		answer(w, http.StatusServiceUnavailable, map[string]string{"message": "etcd is down"})
	case r.URL.Path == "/api/v1/nodes" && r.FormValue("fieldSelector") == "metadata.name="+a.node:
		a.reads++
		answer(w, http.StatusOK, map[string]any{
			"metadata": map[string]any{"resourceVersion": strconv.Itoa(a.version)}, "items": a.nodes()})
	case r.URL.Path == "/api/v1/pods" && r.FormValue("fieldSelector") == "spec.nodeName="+a.node:
		answer(w, http.StatusOK, map[string]any{"items": json.RawMessage("[" + a.pods + "]")})
	case r.Method == http.MethodPost && r.URL.Path == "/api/v1/namespaces/default/events":
		var e struct{ Reason, Type, Message string }
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			a.t.Error(err)
		}
		a.events = append(a.events, e.Type+" "+e.Reason+": "+e.Message)
		answer(w, http.StatusCreated, map[string]string{"kind": "Event"})
	case r.Method == http.MethodDelete:
		a.deleted = append(a.deleted, r.URL.Path)
		answer(w, http.StatusOK, map[string]string{"kind": "Pod"})
	case a.lists != nil && r.FormValue("watch") != "":
		answer(w, http.StatusGone, map[string]string{"message": "too old"})
	case a.lists != nil && strings.HasSuffix(r.URL.Path, "s"):
		answer(w, http.StatusOK, map[string]any{
			"items": json.RawMessage("[" + a.lists[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]] + "]"),
		})
	default:
		answer(w, http.StatusNotFound, map[string]string{"message": r.URL.Path + " not found"})
	}
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
