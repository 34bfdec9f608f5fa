// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package webhook

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
)

// FuzzReview sends any bytes to the webhooks: each answer is an HTTP error, or
// a review within the API's limits with a patch that applies and that a second
// call has nothing to add to.
func FuzzReview(f *testing.F) {
	for _, object := range []string{
		silentPod,
		`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {os: {name: windows}, hostIPC: true, containers: ` +
			`[{name: c, image: "mcr.microsoft.com/windows/servercore:ltsc2025"}]}}`,
		`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {template: {metadata: null, spec: ` +
			`{tolerations: null, containers: [{name: c, image: nanoserver}]}}}}`,
		`{apiVersion: v1, kind: Pod, metadata: {annotations: []}, spec: {containers: {}, nodeSelector: [], affinity: ` +
			`1}}`,
		`{apiVersion: v1, kind: Pod, metadata: {annotations: {"placement.mullion.dev/skip": 1}}, spec: {containers: ` +
			`[null, 1, {image: 2}]}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: NodePort, ports: [{protocol: SCTP}]}}`,
	} {
		f.Add(review(f, object, "", ""))
		f.Add(review(f, object, object, ""))
	}
	f.Add(review(f, `{apiVersion: v1, kind: Pod, metadata: {labels: [1]}, spec: {containers: [{name: c, image: `+
		`nanoserver}]}}`, "", ""))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",` +
		`"kind":{"kind":"Pod"},"operation":"CREATE","object":{"spec":{"containers":[{"image":"\u0000\ud800"}]}}}}`))
	f.Add([]byte(strings.Repeat("[", 300)))
	s := NewServer(handlers(fixed(mixed(f), strings.Repeat("w\n", 5000))), discard())
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{"/placement", "/rules", "/alone", "/among-others"} {
			w := post(s, path, body)
			switch w.Code {
			case http.StatusOK:
				check(t, s, path, body, w.Body.Bytes())
			case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
			default:
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	})
}

func check(t *testing.T, s *Server, path string, in, out []byte) {
	t.Helper()
	var r admissionv1.AdmissionReview
	if err := json.Unmarshal(out, &r); err != nil || r.Response == nil || r.Response.UID == "" {
		t.Fatalf("%v: %s", err, out)
	}
	if !r.Response.Allowed && (r.Response.Result == nil || r.Response.Result.Code < 400 ||
		r.Response.Result.Message == "") {
		t.Errorf("a refusal without a reason: %s", out)
	}
	total := 0
	for _, w := range r.Response.Warnings {
		n := utf8.RuneCountInString(w)
		if total += n; n > maxWarning || total > maxWarnings || strings.ContainsAny(w, "\n\r\x00\x1b") {
			t.Errorf("warning %q", w)
		}
	}
	if len(r.Response.Patch) == 0 {
		return
	}
	patch, err := jsonpatch.DecodePatch(r.Response.Patch)
	if err != nil {
		t.Fatal(err)
	}
	var review map[string]any
	if err := json.Unmarshal(in, &review); err != nil {
		t.Fatal(err)
	}
	request, _ := review["request"].(map[string]any)
	object, err := json.Marshal(request["object"])
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(object)
	if err != nil {
		t.Fatalf("the patch does not apply: %v\n%s\n%s", err, r.Response.Patch, object)
	}
	request["object"] = json.RawMessage(after)
	again, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	w := post(s, path, again)
	var second admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &second); w.Code != http.StatusOK || err != nil ||
		len(second.Response.Patch) > 0 {
		t.Errorf("asked again: %d %s\nafter %s", w.Code, w.Body, after)
	}
}
