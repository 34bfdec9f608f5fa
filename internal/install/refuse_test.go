// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	discoveryfake "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/manager/registration"
)

// good is a configuration to install.
func good() Config { return Config{Image: "mullion/mullion:v1", Replicas: 1} }

// fake is a cluster of a version that has some objects. What it cannot do,
// server-side apply with managers, is tested with a real API server in
// test/conformance/install.
func fake(t *testing.T, gitVersion string, objects ...runtime.Object) *Cluster {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{}
	for _, k := range []kind{
		namespaces, resourceQuotas, serviceAccounts, services, secrets, configMaps, pods, nodes, leases, deployments,
		replicaSets, disruptionBudgets, clusterRoles, clusterBindings, roles, roleBindings, definitions,
		mutatingWebhooks, validatingWebhooks, runtimeClasses, credentialSpecObjs,
		csiDrivers, classes, volumes,
	} {
		lists[k.gvr] = k.name + "List"
	}
	for _, w := range workloads() {
		lists[w.kind.gvr] = w.kind.name + "List"
	}
	var trees []runtime.Object
	for _, o := range objects {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				t.Fatal(err)
			}
			u = &unstructured.Unstructured{Object: m}
		}
		trees = append(trees, u)
	}
	disc := &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{},
		FakedServerVersion: &version.Info{GitVersion: gitVersion}}
	return &Cluster{dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists,
		trees...), discovery: disc}
}

func object(apiVersion, kind, namespace, name string, annotations map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(labels())
	u.SetAnnotations(annotations)
	return u
}

func TestOldClusterIsRefused(t *testing.T) {
	for gitVersion, text := range map[string]string{
		"v1.29.14": "matchConditions", "v1.22.0-eks-1": "1.30", "1.29+": "1.30", "v1.30.0": "", "v1.36.3": "",
		"v1.31.4-gke.100": "", "nonsense": "nonsense",
	} {
		err := fake(t, gitVersion).check()
		if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", gitVersion, err, text)
		}
	}
	c := fake(t, "v1.29.0")
	var old *TooOldError
	if err := Apply(t.Context(), c, good(), Options{}); !errors.As(err, &old) {
		t.Errorf("%v", err)
	}
	for _, a := range c.dynamic.(*dynamicfake.FakeDynamicClient).Actions() {
		t.Errorf("an old cluster was asked: %s %s", a.GetVerb(), a.GetResource().Resource)
	}
}

func TestUnreachable(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer s.Close()
	for name, cfg := range map[string]*rest.Config{
		"refuses": {Host: "http://127.0.0.1:1"}, "hangs": {Host: s.URL, Timeout: 100 * time.Millisecond},
	} {
		c, err := Connect(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := Apply(t.Context(), c, good(), Options{}); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: apply: %v", name, err)
		}
		if err := Remove(t.Context(), c, RemoveOptions{}); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: remove: %v", name, err)
		}
	}
}

func TestSecondInstallationIsRefused(t *testing.T) {
	c := fake(t, "v1.34.0", object("apps/v1", "Deployment", "elsewhere", Name, nil))
	var e *ElsewhereError
	if err := Apply(t.Context(), c, good(), Options{}); !errors.As(err, &e) || e.Namespace != "elsewhere" {
		t.Errorf("%v", err)
	}
}

func TestBuiltInManagerIsLeftAlone(t *testing.T) {
	hook := object("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "", "mullion", nil)
	hook.Object["webhooks"] = []any{map[string]any{"name": "placement.mullion.dev",
		"clientConfig": map[string]any{"url": "https://127.0.0.1:9443/placement"}}}
	c := fake(t, "v1.36.3", hook)
	var e *BuiltInError
	if err := Apply(t.Context(), c, good(), Options{}); !errors.As(err, &e) {
		t.Errorf("apply: %v", err)
	}
	if err := Remove(t.Context(), c, RemoveOptions{}); !errors.As(err, &e) {
		t.Errorf("remove: %v", err)
	}
}

// TestAuthoritiesThatCannotWork: managers would wait for them, or not trust
// anyone by them. Nothing is written before that check.
func TestAuthoritiesThatCannotWork(t *testing.T) {
	cfg := good()
	cfg.RegistryCerts = "company-ca"
	for problem, data := range map[string]map[string]any{
		"does not exist": nil, "has no key ca.crt": {"ca.pem": "x"}, "holds no certificate": {authoritiesKey: "x"},
	} {
		var there []runtime.Object
		if data != nil {
			o := object("v1", "ConfigMap", DefaultNamespace, "company-ca", nil)
			o.Object["data"] = data
			there = append(there, o)
		}
		c := fake(t, "v1.34.0", there...)
		var e *AuthoritiesError
		if err := Apply(t.Context(), c, cfg, Options{}); !errors.As(err, &e) ||
			!strings.Contains(err.Error(), problem) {
			t.Errorf("%v, want %q", err, problem)
		}
		for _, a := range c.dynamic.(*dynamicfake.FakeDynamicClient).Actions() {
			if a.GetVerb() != "get" && a.GetVerb() != "list" {
				t.Errorf("%s: %s %s", problem, a.GetVerb(), a.GetResource().Resource)
			}
		}
	}
	if err := fake(t, "v1.34.0").authorities(t.Context(), good()); err != nil {
		t.Error(err)
	}
}

func TestHelmReleaseIsLeftAlone(t *testing.T) {
	role := object("rbac.authorization.k8s.io/v1", "ClusterRole", "", Name,
		map[string]string{"meta.helm.sh/release-name": "r"})
	all := role.GetLabels()
	all[inventory.ManagedBy] = "Helm"
	role.SetLabels(all)
	c := fake(t, "v1.34.0", role)
	var e *HelmError
	if err := Remove(t.Context(), c, RemoveOptions{}); !errors.As(err, &e) || e.Release != "r" {
		t.Errorf("remove: %v", err)
	}
	objects, err := Objects(good())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() == "ClusterRole" {
			if _, err := c.compare(t.Context(), o, false); !errors.As(err, &e) {
				t.Errorf("compare: %v", err)
			}
		}
	}
}

