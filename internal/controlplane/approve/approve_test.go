// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package approve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func request(t testing.TB, edit func(*x509.CertificateRequest)) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	req := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:win-1",
		Organization: []string{"system:nodes"}}}
	if edit != nil {
		edit(req)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, req, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func joining(request []byte) *certv1.CertificateSigningRequest {
	return &certv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-1"},
		Spec: certv1.CertificateSigningRequestSpec{
			Request:    request,
			SignerName: certv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageClientAuth},
			Username:   "system:bootstrap:abcdef",
			Groups:     []string{"system:bootstrappers", "system:bootstrappers:mullion:nodes", "system:authenticated"},
		}}
}

func serving(request []byte) *certv1.CertificateSigningRequest {
	return &certv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-2"},
		Spec: certv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certv1.KubeletServingSignerName,
			Usages:   []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageServerAuth},
			Username: "system:node:win-1", Groups: []string{"system:nodes", "system:authenticated"},
		}}
}

func node(name, ip string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: ip}, {Type: corev1.NodeHostName, Address: name}}}}
}

// token returns a bootstrap token that is bound to a node, or to none.
func token(node string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef", Namespace: "kube-system"}}
	if node != "" {
		s.Annotations = map[string]string{NodeAnnotation: node}
	}
	return s
}

func facts(tok *corev1.Secret, nodes ...corev1.Node) evidence {
	f := evidence{Token: tok, Nodes: nodes, NodeCIDRs: []netip.Prefix{netip.MustParsePrefix("10.89.0.0/24")},
		Reserved: []netip.Addr{netip.MustParseAddr("10.89.0.1"), netip.MustParseAddr("127.0.0.1")}}
	for i := range f.Nodes {
		if f.Nodes[i].Name == "win-1" {
			f.Node = &f.Nodes[i]
		}
	}
	return f
}

// verdictCase is a request and what becomes of it.
type verdictCase struct {
	name   string
	req    func(*x509.CertificateRequest)
	csr    func(*certv1.CertificateSigningRequest)
	facts  evidence
	want   verdict
	reason string
}

func (tc verdictCase) run(t *testing.T, of func([]byte) *certv1.CertificateSigningRequest) {
	t.Run(tc.name, func(t *testing.T) {
		csr := of(request(t, tc.req))
		if tc.csr != nil {
			tc.csr(csr)
		}
		if got, reason := decide(csr, tc.facts); got != tc.want || !strings.Contains(reason, tc.reason) {
			t.Errorf("%s (%s), want %s (%s)", got, reason, tc.want, tc.reason)
		}
	})
}

