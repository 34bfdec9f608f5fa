// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package validation

import (
	"slices"
	"testing"

	"k8s.io/kubernetes/pkg/capabilities"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
)

// errorsOf returns the codes of our errors about an object.
func errorsOf(object map[string]any, facts policy.Facts) []string {
	facts.Kubernetes = version
	var out []string
	for _, f := range rule.Check(object, facts) {
		if f.Severity == policy.Error {
			out = append(out, f.Code)
		}
	}
	return out
}

// TestHostProcess: what the rules on HostProcess containers report, upstream
// refuses; without privileged containers it refuses all of them.
func TestHostProcess(t *testing.T) {
	const options = "hostProcess: true, runAsUserName: 'NT AUTHORITY\\SYSTEM'"
	container := func(name, hostProcess string) string {
		return "{name: " + name + ", image: x, imagePullPolicy: Always, terminationMessagePolicy: File, " +
			"securityContext: " +
			"{windowsOptions: {" + hostProcess + "}}}"
	}
	for _, tt := range []struct{ code, object string }{
		{"", "spec: {hostNetwork: true, securityContext: {windowsOptions: {" + options + "}}}"},
		{"WIN104", "spec: {hostNetwork: true, securityContext: {windowsOptions: {" + options + "}}, containers: [" +
			container("c", "hostProcess: false") + "]}"},
		{"WIN105", "spec: {hostNetwork: true, containers: [" + container("a", options) + ", " +
			container("b", "") + "]}"},
		{"WIN106", "spec: {securityContext: {windowsOptions: {" + options + "}}}"},
	} {
		object := policytest.Tweak(t, tt.object)
		if theirs := upstream(object); (len(theirs) > 0) != (tt.code != "") {
			t.Errorf("%s: upstream says %v", tt.object, theirs)
		}
		ours := errorsOf(object, policy.Facts{})
		if tt.code != "" && !slices.Contains(ours, tt.code) || tt.code == "" && len(ours) > 0 {
			t.Errorf("%s: we say %v, want %s", tt.object, ours, tt.code)
		}
	}
	capabilities.ResetForTest()
	capabilities.Initialize(capabilities.Capabilities{})
	t.Cleanup(func() {
		capabilities.ResetForTest()
		capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
	})
	object := policytest.Tweak(t, "spec: {hostNetwork: true, securityContext: {windowsOptions: {"+options+"}}}")
	if theirs := upstream(object); len(theirs) == 0 {
		t.Error("upstream takes a HostProcess container without --allow-privileged")
	}
	if ours := errorsOf(object, policy.Facts{NoPrivileged: true}); !slices.Contains(ours, "WIN107") {
		t.Errorf("we say %v, want WIN107", ours)
	}
}

// TestInjectedSidecars: upstream refuses a pod for Windows with the sidecar of
// Istio (manifests/charts/istio-control/istio-discovery/files/injection-template.yaml
// of github.com/istio/istio) or of Dapr (pkg/injector/patcher/sidecar_container.go of
// github.com/dapr/dapr), for which WIN339 is an error.
func TestInjectedSidecars(t *testing.T) {
	for name, sidecar := range map[string]string{
		"istio-proxy": "allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, privileged: false, " +
			"readOnlyRootFilesystem: true, runAsGroup: 1337, runAsNonRoot: true, runAsUser: 1337",
		"daprd": "allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, readOnlyRootFilesystem: true, " +
			"runAsNonRoot: true",
	} {
		object := policytest.Tweak(t, "spec: {containers: [{name: app, image: app, imagePullPolicy: Always, "+
			"terminationMessagePolicy: File}, {name: "+name+", image: sidecar, imagePullPolicy: Always, "+
			"terminationMessagePolicy: File, securityContext: {"+sidecar+"}}]}")
		if len(about(upstream(object), "spec.containers[1].securityContext.capabilities")) == 0 {
			t.Errorf("upstream takes %s: %v", name, upstream(object))
		}
	}
	for _, object := range []string{`meta: {labels: {sidecar.istio.io/inject: "true"}}`,
		`meta: {annotations: {dapr.io/enabled: "true"}}`} {
		if ours := errorsOf(policytest.Tweak(t, object), policy.Facts{}); !slices.Contains(ours, "WIN339") {
			t.Errorf("%s: we say %v, want WIN339", object, ours)
		}
	}
}