// rollout is a Deployment whose one pod waits for a reason.
func stuckObjects(reason string) []runtime.Object {
	one := int32(1)
	d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   DefaultNamespace,
			Name:        Name,
			Labels:      labels(),
			Annotations: map[string]string{"deployment.kubernetes.io/revision": "2"},
		},
		Spec: appsv1.DeploymentSpec{Replicas: &one}}
	out := []runtime.Object{d}
	// The old pod waits, too, and does not count.
	for revision, why := range map[string]string{"1": "CrashLoopBackOff", "2": reason} {
		set := labels()
		set["pod-template-hash"] = "h" + revision
		out = append(out, &appsv1.ReplicaSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace:   DefaultNamespace,
				Name:        "rs" + revision,
				Labels:      set,
				Annotations: map[string]string{"deployment.kubernetes.io/revision": revision},
			}})
		out = append(out, &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: "p" + revision, Labels: set},
			Status: corev1.PodStatus{
				ContainerStatuses: []corev1.ContainerStatus{
					{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: why,
						Message: "because"}}}}}})
	}
	return out
}

func TestWaitSaysWhatIsStuck(t *testing.T) {
	var stuck *StuckError
	if err := Wait(t.Context(), fake(t, "v1.34.0", stuckObjects("ImagePullBackOff")...), good(),
		Options{}); !errors.As(err, &stuck) || stuck.Reason != "ImagePullBackOff" ||
		!strings.Contains(err.Error(), "p2") {
		t.Errorf("%v", err)
	}
	var waited string
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := Wait(ctx, fake(t, "v1.34.0", stuckObjects("ContainerCreating")...), good(), Options{Waiting: func(s string) {
		waited = s
		cancel()
	}})
	if !errors.Is(err, context.Canceled) || waited != "the managers: 0 of 1 run" {
		t.Errorf("%v after %q", err, waited)
	}
	failing := stuckObjects("")
	failing[0].(*appsv1.Deployment).Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
			Message: "exceeded quota"}}
	if err := Wait(t.Context(), fake(t, "v1.34.0", failing...), good(), Options{}); !errors.As(err, &stuck) ||
		stuck.Message != "exceeded quota" {
		t.Errorf("%v", err)
	}
}

// TestWaitForTheRegistrationThatIsMeant: after a change the webhooks are still
// registered as they were, and all managers run, for a moment.
func TestWaitForTheRegistrationThatIsMeant(t *testing.T) {
	const service, ca = inventory.Service, "authority"
	was := registration.Config{
		Service:            registration.Service{Namespace: DefaultNamespace, Name: service},
		Namespace:          DefaultNamespace,
		CABundle:           []byte(ca),
		RulesFailurePolicy: "Ignore",
	}
	for _, tc := range []struct {
		name    string
		edit    func(*registration.Config, *Config)
		missing string
	}{
		{name: "as it is meant", edit: func(*registration.Config, *Config) {}},
		{name: "policy", edit: func(_ *registration.Config, c *Config) { c.RulesFailurePolicy = "Fail" },
			missing: "failure policy Fail"},
		{name: "GMSA is to go", edit: func(_ *registration.Config, c *Config) { c.NoGMSA = true }, missing: "GMSA"},
		{name: "GMSA is to come", edit: func(r *registration.Config, _ *Config) { r.NoGMSA = true }, missing: "GMSA"},
		{name: "no authority", edit: func(r *registration.Config, _ *Config) { r.CABundle = nil },
			missing: "placement.mullion.dev"},
		{name: "elsewhere", edit: func(r *registration.Config, _ *Config) { r.Service.Namespace = "other" },
			missing: "placement.mullion.dev"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			is, cfg := was, good().withDefaults()
			tc.edit(&is, &cfg)
			missing, err := fake(t, "v1.34.0", is.Mutating(), is.Validating()).registered(t.Context(), cfg)
			if err != nil || (missing == "") != (tc.missing == "") || !strings.Contains(missing, tc.missing) {
				t.Errorf("%q, %v; want %q", missing, err, tc.missing)
			}
		})
	}
}

// TestRuntimeClassesInUseStay: a class that a workload names is not taken away
// from it.
func TestRuntimeClassesInUseStay(t *testing.T) {
	class := func(name string) runtime.Object {
		return object("node.k8s.io/v1", "RuntimeClass", "", name, nil)
	}
	user := object("apps/v1", "StatefulSet", "web", "iis", nil)
	user.Object["spec"] = map[string]any{
		"template": map[string]any{"spec": map[string]any{"runtimeClassName": "windows-2022"}}}
	for purge, want := range map[bool]string{
		false: "RuntimeClass windows-2022 kept: it is named by StatefulSet web/iis",
		true:  "RuntimeClass windows-2022 removed"} {
		c := fake(t, "v1.34.0", class("windows-2019"), class("windows-2022"), user.DeepCopy())
		var said []string
		r := &removal{c: c, opts: RemoveOptions{Purge: purge, Say: func(s Step) { said = append(said, s.String()) }},
			seen: map[string]bool{}}
		if err := r.runtimeClasses(t.Context()); err != nil {
			t.Fatal(err)
		}
		all := strings.Join(said, "\n")
		if len(said) != 2 || !strings.Contains(all, want) ||
			!strings.Contains(all, "RuntimeClass windows-2019 removed") {
			t.Errorf("purge %v:\n%s", purge, all)
		}
	}
}
