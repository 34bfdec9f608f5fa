// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package chart_test renders the Helm chart with Helm's own engine, and compares
// with the objects of `mullion install` for the same values, which are goldens
// of internal/install. It is a module of its own, because Helm wants other
// versions of Kubernetes' libraries than the control plane
// (docs/internals/install.md).
package chart_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// Where the module's own files end.
const (
	chartDir  = "../../../charts/mullion"
	goldenDir = "../../../internal/install/testdata"
)

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render returns the objects that `helm install` would create, by kind and name.
func render(c *chart.Chart, values []byte) (map[string]any, error) {
	var v map[string]any
	if err := yaml.Unmarshal(values, &v); err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(c, v, common.ReleaseOptions{
		Name:      "mullion",
		Namespace: "mullion-system",
		Revision:  1,
		IsInstall: true,
	}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(c, all)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			if err := objects(text, out); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	for _, crd := range c.CRDObjects() {
		if err := objects(string(crd.File.Data), out); err != nil {
			return nil, fmt.Errorf("%s: %w", crd.Name, err)
		}
	}
	return out, nil
}

// objects reads documents.
func objects(text string, into map[string]any) error {
	for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
		var o map[string]any
		if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
			return fmt.Errorf("%w:\n%s", err, doc)
		}
		if len(o) == 0 {
			continue
		}
		meta, ok := o["metadata"].(map[string]any)
		if !ok {
			return fmt.Errorf("no object:\n%s", doc)
		}
		key := fmt.Sprintf("%v %v", o["kind"], meta["name"])
		if into[key] != nil {
			return fmt.Errorf("%s is there twice", key)
		}
		into[key] = o
	}
	return nil
}

// TestSameAsInstall: for the same values the chart has the objects of
// `mullion install`, but for the namespace, which Helm's user makes.
func TestSameAsInstall(t *testing.T) {
	cases, err := filepath.Glob(filepath.Join(goldenDir, "*.values.yaml"))
	if err != nil || len(cases) == 0 {
		t.Fatal("no cases", err)
	}
	c := load(t)
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".values.yaml"), func(t *testing.T) {
			values, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := render(c, values)
			if err != nil {
				t.Fatal(err)
			}
			golden, err := os.ReadFile(strings.TrimSuffix(file, ".values.yaml") + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{}
			if err := objects(string(golden), want); err != nil {
				t.Fatal(err)
			}
			delete(want, "Namespace mullion-system")
			if crd := "CustomResourceDefinition gmsacredentialspecs.windows.k8s.io"; want[crd] == nil {
				delete(got, crd) // --skip-crds
			}
			for _, line := range differences("", want, got) {
				t.Error(line)
			}
		})
	}
}

// differences lists the paths at which two trees differ.
func differences(path string, want, got any) []string {
	w, isMap := want.(map[string]any)
	g, both := got.(map[string]any)
	if isMap && both {
		var out []string
		for k := range w {
			out = append(out, differences(path+"/"+k, w[k], g[k])...)
		}
		for k := range g {
			if _, ok := w[k]; !ok {
				out = append(out, fmt.Sprintf("%s/%s: only in the chart: %v", path, k, g[k]))
			}
		}
		slices.Sort(out)
		return out
	}
	wl, isList := want.([]any)
	gl, both := got.([]any)
	if isList && both && len(wl) == len(gl) {
		var out []string
		for i := range wl {
			out = append(out, differences(fmt.Sprintf("%s/%d", path, i), wl[i], gl[i])...)
		}
		return out
	}
	if !reflect.DeepEqual(want, got) {
		return []string{fmt.Sprintf("%s: the chart has %v, mullion install %v", path, got, want)}
	}
	return nil
}

// TestBadValues: what mullion install refuses, the chart's schema refuses.
func TestBadValues(t *testing.T) {
	c := load(t)
	for _, bad := range []string{
		"replicas: 0", "replicas: many", "windowsTaint: windows", "rulesFailurePolicy: fail", "readPullSecrets: 1",
		"imagePullSecrets: [\"\"]", "noRegistries: maybe", "insecureRegistries: registry.example",
		"insecureRegistries: [\"https://registry.example\"]", "insecureRegistries: [registry]",
		"registryCerts: Company CA", "{noRegistries: true, registryCerts: ca}",
		"{noRegistries: true, readPullSecrets: true}",
		"replcas: 3",
	} {
		if _, err := render(c, []byte(bad)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

// TestImageOfTheRelease: a packaged chart names its own version.
func TestImageOfTheRelease(t *testing.T) {
	c := load(t)
	c.Metadata.AppVersion = "v1.2.3"
	got, err := render(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(got["Deployment mullion-manager"])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "image: mullion/mullion:v1.2.3\n") {
		t.Error(string(text))
	}
}
