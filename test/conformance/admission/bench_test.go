// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package admission_test

import (
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/manager"
)

// groups of pods, one of each kind, are made in turn, so that what else the
// machine does counts for all.
const groups = 400

// BenchmarkPodCreate measures what the webhooks add to the creation of a pod:
// the same API server, the same pods, in a namespace with them, in one that
// opted out, and in one where a webhook is asked that writes a node selector
// into every pod without a thought (the peer: the least that placing pods by a
// webhook costs here). Goal: 2 ms at the median.
func BenchmarkPodCreate(b *testing.B) {
	c := startCluster(b)
	c.addNodes()
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	m, _ := c.startManager(func(cfg *manager.Config) {
		offline(cfg)
		cfg.OwnProcess = true // as `mullion manager`
		cfg.Log = slog.New(slog.NewTextHandler(c.log, nil))
	})
	c.ready(m)
	for _, ns := range []string{"without", "peer"} {
		c.must("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+ns+
			", labels: {admission.mullion.dev/disabled: \"true\"}}\n", nil, "create", "-f", "-")
	}
	client := c.Admin()
	peer(b, client, "peer")
	images := []struct{ name, image string }{{"linux", linux}, {"windows", ltsc2019}}
	took := map[string][]time.Duration{}
	for b.Loop() {
		for range groups {
			for _, image := range images {
				for _, ns := range []string{"default", "without", "peer"} {
					pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"},
						Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image.image}}}}
					began := time.Now()
					if _, err := client.CoreV1().Pods(ns).Create(b.Context(), pod, metav1.CreateOptions{}); err != nil {
						b.Fatal(err)
					}
					took[image.name+ns] = append(took[image.name+ns], time.Since(began))
				}
			}
		}
	}
	for _, image := range images {
		with, without, peer := quantiles(took[image.name+"default"]), quantiles(took[image.name+"without"]),
			quantiles(took[image.name+"peer"])
		b.ReportMetric(with[0], "ms-p50/"+image.name)
		b.ReportMetric(without[0], "ms-p50/"+image.name+"-without")
		b.ReportMetric(with[0]-without[0], "ms-added-p50/"+image.name)
		b.ReportMetric(with[1]-without[1], "ms-added-p99/"+image.name)
		b.ReportMetric(peer[0]-without[0], "ms-added-p50/"+image.name+"-peer")
		b.ReportMetric((with[0]-without[0])/(peer[0]-without[0]), "x-peer/"+image.name)
	}
	b.ReportMetric(0, "ns/op") // it would count hundreds of pods as one
}

// peer registers a webhook that gives every pod of a namespace the same selector.
func peer(b *testing.B, client kubernetes.Interface, namespace string) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: true, PatchType: new(admissionv1.PatchTypeJSONPatch),
			Patch: []byte(`[{"op":"add","path":"/spec/nodeSelector","value":{"kubernetes.io/os":"linux"}}]`),
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review) // the API server would say so
	}))
	b.Cleanup(server.Close)
	_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(b.Context(),
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "peer"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "peer.example.com", AdmissionReviewVersions: []string{"v1"},
				ClientConfig: admissionregistrationv1.WebhookClientConfig{
					URL:      &server.URL,
					CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
				},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
						Resources: []string{"pods"}},
				}},
				NamespaceSelector: &metav1.LabelSelector{
					MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			}},
		}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
}

// quantiles returns the median and the 99th of a hundred, in milliseconds.
func quantiles(d []time.Duration) [2]float64 {
	slices.Sort(d)
	return [2]float64{float64(d[len(d)/2].Microseconds()) / 1000, float64(d[len(d)*99/100].Microseconds()) / 1000}
}
