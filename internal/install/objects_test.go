// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// values reads the values of the chart that a case is made of; the chart's own
// test renders the same files and compares with the same goldens.
func values(t *testing.T, name string) Config {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c Config
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestObjects(t *testing.T) {
	for _, name := range []string{"default", "everything", "no-gmsa"} {
		t.Run(name, func(t *testing.T) {
			objects, err := Objects(values(t, name))
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := Print(&b, "yaml", objects); err != nil {
				t.Fatal(err)
			}
			testenv.Golden(t, name+".yaml", b.Bytes())
		})
	}
}

// TestEveryObject holds for whatever is added: apply and remove find it.
func TestEveryObject(t *testing.T) {
	objects, err := Objects(values(t, "everything"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		k, err := kindOf(o)
		if err != nil {
			t.Error(err)
			continue
		}
		if k.namespaced != (o.GetNamespace() != "") {
			t.Errorf("%s: namespace %q", Describe(o), o.GetNamespace())
		}
		if k.gvr.GroupVersion().String() != o.GetAPIVersion() {
			t.Errorf("%s: %s is asked for at %s", Describe(o), o.GetAPIVersion(), k.gvr.GroupVersion())
		}
		for key, want := range labels() {
			if o.GetLabels()[key] != want {
				t.Errorf("%s: label %s is %q, want %q", Describe(o), key, o.GetLabels()[key], want)
			}
		}
		if _, has := o.Object["status"]; has {
			t.Errorf("%s has a status", Describe(o))
		}
	}
}

func TestSecretsAreReadOnlyIfAsked(t *testing.T) {
	for _, ask := range []bool{false, true} {
		c := Config{Image: "mullion/mullion:v1", ReadPullSecrets: ask}.withDefaults()
		found := slices.ContainsFunc(c.clusterRules(), func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "secrets") })
		if found != ask {
			t.Errorf("asked %v: a rule about secrets %v", ask, found)
		}
		for _, r := range slices.Concat(c.clusterRules(), c.manager().NamespaceRules()) {
			if slices.Contains(r.Verbs, "*") || slices.Contains(r.Resources, "*") || slices.Contains(r.APIGroups, "*") {
				t.Errorf("a rule with *: %+v", r)
			}
			if slices.Contains(r.Verbs, "escalate") || slices.Contains(r.Verbs, "bind") || slices.Contains(r.Verbs, "impersonate") {
				t.Errorf("a rule that gives away more than it says: %+v", r)
			}
		}
	}
}

func TestMerge(t *testing.T) {
	got := merge([]rbacv1.PolicyRule{
		rule("", "pods", "watch list"), rule("", "nodes", "list"), rule("", "nodes", "watch list"),
		rule("", "nodes", "list patch", "n1"), rule("apps", "deployments", "get", "b", "a"), rule("apps", "daemonsets", "get", "a", "b"),
		rule("", "events", "get", "x"), rule("", "events", "get"),
	})
	want := []rbacv1.PolicyRule{
		rule("", "events", "get"), rule("", "nodes", "patch", "n1"), rule("", "nodes pods", "list watch"), rule("apps", "daemonsets deployments", "get", "a", "b"),
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i].String() != want[i].String() {
			t.Errorf("rule %d\n%s, want\n%s", i, got[i].String(), want[i].String())
		}
	}
}

func TestValidate(t *testing.T) {
	good := Config{Image: "mullion/mullion:v1"}
	for _, c := range []struct {
		name string
		edit func(*Config)
		text string // "" if it is good
	}{
		{"defaults", func(*Config) {}, ""},
		{"digest", func(c *Config) {
			c.Image = "registry.example:5000/a/b@sha256:" + strings.Repeat("a", 64)
		}, ""},
		{"taint", func(c *Config) { c.WindowsTaint = "os=windows:NoSchedule" }, ""},
		{"no image", func(c *Config) { c.Image = "" }, "image"},
		{"image", func(c *Config) { c.Image = "Mullion:x y" }, "image"},
		{"namespace", func(c *Config) { c.Namespace = "Mullion" }, "namespace"},
		{"replicas", func(c *Config) { c.Replicas = -1 }, "replicas"},
		{"too many", func(c *Config) { c.Replicas = 1000 }, "replicas"},
		{"bad taint", func(c *Config) { c.WindowsTaint = "windows" }, "os=windows:NoSchedule"},
		{"policy", func(c *Config) { c.RulesFailurePolicy = "fail" }, "Ignore or Fail"},
		{"pull secret", func(c *Config) { c.ImagePullSecrets = []string{"A B"} }, "pull secret"},
		{"names of nobody", func(c *Config) { c.NoGMSA, c.GMSARandomHostname = true, true }, "GMSA"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := good
			c.edit(&cfg)
			_, err := Objects(cfg)
			if (err == nil) != (c.text == "") || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %q", err, c.text)
			}
		})
	}
}

func TestDefaultImage(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.2.3": true, "v1.0.0-rc.1": true, "v1.2.3-4-gabcdef0": false, "v1.2.3-dirty": false, "141a926": false, "v0.0.0-unknown": false,
	} {
		image, published := DefaultImage(version)
		if published != want || image != "mullion/mullion:"+version {
			t.Errorf("%s: %s, %v", version, image, published)
		}
		if err := (Config{Image: image}).Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestGoLimitIsBelowTheKernels(t *testing.T) {
	var mib int64
	if _, err := parseMiB(goMemoryLimit, &mib); err != nil || mib<<20 >= memoryLimit.Value() {
		t.Errorf("%s, %s: %v", goMemoryLimit, memoryLimit.String(), err)
	}
	if quotaPods.Value() < 2*maxReplicas {
		t.Error("a roll-out of the most replicas is above the quota")
	}
}

// TestConflict reads what an API server says.
func TestConflict(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{"kind": "Deployment", "metadata": map[string]any{"namespace": "n", "name": "d"}}}
	got := conflicts(o, conflict("kubectl-edit", ".spec.replicas"))
	if len(got) != 1 || got[0] != (Conflict{"Deployment n/d", ".spec.replicas", `"kubectl-edit" using apps/v1`}) {
		t.Errorf("%+v", got)
	}
	if text := got.Error(); !strings.Contains(text, `Deployment n/d: .spec.replicas is set by "kubectl-edit"`) {
		t.Error(text)
	}
}

// TestPodIsRestricted: what the namespace demands.
func TestPodIsRestricted(t *testing.T) {
	p := Config{Image: "i", Replicas: 1}.withDefaults().pod()
	c := p.Containers[0]
	if p.HostNetwork || len(p.Volumes) > 0 || !*p.SecurityContext.RunAsNonRoot || *p.SecurityContext.RunAsUser == 0 || p.SecurityContext.SeccompProfile == nil ||
		*c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem || !slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("%+v", p)
	}
}
