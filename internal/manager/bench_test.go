// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/mullion-k8s/mullion/internal/manager/registration"
)

const (
	// callers ask at the same time, each this often per round. Goal: 99 of 100
	// answers within 5 ms.
	callers = 8
	perCall = 500
)

// largePod is a review of the size that a real one has: about 6 kB, with managed
// fields.
func largePod(image string) []byte {
	env := []any{}
	fields := map[string]any{}
	for i := range 30 {
		env = append(env, map[string]any{"name": fmt.Sprint("VARIABLE_", i), "value": strings.Repeat("v", 20)})
		fields[fmt.Sprintf(`k:{"name":"VARIABLE_%d"}`, i)] = map[string]any{".": map[string]any{},
			"f:name": map[string]any{}, "f:value": map[string]any{}}
	}
	pod := map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"generateName": "web-5d4f9c7b6-", "namespace": "default",
			"labels": map[string]any{"app": "web"},
			"managedFields": []any{map[string]any{"manager": "kube-controller-manager",
				"fieldsV1": map[string]any{"f:spec": map[string]any{"f:containers": fields}}}}},
		"spec": map[string]any{"serviceAccountName": "default", "containers": []any{
			map[string]any{"name": "web", "image": image, "env": env,
				"ports":     []any{map[string]any{"containerPort": 80}},
				"resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}}},
			map[string]any{"name": "log", "image": image,
				"volumeMounts": []any{map[string]any{"name": "v", "mountPath": `C:\logs`}}},
		}, "volumes": []any{map[string]any{"name": "v", "emptyDir": map[string]any{}}}},
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"request": map[string]any{
			"uid": "u", "kind": map[string]any{"version": "v1", "kind": "Pod"}, "operation": "CREATE",
			"namespace": "default", "object": pod}})
	if err != nil {
		panic(err) // maps of strings
	}
	return body
}

// idleConns is how many connections an API server keeps
// (k8s.io/client-go transport/cache.go, idleConnsPerHost).
const idleConns = 25

// BenchmarkWebhook asks both webhooks over TLS from 8 callers at once, as an API
// server does.
func BenchmarkWebhook(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	client := fake.NewClientset()
	// As `mullion manager`: it counts, too.
	m, _ := start(b, client, func(c *Config) { c.Metrics, c.OwnProcess = "127.0.0.1:0", true })
	config := &tls.Config{RootCAs: bundle(b, client)}
	h := http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: idleConns}}
	defer h.CloseIdleConnections()
	hooks := []struct{ name, path string }{{"placement", registration.PlacementPath}, {"rules", registration.RulesPath}}
	body := largePod("mcr.microsoft.com/windows/servercore:ltsc2019")
	all := map[string][]time.Duration{}
	for _, hook := range hooks { // connections, and a heap as a manager in work has
		round(b, &h, m.cfg.URL+hook.path+"?timeout=2s", body)
	}
	for b.Loop() {
		for _, hook := range hooks {
			all[hook.name] = append(all[hook.name], round(b, &h, m.cfg.URL+hook.path+"?timeout=2s", body)...)
		}
	}
	for name, took := range all {
		slices.Sort(took)
		b.ReportMetric(ms(took[len(took)/2]), "ms-p50/"+name)
		b.ReportMetric(ms(took[len(took)*99/100]), "ms-p99/"+name)
		b.Logf("%s: %d bytes, %d answers, worst %s", name, len(body), len(took), took[len(took)-1])
	}
	b.ReportMetric(0, "ns/op") // it would count thousands of answers as one
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func round(b *testing.B, h *http.Client, url string, body []byte) []time.Duration {
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			mine := make([]time.Duration, 0, perCall)
			for range perCall {
				began := time.Now()
				resp, err := h.Post(url, "application/json", bytes.NewReader(body))
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close() // it was read to its end
				}
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	wg.Wait()
	return all
}
