// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/mullion-k8s/mullion/internal/install"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/manager/registration"
)

func mustAddr(s string) netip.Addr { return netip.MustParseAddr(s) }

// load is the creation of pods, some at a time, until it is stopped. None may
// fail.
type load struct {
	c       *cluster
	created atomic.Int64
	cancel  context.CancelFunc
	all     sync.WaitGroup
}

// creators is how many pods are created at once: so many connections to the
// managers the API server has at least.
const creators = 4

func (c *cluster) load() *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{c: c, cancel: cancel}
	for i := range creators {
		l.all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				p := pod(fmt.Sprintf("load-%d-%d", i, n), []string{windowsImage, linuxImage}[n%2])
				if _, err := c.client.CoreV1().Pods(p.Namespace).Create(context.Background(), p,
					metav1.CreateOptions{}); err != nil {
					c.t.Errorf("create a pod: %v", err)
					return
				}
				none := int64(0)
				if err := c.client.CoreV1().Pods(p.Namespace).Delete(context.Background(), p.Name,
					metav1.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
					c.t.Errorf("delete a pod: %v", err)
					return
				}
				l.created.Add(1)
			}
		})
	}
	c.t.Cleanup(l.stop)
	return l
}

// more waits until so many more pods were created.
func (l *load) more(n int64) {
	l.c.t.Helper()
	from := l.created.Load()
	l.c.eventually("pods", func() error {
		if made := l.created.Load() - from; made < n {
			return fmt.Errorf("%d of %d were created", made, n)
		}
		return nil
	})
}

func (l *load) stop() {
	l.cancel()
	l.all.Wait()
}

// answers asks the webhooks of one manager, as an API server does.
func (c *cluster) answers(p *running) {
	c.t.Helper()
	hook, err := c.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(c.t.Context(),
		registration.Name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(hook.Webhooks[0].ClientConfig.CABundle)
	client := http.Client{Timeout: limit,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: inventory.Service + "." +
			install.DefaultNamespace + ".svc"}}}
	defer client.CloseIdleConnections()
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",
	  "request":{"uid":"u","kind":{"version":"v1","kind":"Pod"},"operation":"CREATE","namespace":"apps",
"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},
  "spec":{"containers":[{"name":"c","image":"` + windowsImage + `"}]}}}}`
	resp, err := client.Post("https://"+net.JoinHostPort(p.address, "9443")+registration.PlacementPath,
		"application/json", strings.NewReader(review))
	if err != nil {
		c.t.Errorf("%s: %v", p.pod.Name, err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"patch":`)) {
		c.t.Errorf("%s: %v %s %s", p.pod.Name, err, resp.Status, body)
	}
}

// holders are those that had the lease, in the order of time.
type holders struct {
	mu   sync.Mutex
	list []string // guarded by mu
}

func (h *holders) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.list...)
}

// leases watches the lease until the test ends.
func (c *cluster) leases() *holders {
	c.t.Helper()
	w, err := c.client.CoordinationV1().Leases(install.DefaultNamespace).Watch(c.t.Context(),
		metav1.SingleObject(metav1.ObjectMeta{Name: inventory.Lease}))
	if err != nil {
		c.t.Fatal(err)
	}
	h := &holders{}
	go func() {
		for e := range w.ResultChan() {
			if l, ok := e.Object.(*coordinationv1.Lease); ok && e.Type != watch.Deleted {
				h.mu.Lock()
				h.list = append(h.list, holderOf(l))
				h.mu.Unlock()
			}
		}
	}()
	c.t.Cleanup(w.Stop)
	return h
}
