// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/controlplane/token"
	"github.com/mullion-k8s/mullion/internal/durable/certpem"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestJoin does what a kubelet does to join, and what an intruder would try.
func TestJoin(t *testing.T) {
	s := controlplanetest.Run(t, nil)
	ctx := t.Context()
	caPEM, err := os.ReadFile(s.Config.ClusterCA())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("authority", func(t *testing.T) { sendsItsAuthority(t, s, caPEM) })

	bound := withToken(t, s, caPEM, "win-1")
	node, err := requestClient(ctx, t, bound, s, "win-1")
	if err != nil {
		t.Fatalf("join: %v", err)
	}
	t.Run("token", func(t *testing.T) {
		forbidden(t, "read secrets", func() error {
			_, err := bound.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
			return err
		})
		forbidden(t, "list nodes", func() error {
			_, err := bound.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			return err
		})
		if _, err := bound.CoreV1().ConfigMaps("kube-public").Get(ctx, "cluster-info",
			metav1.GetOptions{}); err != nil {
			t.Errorf("cluster-info: %v", err)
		}
		denied(t, ctx, bound, s, "win-2", "is for node win-1")
	})

	self := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1",
		Labels: map[string]string{corev1.LabelHostname: "win-1"}}}
	if _, err = node.CoreV1().Nodes().Create(ctx, self, metav1.CreateOptions{}); err != nil {
		t.Fatalf("register: %v", err)
	}
	t.Run("restriction", func(t *testing.T) { restriction(ctx, t, s, node) })
	t.Run("unbound token", func(t *testing.T) {
		unbound := withToken(t, s, caPEM, "")
		denied(t, ctx, unbound, s, "win-1", "exists already")
		if _, err := requestClient(ctx, t, unbound, s, "win-7"); err != nil {
			t.Errorf("new node: %v", err)
		}
	})
	t.Run("pod network", func(t *testing.T) {
		testenv.Eventually(t, "pod network of the node", func() error {
			n, err := node.CoreV1().Nodes().Get(ctx, "win-1", metav1.GetOptions{})
			if err == nil && n.Spec.PodCIDR != "10.244.0.0/24" {
				err = fmt.Errorf("it is %q", n.Spec.PodCIDR)
			}
			return err
		})
	})
	t.Run("serving", func(t *testing.T) {
		const addresses = `{"status":{"addresses":[{"type":"InternalIP","address":"10.89.0.10"},{"type":"Hostname",` +
			`"address":"win-1"}]}}`
		if _, err := node.CoreV1().Nodes().PatchStatus(ctx, "win-1", []byte(addresses)); err != nil {
			t.Fatal(err)
		}
		_, csr := newRequest(t, "win-1", []string{"win-1"}, net.IP{10, 89, 0, 10})
		if _, err := ask(ctx, node, csr, certv1.KubeletServingSignerName, certv1.UsageServerAuth); err != nil {
			t.Errorf("own address: %v", err)
		}
		_, csr = newRequest(t, "win-1", []string{"win-1"}, net.IP{10, 96, 0, 1})
		if _, err := ask(ctx, node, csr, certv1.KubeletServingSignerName, certv1.UsageServerAuth); err == nil ||
			!strings.Contains(err.Error(), "not an address for nodes") {
			t.Errorf("the API server's address: %v", err)
		}
		// Renewal of its own client certificate.
		_, csr = newRequest(t, "win-1", nil)
		if _, err := ask(ctx, node, csr, certv1.KubeAPIServerClientKubeletSignerName,
			certv1.UsageClientAuth); err != nil {
			t.Errorf("renewal: %v", err)
		}
	})
}

