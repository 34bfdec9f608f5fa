// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package otherwebhooks

import (
	"context"
	"log/slog"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

var policyResource = schema.GroupVersionResource{Group: group, Version: "v1", Resource: policies}

// lab is a watcher on a cluster that is made up.
type lab struct {
	*Watcher
	t        *testing.T
	client   *fake.Clientset
	policies *dynamicfake.FakeDynamicClient
}

// start runs a watcher of a cluster that has policies, or none.
func start(t *testing.T, served bool) *lab {
	t.Helper()
	l := &lab{t: t, client: fake.NewClientset(), policies: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(
		runtime.NewScheme(), map[schema.GroupVersionResource]string{policyResource: "MutatingAdmissionPolicyList"},
	)}
	resources := &metav1.APIResourceList{GroupVersion: group + "/v1",
		APIResources: []metav1.APIResource{{Name: "mutatingwebhookconfigurations"}}}
	if served {
		resources.APIResources = append(resources.APIResources, metav1.APIResource{Name: policies})
	}
	l.client.Resources = []*metav1.APIResourceList{resources}
	spaces := map[string]map[string]string{"default": {}, "meshed": {"mesh": "on"}}
	l.Watcher = New(Config{
		Client: l.client, Dynamic: l.policies, Own: "mullion", Log: slog.New(slog.DiscardHandler),
		Labels: func(_ context.Context, name string) (map[string]string, bool) { s, ok := spaces[name]; return s, ok },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if l.Alone(t.Context(), "default") {
			t.Error("one that has ended knows nothing")
		}
	})
	return l
}

// are waits until who is alone is as wanted.
func (l *lab) are(what string, plain, meshed bool) {
	l.t.Helper()
	testenv.Until(l.t, what, func() bool {
		return l.Alone(l.t.Context(), "default") == plain && l.Alone(l.t.Context(), "meshed") == meshed
	})
}

func (l *lab) configuration(text string) *admissionregistrationv1.MutatingWebhookConfiguration {
	l.t.Helper()
	var c admissionregistrationv1.MutatingWebhookConfiguration
	if err := yaml.UnmarshalStrict([]byte(text), &c); err != nil {
		l.t.Fatal(err)
	}
	return &c
}

func TestWebhooks(t *testing.T) {
	const pods = `rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]`
	l := start(t, false)
	l.are("no webhook exists", true, true)
	api := l.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	for name, tc := range map[string]struct {
		text          string
		plain, meshed bool
	}{
		"ours":       {`{metadata: {name: mullion}, webhooks: [{name: a, ` + pods + `}]}`, true, true},
		"everywhere": {`{metadata: {name: x}, webhooks: [{name: a, ` + pods + `}]}`, false, false},
		"everything": {`{metadata: {name: x}, webhooks: [{name: a, rules: [{operations: ["*"], apiGroups: ` +
			`["*"], apiVersions: ["*"], resources: ["*/*"]}]}]}`, false, false},
		"the second": {`{metadata: {name: x}, webhooks: [{name: a}, {name: b, ` + pods + `}]}`, false, false},
		"some namespaces": {`{metadata: {name: x}, webhooks: [{name: a, namespaceSelector: {matchLabels: {mesh: ` +
			`"on"}}, ` + pods + `}]}`, true, false},
		"a broken selector": {`{metadata: {name: x}, webhooks: [{name: a, namespaceSelector: {matchExpressions: ` +
			`[{key: mesh, operator: Like}]}, ` + pods + `}]}`, false, false},
		"selected pods": {`{metadata: {name: x}, webhooks: [{name: a, objectSelector: {matchLabels: {a: b}}, ` +
			pods + `}]}`, false, false},
		"updates": {`{metadata: {name: x}, webhooks: [{name: a, rules: [{operations: [UPDATE], apiGroups: ` +
			`[""], apiVersions: [v1], resources: [pods]}]}]}`, true, true},
		"other resources": {`{metadata: {name: x}, webhooks: [{name: a, rules: [{operations: [CREATE], apiGroups: ` +
			`["", apps], apiVersions: [v1], resources: [services, pods/exec, deployments]}]}]}`, true, true},
		"the group's pods": {`{metadata: {name: x}, webhooks: [{name: a, rules: [{operations: [CREATE], apiGroups: ` +
			`[metrics.k8s.io], apiVersions: [v1], resources: [pods]}]}]}`, true, true},
		"of the cluster": {`{metadata: {name: x}, webhooks: [{name: a, rules: [{operations: [CREATE], apiGroups: ` +
			`["*"], apiVersions: [v1], resources: ["*"], scope: Cluster}]}]}`, true, true},
	} {
		c := l.configuration(tc.text)
		if _, err := api.Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		// Another one that is known afterwards shows that this one is.
		mark := l.configuration(`{metadata: {name: mark}, webhooks: [{name: a, namespaceSelector: {matchLabels: ` +
			`{mesh: "on"}}, ` + pods + `}]}`)
		if _, err := api.Create(t.Context(), mark, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.are(name+", with another in some namespaces", tc.plain, false)
		if err := api.Delete(t.Context(), "mark", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		l.are(name, tc.plain, tc.meshed)
		if l.Alone(t.Context(), "unknown") && !tc.plain {
			t.Errorf("%s: alone in a namespace that is not known", name)
		}
		if err := api.Delete(t.Context(), c.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		l.are(name+", gone", true, true)
	}
}

func TestPolicies(t *testing.T) {
	l := start(t, true)
	l.are("no webhook exists", true, true)
	api := l.policies.Resource(policyResource)
	for name, tc := range map[string]struct {
		spec          string
		plain, meshed bool
	}{
		"pods": {`matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: ` +
			`[v1], resources: [pods]}]}`, false, false},
		"some namespaces": {`matchConstraints: {namespaceSelector: {matchLabels: {mesh: "on"}}, resourceRules: ` +
			`[{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}`, true, false},
		"malformed": {`matchConstraints: {resourceRules: pods}`, false, false},
	} {
		var tree map[string]any
		if err := yaml.Unmarshal([]byte("apiVersion: "+group+
			"/v1\nkind: MutatingAdmissionPolicy\nmetadata: {name: x}\nspec: {"+tc.spec+"}\n"), &tree); err != nil {
			t.Fatal(err)
		}
		if _, err := api.Create(t.Context(), &unstructured.Unstructured{Object: tree},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.are(name, tc.plain, tc.meshed)
		if err := api.Delete(t.Context(), "x", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		l.are(name+", gone", true, true)
	}
}

// TestForbidden: without the right to list, the watcher does not know, and
// stays quiet: pods are judged by the webhook then.
func TestForbidden(t *testing.T) {
	client := fake.NewClientset()
	client.Resources = []*metav1.APIResourceList{{GroupVersion: group + "/v1"}}
	asked := make(chan struct{}, 100)
	client.PrependReactor("list", "mutatingwebhookconfigurations",
		func(k8stesting.Action) (bool, runtime.Object, error) {
			asked <- struct{}{}
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "mutatingwebhookconfigurations"},
				"", nil)
		})
	w := New(Config{Client: client, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	<-asked
	<-asked // the second time: the first was seen
	if w.Alone(ctx, "default") {
		t.Error("alone, though nothing was read")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
