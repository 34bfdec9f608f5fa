// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package inventory

import (
	"bytes"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestObjects shows the objects of a manager, and where they are.
func TestObjects(t *testing.T) {
	m := Manager{
		Name:      "mullion:manager",
		Namespace: Namespace,
		Labels:    Labels(),
		Subject:   rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "manager"},
		ClusterRules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}},
		},
		NamespaceRules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{Secret},
				Verbs: []string{"get"}},
		},
	}
	var out bytes.Buffer
	for i, o := range append(m.Rights(), m.Space()) {
		u, err := Untyped(o)
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		fmt.Fprintf(&out, "# %s\n%s", Path(u), text)
	}
	testenv.Golden(t, "objects.yaml", out.Bytes())
}

func TestDefinition(t *testing.T) {
	crd, err := Definition(Labels())
	if err != nil {
		t.Fatal(err)
	}
	if want := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + CredentialSpecs; Path(crd) != want {
		t.Errorf("it is at %s, want %s", Path(crd), want)
	}
	root := tree.Root(crd.Object)
	versions := root.Find("spec", "versions").Items()
	if crd.GetLabels()[ManagedBy] != Owner || root.Find("spec", "scope").Str() != "Cluster" || len(versions) != 2 {
		t.Errorf("%v", crd)
	}
	for i, want := range []struct {
		name    string
		storage bool
	}{{"v1alpha1", false}, {"v1", true}} {
		v := versions[i]
		if v.Find("name").Str() != want.name || v.Find("storage").True() != want.storage || !v.Find("served").True() ||
			!v.Find("schema", "openAPIV3Schema", "properties", "credspec").Set() {
			t.Errorf("%s: %v", want.name, v.Raw())
		}
	}
}
