// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/version"
)

// check returns what is reported: CODE FIELD, and the fix.
func check(t *testing.T, text string, v policy.Version) string {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range New(v).Check(tree.Root(object)) {
		if f.Code <= codeType { // the objects are not complete
			out = append(out, fmt.Sprintf("%s %s: %s", f.Code, f.Field, f.Fix))
		}
	}
	return strings.Join(out, "\n")
}

func TestVersions(t *testing.T) {
	for _, tt := range []struct {
		text    string
		version policy.Version
		want    string
	}{
		{text: "{apiVersion: apps/v1, kind: Deployment}"},
		{
			text: "{apiVersion: extensions/v1beta1, kind: Deployment}",
			want: "WIN801 apiVersion: use apps/v1 Deployment; fields may have changed",
		},
		{text: "{apiVersion: extensions/v1beta1, kind: Deployment}", version: 15},
		{text: "{apiVersion: apps/v1beta2, kind: StatefulSet}", want: "WIN801 apiVersion: use apps/v1 StatefulSet"},
		{text: "{apiVersion: networking.k8s.io/v1beta1, kind: Ingress}", want: "use networking.k8s.io/v1 Ingress"},
		{text: "{apiVersion: policy/v1beta1, kind: PodDisruptionBudget}", want: "use policy/v1 PodDisruptionBudget"},
		{text: "{apiVersion: policy/v1beta1, kind: PodSecurityPolicy}", want: "use Pod Security Admission"},
		{text: "{apiVersion: policy/v1beta1, kind: PodSecurityPolicy}", version: 24},
		{text: "{apiVersion: autoscaling/v2beta2, kind: HorizontalPodAutoscaler}", want: "use autoscaling/v2"},
		{text: "{apiVersion: autoscaling/v2beta2, kind: HorizontalPodAutoscaler}", version: 25},
		{
			text: "{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition}",
			want: "use apiextensions.k8s.io/v1",
		},
		{text: "{apiVersion: batch/v1beta1, kind: CronJob}", want: "use batch/v1 CronJob"},
		{text: "{apiVersion: batch/v1, kind: CronJob}", version: 20, want: "upgrade the cluster"},
		{text: "{apiVersion: apps/v2, kind: Deployment}", want: "WIN801 apiVersion: write apps/v1"},
		{text: "{apiVersion: apps/v2, kind: Deployment}", version: 30},
		{text: "{apiVersion: v1, kind: Deployment}", want: "WIN801 apiVersion: write apps/v1"},
		{text: "{apiVersion: app/v1, kind: Deployment}", want: "WIN801 apiVersion: write apps/v1"},
		{text: "{apiVersion: apps/v1, kind: Pod}", want: "WIN801 apiVersion: write v1"},
		{text: "{apiVersion: apps/v1, kind: deployment}", want: "WIN801 kind: write Deployment"},
		{text: "{apiVersion: v1, kind: pods}", want: "WIN801 kind: write Pod"},
		{text: "{apiVersion: apps/v1, kind: Foo}", want: "kubectl api-resources"},
		{text: "{apiVersion: a/b/c, kind: Pod}", want: "write GROUP/VERSION"},
		// The settings of programs, and custom resources.
		{text: "{apiVersion: v1, kind: Config, clusters: []}"},
		{text: "{apiVersion: v1, kind: Template, objects: []}"},
		{text: "{apiVersion: skaffold/v2beta29, kind: Config}"},
		{text: "{apiVersion: argoproj.io/v1alpha1, kind: Rollout, spec: {x: 1}}"},
		{text: "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, spec: {x: 1}}"},
		{text: "{apiVersion: serving.knative.dev/v1, kind: Service, spec: {x: 1}}"},
		{text: "{apiVersion: '${VERSION}', kind: Deployment}"},
	} {
		got := check(t, tt.text, tt.version)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s with %q: %q, want %q", tt.text, tt.version, got, tt.want)
		}
	}
}

// TestMany: an object of mistakes is not searched for each.
func TestMany(t *testing.T) {
	spec := map[string]any{}
	for i := range 100_000 {
		spec[fmt.Sprintf("field%d", i)] = i
	}
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"}, "spec": spec}
	if found := New(0).Check(tree.Root(pod)); len(found) != maxFindings {
		t.Errorf("%d findings, want %d", len(found), maxFindings)
	}
}

// TestNewerCluster: what a newer Kubernetes refuses is not certain.
func TestNewerCluster(t *testing.T) {
	pod := tree.Root(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"},
		"spec": map[string]any{"colour": "red", "containers": []any{map[string]any{"name": "c", "image": "i"}}}})
	for v, want := range map[policy.Version]policy.Severity{
		0: policy.Error, current - 2: policy.Error, current: policy.Error, current + 1: policy.Warning,
	} {
		if found := New(v).Check(pod); len(found) != 1 || found[0].Severity != want {
			t.Errorf("%q: %+v, want one of severity %v", v, found, want)
		}
	}
}