func TestJudgeJoin(t *testing.T) {
	for _, tc := range []verdictCase{
		{"new node, any token", nil, nil, facts(token("")), approve, "new"},
		{"new node, its token", nil, nil, facts(token("win-1")), approve, "for this node"},
		{"known node, its token", nil, nil, facts(token("win-1"), node("win-1", "10.89.0.10")), approve,
			"for this node"},
		{"known node, any token", nil, nil, facts(token(""), node("win-1", "10.89.0.10")), deny, "exists already"},
		{"another node's token", nil, nil, facts(token("win-2")), deny, "is for node win-2"},
		{"token deleted", nil, nil, facts(nil), deny, "deleted"},
		{"RSA key", nil, func(c *certv1.CertificateSigningRequest) {
			c.Spec.Usages = append(c.Spec.Usages, certv1.UsageKeyEncipherment)
		}, facts(token("")), approve, ""},
		{"not a node", func(r *x509.CertificateRequest) { r.Subject.CommonName = "admin" }, nil, facts(token("")), deny,
			"not a node's"},
		{"no name", func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:" }, nil, facts(token("")),
			deny, "not a node's"},
		{"masters", func(r *x509.CertificateRequest) {
			r.Subject.Organization = []string{"system:masters"}
		}, nil, facts(token("")), deny, "organization"},
		{"masters as well", func(r *x509.CertificateRequest) {
			r.Subject.Organization = append(r.Subject.Organization, "system:masters")
		}, nil, facts(token("")), deny, "organization"},
		{"with a name", func(r *x509.CertificateRequest) { r.DNSNames = []string{"x"} }, nil, facts(token("")), deny,
			"no names"},
		{"with an address", func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{{10, 89, 0, 10}} }, nil,
			facts(token("")), deny, "no names"},
		{"with mail", func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b"} }, nil, facts(token("")),
			deny, "mail"},
		{"with a URI", func(r *x509.CertificateRequest) {
			r.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}}
		}, nil, facts(token("")), deny, "URIs"},
		{"as a server", nil, func(c *certv1.CertificateSigningRequest) {
			c.Spec.Usages = []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageServerAuth}
		}, facts(token("")), deny, "usages"},
		{"as both", nil, func(c *certv1.CertificateSigningRequest) {
			c.Spec.Usages = append(c.Spec.Usages, certv1.UsageServerAuth)
		}, facts(token("")), deny, "usages"},
		{"to sign", nil, func(c *certv1.CertificateSigningRequest) {
			c.Spec.Usages = append(c.Spec.Usages, certv1.UsageCertSign)
		}, facts(token("")), deny, "usages"},
		{"not PEM", nil, func(c *certv1.CertificateSigningRequest) { c.Spec.Request = []byte("x") }, facts(token("")),
			deny, "PEM"},
		{"two requests", nil, func(c *certv1.CertificateSigningRequest) {
			c.Spec.Request = append(c.Spec.Request, c.Spec.Request...)
		}, facts(token("")), deny, "one PEM block"},
		{"a user who only claims to be a token", nil, func(c *certv1.CertificateSigningRequest) {
			c.Spec.Groups = []string{"system:authenticated"}
		}, facts(token("")), ignore, ""},
		{"renewal by the node", nil,
			func(c *certv1.CertificateSigningRequest) { c.Spec.Username = "system:node:win-1" }, facts(
				token("")), ignore, ""},
		{"another signer", nil, func(c *certv1.CertificateSigningRequest) {
			c.Spec.SignerName = certv1.KubeAPIServerClientSignerName
		}, facts(token("")), ignore, ""},
		{"denied by a person", nil, func(c *certv1.CertificateSigningRequest) {
			c.Status.Conditions = []certv1.CertificateSigningRequestCondition{{Type: certv1.CertificateDenied}}
		}, facts(token("")), ignore, ""},
	} {
		tc.run(t, joining)
	}
}

