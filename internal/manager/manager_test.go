// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mullion-k8s/mullion/internal/manager/registration"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

type factsFunc func(context.Context, string, *policy.Parsed) (policy.Facts, []string)

func (f factsFunc) Facts(ctx context.Context, namespace string, object *policy.Parsed) (policy.Facts, []string) {
	return f(ctx, namespace, object)
}

// clientCA is an authority of clients and a certificate that it has signed.
func clientCA(t *testing.T) ([]byte, tls.Certificate) {
	t.Helper()
	ca := testenv.NewAuthority(t)
	return ca.PEM, ca.Issue(t, x509.Certificate{Subject: pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// start runs a manager against an API server that is only in memory.
func start(t testing.TB, client *fake.Clientset, edit func(*Config)) (*Manager, func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		REST: &rest.Config{}, Listener: l, URL: "https://" + l.Addr().String(), Log: slog.New(slog.DiscardHandler),
		Facts: factsFunc(func(context.Context, string, *policy.Parsed) (policy.Facts, []string) {
			return policy.Facts{Kubernetes: 36,
				Nodes: []policy.Node{{Name: "l", OS: "linux"}, {Name: "w", OS: "windows"}}}, nil
		}),
	}
	if edit != nil {
		edit(&c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	m, err := assemble(c.withDefaults(), client, dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the manager does not stop")
		}
	}
	t.Cleanup(stop)
	deadline := time.Now().Add(time.Minute)
	for err := m.Ready(ctx); err != nil; err = m.Ready(ctx) {
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return m, stop
}

// bundle holds the authorities that the API server would trust.
func bundle(t testing.TB, client *fake.Clientset) *x509.CertPool {
	t.Helper()
	hooks, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), registration.Name,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(hooks.Webhooks[0].ClientConfig.CABundle) {
		t.Fatal("no bundle")
	}
	return pool
}

func ask(t *testing.T, url string, c *tls.Config) (string, error) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true},
		Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1",` +
		`"kind":{"kind":"Pod"},"operation":"CREATE","object":{"apiVersion":"v1","kind":"Pod","metadata":{},` +
		`"spec":{"containers":[{"name":"c","image":"app"}]}}}}`
	resp, err := client.Post(url+registration.PlacementPath+"?timeout=2s", "application/json", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(resp.StatusCode, " ", resp.Proto, " ", string(out)), nil
}

// TestOverTLS asks as the API server does, and as others might.
func TestOverTLS(t *testing.T) {
	ca, cert := clientCA(t)
	client := fake.NewClientset()
	m, stop := start(t, client, func(c *Config) { c.ClientCA = ca })
	roots := bundle(t, client)
	url := m.cfg.URL
	got, err := ask(t, url, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}})
	if err != nil || !strings.HasPrefix(got, "200 HTTP/1.1") ||
		!strings.Contains(got, `"uid":"u-1","allowed":true,"patch":`) {
		t.Errorf("%v %s", err, got)
	}
	_, other := clientCA(t)
	for name, c := range map[string]*tls.Config{
		"no client certificate":      {RootCAs: roots},
		"another client certificate": {RootCAs: roots, Certificates: []tls.Certificate{other}},
		"TLS 1.2": {RootCAs: roots, Certificates: []tls.Certificate{cert},
			MaxVersion: tls.VersionTLS12},
		"another authority": {RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{cert}},
		"another name":      {RootCAs: roots, Certificates: []tls.Certificate{cert}, ServerName: "other.example"},
	} {
		if got, err := ask(t, url, c); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
	stop()
	if _, err := ask(t, url, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}}); err == nil {
		t.Error("a stopped manager answers")
	}
	if _, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), registration.Name,
		metav1.GetOptions{}); err != nil {
		t.Errorf("the registration went with the manager: %v", err)
	}
}

// TestNextManager: it goes on with the certificates of the one before.
func TestNextManager(t *testing.T) {
	client := fake.NewClientset()
	_, stop := start(t, client, nil)
	roots := bundle(t, client)
	stop()
	m, _ := start(t, client, nil)
	if got, err := ask(t, m.cfg.URL, &tls.Config{RootCAs: roots}); err != nil {
		t.Errorf("%v %s", err, got)
	}
}

