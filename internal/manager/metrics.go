// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"crypto/tls"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/manager/registration"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/registry/lookup"
	"github.com/mullion-k8s/mullion/internal/version"
)

const (
	// maxScrapes at once: a cluster has one or two Prometheus.
	maxScrapes = 4
	// other is the label of anything without a known name, so that requests
	// cannot create labels.
	other = "other"
)

// metrics are the metrics of a manager. No label contains text that users
// chose: neither names of objects nor of registries.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	webhooks map[string]answers // by path
	refusals *prometheus.CounterVec
	lookups  *prometheus.CounterVec
	rules    map[string]bool
}

// metricsSource is queried when the metrics are read.
type metricsSource struct {
	leads       func() bool
	certificate func() *tls.Certificate // nil if there is no certificate yet
}

// answers holds the metrics of the answers of one webhook.
type answers struct {
	name     string
	duration prometheus.Observer
}

// names of the webhooks by their paths.
func names() map[string]string {
	return map[string]string{
		registration.PlacementPath: "placement", registration.RulesPath: "rules",
		registration.ClassesPath: "runtimeclasses", registration.MutateGMSAPath: "gmsa-mutate",
		registration.ValidateGMSAPath: "gmsa-validate",
	}
}

// durationBuckets, in seconds: from an answer without requests to others to the
// longest that a webhook has.
func durationBuckets() []float64 {
	return []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5}
}

func newMetrics(registry *prometheus.Registry, from metricsSource) *metrics {
	m := &metrics{registry: registry, webhooks: map[string]answers{}, rules: map[string]bool{}}
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mullion_webhook_requests_total", Help: "Reviews that were answered, by webhook and HTTP status code; " +
			"a refusal is an answer with 200.",
	}, []string{"webhook", "code"})
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mullion_webhook_request_duration_seconds", Help: "How long the answers took, by webhook.",
		Buckets: durationBuckets(),
	}, []string{"webhook"})
	m.refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mullion_webhook_refusals_total", Help: "Objects that were refused, by webhook and rule; each rule " +
			"that an object breaks counts. The rule none is GMSA's.",
	}, []string{"webhook", "rule"})
	m.lookups = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mullion_registry_lookups_total", Help: "Registry lookups of the platforms of images, by result, " +
			"without cached ones.",
	}, []string{"result"})
	for path, name := range names() {
		m.webhooks[path] = answers{name, durations.WithLabelValues(name)}
	}
	for _, o := range lookup.Outcomes() {
		m.lookups.WithLabelValues(string(o))
	}
	for _, r := range rule.All() {
		m.rules[r.Code] = true
	}
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mullion_build_info", Help: "Always 1; the labels have the versions.",
		ConstLabels: prometheus.Labels{"version": version.String(), "go_version": runtime.Version()},
	}, func() float64 { return 1 })
	leader := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mullion_leader", Help: "1 if this manager runs the controllers, 0 if another one does.",
	}, func() float64 {
		if from.leads() {
			return 1
		}
		return 0
	})
	registry.MustRegister(m.requests, durations, m.refusals, m.lookups, build, leader, newExpiry(from.certificate),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Answered counts an answer. It costs well under a microsecond.
func (m *metrics) Answered(path string, code int, took time.Duration, refusal *metav1.Status) {
	hook, ok := m.webhooks[path]
	if !ok {
		m.requests.WithLabelValues(other, strconv.Itoa(code)).Inc()
		return // not an API server
	}
	m.requests.WithLabelValues(hook.name, strconv.Itoa(code)).Inc()
	hook.duration.Observe(took.Seconds())
	if refusal != nil {
		m.refused(hook.name, refusal)
	}
}

func (m *metrics) refused(name string, refusal *metav1.Status) {
	if refusal.Details == nil || len(refusal.Details.Causes) == 0 {
		m.refusals.WithLabelValues(name, "none").Inc()
		return
	}
	counted := map[string]bool{}
	for _, c := range refusal.Details.Causes {
		rule := string(c.Type)
		if !m.rules[rule] {
			rule = other
		}
		if !counted[rule] {
			counted[rule] = true
			m.refusals.WithLabelValues(name, rule).Inc()
		}
	}
}

// countLookup counts a lookup.
func (m *metrics) countLookup(o lookup.Outcome) { m.lookups.WithLabelValues(string(o)).Inc() }

// handler writes the metrics as text.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes,
		DisableCompression: true})
}

// expiry reports until when the serving certificate is valid. It is absent
// while there is no certificate, because zero would look like long ago.
type expiry struct {
	desc        *prometheus.Desc
	certificate func() *tls.Certificate
}

func newExpiry(certificate func() *tls.Certificate) *expiry {
	return &expiry{certificate: certificate,
		desc: prometheus.NewDesc("mullion_webhook_certificate_expiration_timestamp_seconds",
			"When the certificate of the webhooks ends, in seconds since 1970; it is replaced 30 days before.", nil,
			nil)}
}

// Describe is a part of prometheus.Collector.
func (e *expiry) Describe(ch chan<- *prometheus.Desc) { ch <- e.desc }

// Collect is a part of prometheus.Collector.
func (e *expiry) Collect(ch chan<- prometheus.Metric) {
	if c := e.certificate(); c != nil && c.Leaf != nil {
		ch <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, float64(c.Leaf.NotAfter.Unix()))
	}
}