func TestFields(t *testing.T) {
	const head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d%s}\nspec:\n  replicas: 1\n  template:\n" +
		"    spec:\n      containers: [{name: c%s}]\n"
	pod := func(container string) string { return fmt.Sprintf(head, "", ", "+container) }
	for _, tt := range []struct{ text, want string }{
		{text: pod("image: x, resources: {limits: {cpu: 0.5, memory: 1Gi}}, env: [{name: A, value: 'yes'}]")},
		{
			text: pod("imagePullpolicy: Always"),
			want: "WIN802 spec.template.spec.containers[0].imagePullpolicy: write imagePullPolicy",
		},
		{text: pod("port: []"), want: "write ports"},
		{text: pod("volumes: []"), want: "move it: the mapping around it has a field of this name"},
		{text: pod("colour: red"), want: "kubectl explain"},
		{
			text: pod("env: [{name: A, value: yes}]"),
			want: `WIN803 spec.template.spec.containers[0].env[0].value: quote it: "true"`,
		},
		{text: pod("env: [{name: A, value: 80}]"), want: `quote it: "80"`},
		{text: pod("env: {A: b}"), want: "WIN803 spec.template.spec.containers[0].env: write a list"},
		{text: pod("ports: [{containerPort: '80'}]"), want: "write a whole number of 32 bits"},
		{text: pod("ports: [{containerPort: 8.5}]"), want: "write a whole number of 32 bits"},
		{text: pod("ports: [{containerPort: 3000000000}]"), want: "write a whole number of 32 bits"},
		{text: pod("resources: {limits: {memory: 1 Gi}}"), want: "write a quantity such as 500m or 1Gi"},
		{text: pod("resources: {limits: {memory: 100MB}}"), want: "write a quantity"},
		{text: pod("command: cmd"), want: "WIN803 spec.template.spec.containers[0].command: write a list"},
		{text: pod("args: [1]"), want: `quote it: "1"`},
		{text: pod("tty: 'true'"), want: "write true or false"},
		{text: pod("livenessProbe: {httpGet: {port: true}}"), want: "write a number or a string"},
		{text: pod("securityContext: null, env: null, image: null")},
		{text: pod("tty: '${TTY}', stdin: '{{ .Values.x }}', ports: [{containerPort: PORT}]")},
		{text: fmt.Sprintf(head, ", annotations: {a: true}", ""), want: "WIN803 metadata.annotations.a: quote it"},
		{text: fmt.Sprintf(head, ", creationTimestamp: yesterday", ""), want: "write a time"},
		{text: fmt.Sprintf(head, ", creationTimestamp: null, labels: {a: b}", "")},
		{
			text: fmt.Sprintf(head, "", "") + "      nodeselector: {}\n",
			want: "WIN802 spec.template.spec.nodeselector: write nodeSelector",
		},
		{text: fmt.Sprintf(head, "", "") + "  containers: []\n", want: "WIN802 spec.containers: remove it"},
		{text: "{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {a: '%%%'}}"},
		{
			text: "{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {a: plain text}}",
			want: "write a string in base64",
		},
		{text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: s}, data: {a: 1}}", want: "quote it"},
		{text: "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: 80, targetPort: http}]}}"},
		{
			text: "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: [NodePort]}}",
			want: "write a string",
		},
	} {
		got := check(t, tt.text, 0)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s\n%q, want %q", tt.text, got, tt.want)
		}
	}
}

// TestCurrent: the types are of the version that this program is made with.
func TestCurrent(t *testing.T) {
	if v, err := policy.ParseVersion(version.Kubernetes); err != nil || v != current {
		t.Errorf("the types are said to be of %v, and Kubernetes is %v, %v", current, v, err)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"image", "imagePullPolicy", "ports", "readinessProbe", "volumeMounts"}
	for written, want := range map[string]string{
		"Image": "image", "imagePullPolicies": "imagePullPolicy", "port": "ports", "volumeMount": "volumeMounts",
		"readynessProbe": "readinessProbe", "imgae": "image", "x": "", "colour": "", "volumes": "",
	} {
		if got := nearest(written, names); got != want {
			t.Errorf("%s: %q, want %q", written, got, want)
		}
	}
}

// TestPlaceholders: what a program or a person fills in is not a mistake, and capitals
// alone are.
func TestPlaceholders(t *testing.T) {
	for name, mistake := range map[string]bool{
		"APP_NAME-web": false, "REPLACEME-web": false, "${APP}-web": false, "web-<node>": false, "($name)": false,
		"[REDACTED KEY]": false, "Web": true, "APP-web": true, "A_b": true,
	} {
		object := map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name},
		}
		if got := New(0).Check(tree.Root(object)); len(got) > 0 != mistake {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWarnings: what may be meant is a warning.
func TestWarnings(t *testing.T) {
	for text, want := range map[string]policy.Severity{
		"kind: Pod, spec: {schedulerName: default-schedular, containers: [{name: c, image: i}]}":   policy.Warning,
		"kind: Pod, spec: {schedulerName: default-scheduler-2, containers: [{name: c, image: i}]}": policy.None,
		"kind: Service, spec: {type: LoadBalancer, loadBalancerIP: 127.0.0.1, ports: [{port: 1}]}": policy.Warning,
		"kind: Service, spec: {type: LoadBalancer, loadBalancerIP: web, ports: [{port: 1}]}":       policy.Warning,
		"kind: Service, spec: {type: LoadBalancer, loadBalancerIP: '${IP}', ports: [{port: 1}]}":   policy.None,
		"kind: Service, spec: {type: LoadBalancer, loadBalancerIP: 20.1.2.3, ports: [{port: 1}]}":  policy.None,
	} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte("{apiVersion: v1, metadata: {name: x}, "+text+"}"), &object); err != nil {
			t.Fatal(err)
		}
		worst := policy.None
		for _, f := range New(0).Check(tree.Root(object)) {
			worst = max(worst, f.Severity)
		}
		if worst != want {
			t.Errorf("%s: %v, want %v", text, worst, want)
		}
	}
}
