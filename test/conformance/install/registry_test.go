// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/install"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestRegistries: what an installation says of registries reaches the manager.
// Images whose names say nothing are placed by what their registries say, one
// with a certificate of a company's own authority, one without any.
func TestRegistries(t *testing.T) {
	c := newCluster(t)
	c.prepare()
	c.kubelet()
	authority := testenv.NewAuthority(t)
	certificate := authority.Issue(t, x509.Certificate{IPAddresses: []net.IP{net.ParseIP(serverAddress)}})
	private, plain := c.registry(&certificate), c.registry(nil)
	args := []string{"install", "--image", image, "--replicas", "1", "--registry-certs", "company-ca",
		"--insecure-registry", plain, "--wait=false"}

	before := c.snapshot()
	code, errs := c.mullion(t.Context(), args...)
	if code != 1 || !strings.Contains(errs, "does not exist") ||
		!strings.Contains(errs, "kubectl create configmap company-ca") {
		t.Errorf("without the ConfigMap: exit code %d\n%s", code, errs)
	}
	if d := difference(before, c.snapshot()); d != "" {
		t.Errorf("something was written:\n%s", d)
	}
	if _, err := c.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: install.DefaultNamespace}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	company := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "company-ca"},
		Data: map[string]string{"ca.crt": string(authority.PEM)}}
	if _, err := c.client.CoreV1().ConfigMaps(install.DefaultNamespace).Create(t.Context(), company,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.must(args...)
	c.dns()
	m := c.manager()
	c.must(args[:len(args)-1]...) // waits for the registration
	for _, host := range []string{private, plain} {
		c.eventually("a pod that is placed by what "+host+" says", func() error {
			p, err := c.create(pod("by-registry", host+"/team/app:1"))
			if err != nil {
				return err
			}
			defer c.remove(p)
			if got := p.Spec.NodeSelector[corev1.LabelWindowsBuild]; got != "10.0.20348" {
				return fmt.Errorf("node selector %v, annotations %v", p.Spec.NodeSelector, p.Annotations)
			}
			return nil
		})
	}
	if text := c.scrape(m); !strings.Contains(text, `mullion_registry_lookups_total{result="found"} 2`) {
		t.Errorf("metrics:\n%s", text)
	}

	c.must("install", "--image", image, "--replicas", "1", "--no-registries", "--wait=false")
	m.end(syscall.SIGTERM)
	m = c.manager()
	c.must("install", "--image", image, "--replicas", "1", "--no-registries")
	p, err := c.create(pod("not-asked", private+"/team/other:1"))
	if err != nil {
		t.Fatal(err)
	}
	c.remove(p)
	text := c.scrape(m)
	if !strings.Contains(text, `mullion_webhook_requests_total{code="200",webhook="placement"} `) {
		t.Errorf("no pod was placed:\n%s", text)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "mullion_registry_lookups_total{") && !strings.HasSuffix(line, " 0\n") {
			t.Errorf("registries were asked: %s", line)
		}
	}
	if text := lacks(m.program); text != "" {
		t.Errorf("the manager lacked rights:\n%s", text)
	}
}

// registry runs one that has the image team/app:1, for Windows Server 2022;
// over plain HTTP without a certificate. It returns its host and port.
func (c *cluster) registry(certificate *tls.Certificate) string {
	c.t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(serverAddress, "0"))
	if err != nil {
		c.t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	server.Listener.Close()
	server.Listener = l
	options, transport := []name.Option{name.Insecure}, &http.Transport{}
	if certificate == nil {
		server.Start()
	} else {
		server.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}}
		server.StartTLS()
		options, transport.TLSClientConfig = nil, &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the test's own
	}
	c.t.Cleanup(server.Close)
	host := l.Addr().String()
	ref, err := name.ParseReference(host+"/team/app:1", options...)
	if err != nil {
		c.t.Fatal(err)
	}
	app, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "windows", Architecture: "amd64",
		OSVersion: "10.0.20348.2700"})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := remote.Write(ref, app, remote.WithTransport(transport)); err != nil {
		c.t.Fatal(err)
	}
	return host
}
