// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mullion-k8s/mullion/internal/manager/registration"
	"github.com/mullion-k8s/mullion/internal/registry/lookup"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// shape holds what dashboards and alerts depend on: names, types and labels,
// without the values; of labels with few values also these.
func shape(t *testing.T, families []*dto.MetricFamily) string {
	t.Helper()
	var b strings.Builder
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "mullion_") {
			continue // those of Go and of processes are the library's
		}
		fmt.Fprintf(&b, "%s %s\n  %s\n", f.GetName(), strings.ToLower(f.GetType().String()), f.GetHelp())
		var lines []string
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				value := l.GetValue()
				if f.GetName() == "mullion_build_info" {
					value = "…"
				}
				labels = append(labels, l.GetName()+"="+value)
			}
			if len(labels) > 0 {
				lines = append(lines, "  "+strings.Join(labels, " ")+"\n")
			}
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, ""))
	}
	return b.String()
}

func refusal(rules ...string) *metav1.Status {
	s := &metav1.Status{Details: &metav1.StatusDetails{}}
	for _, r := range rules {
		s.Details.Causes = append(s.Details.Causes, metav1.StatusCause{Type: metav1.CauseType(r)})
	}
	return s
}

func TestMetrics(t *testing.T) {
	m := newMetrics(prometheus.NewRegistry(), metricsSource{
		leads: func() bool { return true },
		certificate: func() *tls.Certificate {
			return &tls.Certificate{Leaf: &x509.Certificate{NotAfter: time.Unix(2_000_000_000, 0)}}
		},
	})
	m.Answered(registration.PlacementPath, 200, time.Millisecond, nil)
	m.Answered(registration.RulesPath, 200, time.Millisecond, refusal("WIN001", "WIN001", "made-up"))
	m.Answered(registration.RulesPath, 504, time.Second, nil)
	m.Answered(registration.ValidateGMSAPath, 200, time.Millisecond, &metav1.Status{})
	for i := range 100 {
		m.Answered(fmt.Sprint("/scan/", i), 404, time.Millisecond, nil)
	}
	m.countLookup(lookup.Found)
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "metrics.txt", []byte(shape(t, families)))
	for _, f := range families {
		if f.GetName() == "mullion_webhook_refusals_total" && f.GetMetric()[0].GetCounter().GetValue() != 1 {
			t.Errorf("one object that breaks a rule twice: %v", f.GetMetric())
		}
	}
}

// TestMetricsOfAManager: what a scrape shows of one that has worked. Nothing of
// what its users named stands there.
func TestMetricsOfAManager(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	client := fake.NewClientset()
	m, _ := start(t, client, func(c *Config) { c.Metrics = address })
	h := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: bundle(t, client)}}}
	defer h.CloseIdleConnections()
	const body = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",
	  "request":{"uid":"hidden-uid","kind":{"version":"v1","kind":"Pod"},"operation":"CREATE",
	    "namespace":"hidden-namespace","name":"hidden-name","userInfo":{"username":"hidden-user"},
"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"hidden-name"},
  "spec":{"os":{"name":"windows"},"containers":[{"name":"hidden-container",
    "image":"hidden.example/windows/servercore:ltsc2022","securityContext":{"privileged":true}}]}}}}`
	for _, path := range []string{registration.PlacementPath, registration.RulesPath, "/hidden-path"} {
		resp, err := h.Post(m.cfg.URL+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // what it says is the business of other tests
	}
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`mullion_webhook_requests_total{code="200",webhook="placement"} 1`,
		`mullion_webhook_requests_total{code="200",webhook="rules"} 1`,
		`mullion_webhook_requests_total{code="404",webhook="other"} 1`,
		`mullion_webhook_request_duration_seconds_count{webhook="rules"} 1`,
		`mullion_webhook_refusals_total{rule="WIN`, "mullion_leader 1",
		"mullion_webhook_certificate_expiration_timestamp_seconds 1.", "go_goroutines ",
		"process_resident_memory_bytes ",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "hidden") {
		t.Errorf("something of a user's stands in\n%s", text)
	}
	codes(t, address, map[string]int{"/": 404, "/debug/pprof/": 404, "/debug/vars": 404})
}

// BenchmarkAnswered measures the time that counting adds to an answer.
func BenchmarkAnswered(b *testing.B) {
	m := newMetrics(prometheus.NewRegistry(),
		metricsSource{leads: func() bool { return false }, certificate: func() *tls.Certificate {
			return nil
		}})
	b.ReportAllocs()
	for b.Loop() {
		m.Answered(registration.PlacementPath, 200, time.Millisecond, nil)
	}
}
