// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package policytest makes objects for tests of the rules: a pod without
// findings, and changes of it in a line of YAML.
package policytest

import (
	"bytes"
	"encoding/json"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"
)

// Minimal is a pod that neither a rule nor the API server has anything against.
const Minimal = `
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ns}
spec:
  os: {name: windows}
  nodeSelector: {kubernetes.io/os: windows}
  containers:
  - name: c
    image: mcr.microsoft.com/windows/servercore:ltsc2022
    resources: {limits: {memory: 100Mi}}
`

// Decode reads one object.
func Decode(t testing.TB, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("decode fixture: %v\n%s", err, text)
	}
	return m
}

// Documents reads all objects of a file, without empty ones.
func Documents(t testing.TB, text []byte) []map[string]any {
	t.Helper()
	var out []map[string]any
	for d := range bytes.SplitSeq(text, []byte("\n---\n")) {
		if o := Decode(t, string(d)); len(o) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// Plain returns the object as JSON would give it back.
func Plain(t testing.TB, object map[string]any) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(encode(t, object), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Patch applies a JSON patch (RFC 6902), with the library of the API server.
func Patch(t testing.TB, object map[string]any, patch any) map[string]any {
	t.Helper()
	text := encode(t, patch)
	if string(text) == "null" {
		text = []byte("[]")
	}
	decoded, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatalf("decode the patch %s: %v", text, err)
	}
	doc := encode(t, object)
	after, err := decoded.Apply(doc)
	if err != nil {
		t.Fatalf("apply %s to %s: %v", text, doc, err)
	}
	var out map[string]any
	if err := json.Unmarshal(after, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Merge is a JSON merge patch (RFC 7386).
func Merge(into, patch map[string]any) {
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(into, k)
		case map[string]any:
			sub, ok := into[k].(map[string]any)
			if !ok {
				sub = map[string]any{}
				into[k] = sub
			}
			Merge(sub, v)
		default:
			into[k] = v
		}
	}
}

// Tweak makes an object of the minimal pod: of the keys of text, meta and spec
// are merged into the pod, c into its container; obj is a whole object.
func Tweak(t testing.TB, text string) map[string]any {
	t.Helper()
	patch := Decode(t, text)
	if obj, ok := patch["obj"].(map[string]any); ok {
		return obj
	}
	pod := Decode(t, Minimal)
	if m, ok := patch["meta"].(map[string]any); ok {
		Merge(pod["metadata"].(map[string]any), m)
	}
	spec := pod["spec"].(map[string]any)
	if c, ok := patch["c"].(map[string]any); ok {
		Merge(spec["containers"].([]any)[0].(map[string]any), c)
	}
	if m, ok := patch["spec"].(map[string]any); ok {
		Merge(spec, m)
	}
	return pod
}