// restriction tries what a node must not do (NodeRestriction).
func restriction(ctx context.Context, t *testing.T, s *controlplanetest.Server, node *kubernetes.Clientset) {
	if _, err := s.Admin().CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(name, body string) func() error {
		return func() error {
			_, err := node.CoreV1().Nodes().Patch(ctx, name, "application/merge-patch+json", []byte(body),
				metav1.PatchOptions{})
			return err
		}
	}
	forbidden(t, "label another node", patch("other", `{"metadata":{"labels":{"x":"y"}}}`))
	forbidden(t, "label itself as restricted",
		patch("win-1", `{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"y"}}}`))
	forbidden(t, "take its taints away", patch("win-1", `{"spec":{"taints":[{"key":"x","effect":"NoSchedule"}]}}`))
	forbidden(t, "read any secret", func() error {
		_, err := node.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
		return err
	})
	if _, err := node.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("kube-proxy could not list endpoints: %v", err)
	}
}

func forbidden(t *testing.T, what string, do func() error) {
	t.Helper()
	if err := do(); !apierrors.IsForbidden(err) {
		t.Errorf("%s: err = %v, want it forbidden", what, err)
	}
}

// withToken makes a token and a client that has only that.
func withToken(t *testing.T, s *controlplanetest.Server, caPEM []byte, node string) *kubernetes.Clientset {
	t.Helper()
	tok, err := token.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := token.Register(t.Context(), s.Admin(), tok, token.Options{TTL: time.Minute, Node: node}); err != nil {
		t.Fatal(err)
	}
	client := controlplanetest.Client(t, &rest.Config{
		Host:            s.Config.LocalURL(),
		BearerToken:     tok.Secret(),
		TLSClientConfig: rest.TLSClientConfig{CAData: caPEM},
	})
	// The server reads tokens from a cache that follows their Secrets, so that a new
	// one may be unknown for a moment. A kubelet tries again, too.
	testenv.Eventually(t, "token known to the server", func() error {
		_, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
			&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		return err
	})
	return client
}

// sendsItsAuthority: a machine that knows only the authority's hash can find the
// authority in what the server sends.
func sendsItsAuthority(t *testing.T, s *controlplanetest.Server, caPEM []byte) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(caPEM)
	chain := served(t, s, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	if got := certpem.Encode(chain[len(chain)-1]); string(got) != string(caPEM) {
		t.Errorf("the last of %d certificates is not the authority's", len(chain))
	}
}

// served returns the certificates that the API server sends.
func served(t *testing.T, s *controlplanetest.Server, cfg *tls.Config) []*x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.Config.LocalURL(), "https://"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates
}

// newRequest makes a key and a certificate request of a node.
func newRequest(t testing.TB, node string, names []string, ips ...net.IP) (keyPEM, csrPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}, DNSNames: names,
		IPAddresses: ips}, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// ask files a request and waits for the certificate or the refusal.
func ask(ctx context.Context, c *kubernetes.Clientset, csrPEM []byte, signer string,
	usage certv1.KeyUsage) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	api := c.CertificatesV1().CertificateSigningRequests()
	csr, err := api.Create(ctx, &certv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec: certv1.CertificateSigningRequestSpec{
			Request: csrPEM, SignerName: signer, Usages: []certv1.KeyUsage{certv1.UsageDigitalSignature, usage}}},
		metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	for {
		if csr, err = api.Get(ctx, csr.Name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
		if len(csr.Status.Certificate) > 0 {
			return csr.Status.Certificate, nil
		}
		for _, cond := range csr.Status.Conditions {
			if cond.Type != certv1.CertificateApproved {
				return nil, errors.New(cond.Message)
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// requestClient joins and returns a client with the node's identity.
func requestClient(ctx context.Context, t *testing.T, c *kubernetes.Clientset, s *controlplanetest.Server,
	node string) (*kubernetes.Clientset, error) {
	key, csr := newRequest(t, node, nil)
	cert, err := ask(ctx, c, csr, certv1.KubeAPIServerClientKubeletSignerName, certv1.UsageClientAuth)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(&rest.Config{Host: s.Config.LocalURL(), QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: s.Config.ClusterCA(), CertData: cert, KeyData: key}})
}

func denied(t *testing.T, ctx context.Context, c *kubernetes.Clientset, s *controlplanetest.Server, node, why string) {
	t.Helper()
	if _, err := requestClient(ctx, t, c, s, node); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("join as %s: err = %v, want %q", node, err, why)
	}
}
