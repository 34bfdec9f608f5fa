// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package join

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mullion-k8s/mullion/internal/controlplane/approve"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func TestToken(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		tok := NewToken()
		if seen[tok.ID] {
			t.Errorf("ID %s twice", tok.ID)
		}
		seen[tok.ID] = true
		again, err := ParseToken(tok.Secret())
		if err != nil || again != tok {
			t.Fatalf("parse of %q: %v", tok.Secret(), err)
		}
		for _, s := range []string{tok.String(), fmt.Sprint(tok), fmt.Sprintf("%v %s", tok, tok)} {
			if strings.Contains(s, tok.secret) {
				t.Errorf("%q shows the secret", s)
			}
		}
	}
	for _, s := range []string{"", "abcdef", "abcdef.0123456789abcde", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcdef ", "abcdef-0123456789abcdef"} {
		if _, err := ParseToken(s); err == nil || (s != "" && strings.Contains(err.Error(), s)) {
			t.Errorf("%q: err = %v, want one that does not repeat it", s, err)
		}
	}
}

func TestRegister(t *testing.T) {
	client := fake.NewClientset()
	tok := NewToken()
	for range 2 { // twice is not an error
		if err := Register(t.Context(), client, tok, Options{Node: "win-1", TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := client.CoreV1().Secrets("kube-system").Get(t.Context(), "bootstrap-token-"+tok.ID, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Annotations[approve.NodeAnnotation] != "win-1" || s.StringData["token-secret"] != tok.secret || s.StringData["auth-extra-groups"] != plan.BootstrapGroup {
		t.Errorf("secret %+v", s)
	}
	for _, o := range []Options{{TTL: -time.Second}, {Node: "a b"}, {Node: "../x"}} {
		if err := Register(t.Context(), client, NewToken(), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if s, err := Secret(tok, Options{}, now); err != nil || s.StringData["expiration"] != "2026-01-01T01:00:00Z" {
		t.Errorf("default life: %v, %v", s.StringData["expiration"], err)
	}
}

// authority makes a CA and a server certificate of it for 127.0.0.1.
func authority(t *testing.T) (caPEM []byte, server tls.Certificate) {
	t.Helper()
	ca := testenv.NewAuthority(t)
	return ca.PEM, ca.Issue(t, x509.Certificate{IPAddresses: []net.IP{{127, 0, 0, 1}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
}

func serve(t *testing.T, cert tls.Certificate) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = nil
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func TestFetchCA(t *testing.T) {
	caPEM, cert := authority(t)
	otherPEM, otherCert := authority(t)
	want, err := CAHash(caPEM)
	if err != nil {
		t.Fatal(err)
	}
	got, err := FetchCA(t.Context(), serve(t, cert), want)
	if err != nil || string(got) != string(caPEM) {
		t.Errorf("%v, %s", err, got)
	}
	// Another cluster.
	if _, err := FetchCA(t.Context(), serve(t, otherCert), want); err == nil || !strings.Contains(err.Error(), "posing") {
		t.Errorf("another cluster: %v", err)
	}
	// The right authority beside a certificate that it has not signed.
	ours, _ := pem.Decode(caPEM)
	posing := tls.Certificate{Certificate: [][]byte{otherCert.Certificate[0], ours.Bytes}, PrivateKey: otherCert.PrivateKey}
	if _, err := FetchCA(t.Context(), serve(t, posing), want); err == nil || !strings.Contains(err.Error(), "has not signed") {
		t.Errorf("posing: %v", err)
	}
	// A certificate for another address.
	if _, err := FetchCA(t.Context(), strings.Replace(serve(t, cert), "127.0.0.1", "localhost", 1), want); err == nil {
		t.Error("another address: no error")
	}
	for _, bad := range []string{"", "sha256:", "sha256:00", "md5:" + strings.Repeat("0", 64)} {
		if _, err := FetchCA(t.Context(), "https://127.0.0.1:1", bad); err == nil || !strings.Contains(err.Error(), "hash") {
			t.Errorf("hash %q: %v", bad, err)
		}
	}
	if _, err := FetchCA(t.Context(), "http://127.0.0.1:1", want); err == nil {
		t.Error("http: no error")
	}
	if h, err := CAHash([]byte("x")); err == nil {
		t.Errorf("hash of nothing: %s", h)
	}
	if h, err := CAHash(otherPEM); err != nil || h == want {
		t.Errorf("hash %s, %v", h, err)
	}
}

func TestBootstrapKubeconfig(t *testing.T) {
	caPEM, _ := authority(t)
	tok := NewToken()
	data, err := BootstrapKubeconfig("https://10.89.0.1:6443", append([]byte("# noise\n"), caPEM...), tok)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://10.89.0.1:6443" || cfg.BearerToken != tok.Secret() || string(cfg.CAData) != string(caPEM) || cfg.Insecure {
		t.Errorf("config %+v", cfg)
	}
	for _, tc := range []struct{ server, ca string }{{"http://x", string(caPEM)}, {"https://", string(caPEM)}, {"https://x", "no"}} {
		if _, err := BootstrapKubeconfig(tc.server, []byte(tc.ca), tok); err == nil {
			t.Errorf("%v: no error", tc)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add("abcdef.0123456789abcdef")
	f.Fuzz(func(t *testing.T, s string) {
		if tok, err := ParseToken(s); err == nil && tok.Secret() != s {
			t.Errorf("%q became %q", s, tok.Secret())
		}
	})
}