// TestLeaseIsGivenBackFirst: a leader that is asked to stop lets the next one
// begin before its webhooks end, and not before its controllers have ended.
func TestLeaseIsGivenBackFirst(t *testing.T) {
	client := fake.NewClientset()
	var m *Manager
	var given, answered atomic.Bool
	client.PrependReactor("update", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
		lease, ok := a.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
		if ok && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == "" {
			given.Store(true)
			answered.Store(m.dial(context.Background(), m.cfg.address(), m.keeper.Bundle()) == nil)
		}
		return false, nil, nil
	})
	var log testenv.Buffer
	m, stop := start(t, client, func(c *Config) {
		c.LeaderElection, c.Log = true, slog.New(slog.NewTextHandler(&log, nil))
	})
	testenv.Until(t, "the lease", func() bool { return strings.Contains(log.String(), "leading") })
	stop()
	if !given.Load() || !answered.Load() {
		t.Errorf("given back %t, webhooks answered then %t\n%s", given.Load(), answered.Load(), log.String())
	}
}

// TestLeaving: behind a Service a server goes on for a moment after it was asked
// to stop, for those who have not heard of it, and each answer closes its
// connection.
func TestLeaving(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := &http.Server{Handler: closeOnStop(ctx, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})),
		ReadHeaderTimeout: headerLimit}
	ended := make(chan error, 1)
	go func() { ended <- serveUntil(ctx, server, func() error { return server.Serve(l) }, true) }()
	for _, closes := range []bool{false, true, true} {
		resp, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // it has none
		if resp.Close != closes {
			t.Errorf("the connection is closed: %t, want %t", resp.Close, closes)
		}
		cancel()
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestHealth: a kubelet asks without a certificate.
func TestHealth(t *testing.T) {
	ca, _ := clientCA(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	start(t, fake.NewClientset(), func(c *Config) { c.ClientCA, c.Health = ca, address })
	codes(t, address, map[string]int{"/livez": 200, "/readyz": 200, "/": 404, "/placement": 404})
}

// codes asks for paths without TLS and wants these codes.
func codes(t *testing.T, address string, want map[string]int) {
	t.Helper()
	for path, code := range want {
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // only the code matters
		if resp.StatusCode != code {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

// TestPortInUse: errors that retrying cannot fix are returned.
func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := Config{
		REST:   &rest.Config{},
		Listen: l.Addr().String(),
		URL:    "https://" + l.Addr().String(),
		Log:    slog.New(slog.DiscardHandler),
	}
	if err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	good := func() Config {
		return Config{
			REST:   &rest.Config{},
			Listen: ":0",
			URL:    "https://127.0.0.1:9443",
			Log:    slog.New(slog.DiscardHandler),
		}
	}
	for name, edit := range map[string]func(*Config){
		"no configuration of a client": func(c *Config) { c.REST = nil },
		"no log":                       func(c *Config) { c.Log = nil },
		"either an address to listen":  func(c *Config) { c.Listen = "" },
		"no certificate in PEM":        func(c *Config) { c.ClientCA = []byte("x") },
		"either a URL or a Service":    func(c *Config) { c.URL = "" },
		"want Ignore or Fail":          func(c *Config) { c.RulesFailurePolicy = "x" },
		"want linux or windows":        func(c *Config) { c.DefaultOS = "plan9" },
	} {
		c := good()
		edit(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := good().Validate(); err != nil {
		t.Error(err)
	}
}

// TestRights: no rule of the manager's is wider than a name where there is one.
func TestRights(t *testing.T) {
	c := Config{OwnerClusterRole: "mullion", LeaderElection: true}
	for _, r := range append(c.ClusterRules(), c.NamespaceRules()...) {
		for _, list := range [][]string{r.APIGroups, r.Resources, r.Verbs} {
			for _, s := range list {
				if s == "*" {
					t.Errorf("%+v", r)
				}
			}
		}
	}
}

// TestLogsHoldNoKeys: nothing of the certificates' keys is logged.
func TestLogsHoldNoKeys(t *testing.T) {
	var log bytes.Buffer
	client := fake.NewClientset()
	_, stop := start(t, client, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	stop()
	if strings.Contains(log.String(), "PRIVATE KEY") || log.Len() == 0 {
		t.Errorf("%s", &log)
	}
}
