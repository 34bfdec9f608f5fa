// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package validation

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
)

// defaulted returns the object as the API server keeps it: with every default
// filled in. So webhooks and `mullion lint --cluster` see objects.
func defaulted(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	obj, kind, err := legacyscheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(schema.GroupVersion{Group: kind.Group,
		Version: kind.Version}), obj)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(out, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

func codes(object map[string]any, facts policy.Facts) []string {
	facts.Kubernetes = version
	set := map[string]bool{}
	for _, f := range rule.Check(object, facts) {
		set[f.Code] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// TestDefaultsAreNoFindings checks that defaults of the API server cause no findings.
// The findings on an object are those on its manifest.
func TestDefaultsAreNoFindings(t *testing.T) {
	check := func(name string, object map[string]any, facts policy.Facts) {
		t.Helper()
		if before, after := codes(object, facts), codes(defaulted(t, object), facts); !slices.Equal(before, after) {
			t.Errorf("%s: findings %v on the manifest, %v on the object", name, before, after)
		}
	}
	for _, f := range slices.Concat(refused(), failing()) {
		if strings.HasSuffix(f.object, ": []}}") {
			continue // an empty list is lost in writing; upstream has refused it before
		}
		check(f.id, policytest.Tweak(t, f.object), f.facts)
	}
	full := policytest.Tweak(t, `{spec: {volumes: [{name: s, secret: {secretName: s}}, {name: m, configMap: {name: m}},
	  {name: p, projected: {sources: [{configMap: {name: m}}]}}, {name: h, hostPath: {path: 'C:\x'}}, {name: e,
	    emptyDir: {}}]},
		c: {ports: [{containerPort: 80}], livenessProbe: {httpGet: {port: 80}},
		  volumeMounts: [{name: e, mountPath: 'C:\e'}], env: [{name: A,
		    valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]}}`)
	check("Pod", full, policy.Facts{})
	for path, w := range workloads(full) {
		check(path, w, nodes(20348))
	}
	check("Service",
		policytest.Decode(t, "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: 80}], type: "+
			"LoadBalancer}}"), nodes(17763))
}