func TestJudgeServing(t *testing.T) {
	own := func(r *x509.CertificateRequest) {
		r.DNSNames, r.IPAddresses = []string{"win-1"}, []net.IP{{10, 89, 0, 10}}
	}
	with := func(names []string, ips ...net.IP) func(*x509.CertificateRequest) {
		return func(r *x509.CertificateRequest) { r.DNSNames, r.IPAddresses = names, ips }
	}
	self := node("win-1", "10.89.0.10")
	rogue := node("win-1", "10.89.0.10")
	rogue.Status.Addresses = append(rogue.Status.Addresses,
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.89.0.1"},
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.96.0.1"},
		corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: "kubernetes.default.svc"},
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.89.0.11"})
	second := node("win-1", "10.89.0.10")
	second.Status.Addresses = append(second.Status.Addresses,
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fd00:10:89::a"})
	twoFamilies := facts(nil, second)
	twoFamilies.NodeCIDRs = append(twoFamilies.NodeCIDRs, netip.MustParsePrefix("fd00:10:89::/64"))
	six := net.ParseIP("fd00:10:89::a")
	for _, tc := range []verdictCase{
		{"both its addresses", with(nil, net.IP{10, 89, 0, 10}, six), nil, twoFamilies, approve, ""},
		{"IPv6 in a cluster without", with(nil, six), nil, facts(nil, second), deny, "not an address for nodes"},
		{"its own", own, nil, facts(nil, self, node("win-2", "10.89.0.11")), approve, ""},
		{"not registered", own, nil, facts(nil), wait, "not registered"},
		{"address not registered", with([]string{"win-1"}, net.IP{10, 89, 0, 99}), nil, facts(nil, self), wait,
			"10.89.0.99"},
		{"name not registered", with([]string{"win-9"}), nil, facts(nil, self), wait, "win-9"},
		{"nothing", nil, nil, facts(nil, self), deny, "needs a name"},
		{"for another node", own, func(c *certv1.CertificateSigningRequest) { c.Spec.Username = "system:node:win-2" },
			facts(nil, self), deny, "requests a certificate"},
		{"by a user", own, func(c *certv1.CertificateSigningRequest) {
			c.Spec.Groups = []string{"system:authenticated"}
		}, facts(nil, self), deny, "requests a certificate"},
		{"as a client", own, func(c *certv1.CertificateSigningRequest) {
			c.Spec.Usages = []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageClientAuth}
		}, facts(nil, self), deny, "usages"},
		{"the API server's address, registered", with(nil, net.IP{10, 89, 0, 1}), nil, facts(nil, rogue), deny,
			"not an address for nodes"},
		{"a service's address, registered", with(nil, net.IP{10, 96, 0, 1}), nil, facts(nil, rogue), deny,
			"not an address for nodes"},
		{"the API server's name, registered", with([]string{"kubernetes.default.svc"}), nil, facts(nil, rogue), deny,
			"not the name"},
		{"another node's address, registered", with(nil, net.IP{10, 89, 0, 11}), nil,
			facts(nil, rogue, node("win-2", "10.89.0.11")), deny, "node win-2"},
		{"another node's name", with([]string{"WIN-2"}), nil, facts(nil, rogue, node("win-2", "10.89.0.11")), deny,
			"node win-2"},
		{"an IPv4 address written as IPv6", with(nil, net.ParseIP("::ffff:10.89.0.10")), nil, facts(nil, self),
			approve, ""},
	} {
		tc.run(t, serving)
	}
}

// TestController lets the controller decide against a fake API server.
func TestController(t *testing.T) {
	self := node("win-1", "10.89.0.10")
	join, serve := joining(request(t, nil)), serving(request(t, func(r *x509.CertificateRequest) {
		r.IPAddresses = []net.IP{{10, 89, 0, 10}}
	}))
	client := fake.NewClientset(join, serve, token("win-2"))
	ctx, cancel := context.WithCancel(t.Context())
	c := Controller{
		Client:    client,
		NodeCIDRs: []netip.Prefix{netip.MustParsePrefix("10.89.0.0/24")},
		Log:       slog.New(slog.DiscardHandler),
	}
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	decision := func(name string) certv1.CertificateSigningRequestCondition {
		w, err := client.CertificatesV1().CertificateSigningRequests().Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		for {
			csr, err := client.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(csr.Status.Conditions) > 0 {
				return csr.Status.Conditions[0]
			}
			<-w.ResultChan()
		}
	}
	if got := decision("csr-1"); got.Type != certv1.CertificateDenied || !strings.Contains(got.Message, "win-2") {
		t.Errorf("joining: %+v", got)
	}
	// The serving request waits until the node has registered.
	if _, err := client.CoreV1().Nodes().Create(ctx, &self, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := decision("csr-2"); got.Type != certv1.CertificateApproved {
		t.Errorf("serving: %+v", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func FuzzJudge(f *testing.F) {
	f.Add(request(f, nil), "system:bootstrap:abcdef", false)
	f.Add(request(f, nil), "system:node:win-1", true)
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"), "", true)
	f.Fuzz(func(t *testing.T, req []byte, user string, server bool) {
		csr := joining(req)
		if server {
			csr = serving(req)
		}
		csr.Spec.Username = user
		v, reason := decide(csr, facts(token(""), node("win-1", "10.89.0.10")))
		if (v == deny || v == wait) && reason == "" {
			t.Error("a refusal without a reason")
		}
	})
}
