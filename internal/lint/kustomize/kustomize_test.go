// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kustomize

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mullion-k8s/mullion/internal/lint/checkout"
)

// unpack writes the files of an archive into a folder, and returns it.
func unpack(t testing.TB, archive string) string {
	t.Helper()
	dir := checkout.Real(t.TempDir())
	for _, f := range txtar.Parse([]byte(archive)).Files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n"

func TestBuild(t *testing.T) {
	for _, c := range []struct {
		name, files string
		objects     []string // KIND NAME FILE
		partial     bool     // the objects are
		within      string   // the folder that the user named
		left        string   // part of what is left out
		err         string   // part of the error
	}{
		{
			name: "overlay",
			files: "-- o/kustomization.yaml --\nresources: [../b]\nnamePrefix: x-\n" +
				"-- b/kustomization.yaml --\nresources: [m.yaml]\n-- b/m.yaml --\n" + configMap,
			objects: []string{"ConfigMap x-m b/m.yaml"},
		}, {
			name: "items of a List, and annotations that are null",
			files: "-- o/kustomization.yaml --\nresources: [l.yaml]\nbuildMetadata: [originAnnotations]\n" +
				"-- o/l.yaml --\napiVersion: v1\nkind: List\nitems:\n" +
				"- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: null}}\n" +
				"- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n",
			objects: []string{"ConfigMap a o/l.yaml", "ConfigMap b o/l.yaml"},
		}, {
			name: "generator of a base",
			files: "-- o/kustomization.yaml --\nresources: [../b]\nnameSuffix: -x\n" +
				"-- b/kustomization.yaml --\nconfigMapGenerator: [{name: g, literals: [a=b]}]\n",
			objects: []string{"ConfigMap g-x-4h2mbtbbt6 b/kustomization.yaml"},
		}, {
			name: "old fields",
			files: "-- o/kustomization.yaml --\nbases: [../b]\ncommonLabels: {a: b}\n" +
				"patchesStrategicMerge: [p.yaml]\n" +
				"-- o/p.yaml --\n" + configMap + "data: {a: b}\n" +
				"-- b/kustomization.yml --\nresources: [m.yaml]\n-- b/m.yaml --\n" + configMap,
			objects: []string{"ConfigMap m b/m.yaml"},
		}, {
			name: "remote",
			files: "-- o/kustomization.yaml --\nresources: [m.yaml, 'github.com/org/repo//x?ref=v1', " +
				"'https://example.org/x.yaml']\n-- o/m.yaml --\n" + configMap,
			objects: []string{"ConfigMap m o/m.yaml"},
			left:    "github.com/org/repo//x?ref=v1 is remote",
		}, {
			name:  "only remote",
			files: "-- o/kustomization.yaml --\nresources: ['git@example.org:repo.git']\n",
			left:  "git@example.org:repo.git is remote",
		}, {
			name: "base with nothing but remote",
			files: "-- o/kustomization.yaml --\nresources: [../b, m.yaml]\n-- o/m.yaml --\n" + configMap +
				"-- b/kustomization.yaml --\nresources: ['https://example.org/x']\n",
			objects: []string{"ConfigMap m o/m.yaml"},
			left:    "https://example.org/x is remote",
		}, {
			name:    "secret that is not in the repository",
			files:   "-- o/kustomization.yaml --\nsecretGenerator: [{name: s, envs: [.env], files: [a=b.txt]}]\n",
			objects: []string{"Secret s-46f8b28mk5 o/kustomization.yaml"},
			partial: true,
		}, {
			name: "plugin",
			files: "-- o/kustomization.yaml --\ngenerators: [g.yaml]\nresources: [m.yaml]\n-- o/m.yaml --\n" +
				configMap + "-- o/g.yaml --\napiVersion: viaduct.ai/v1\nkind: ksops\n" +
				"metadata:\n  name: g\n  annotations:\n" +
				"    config.kubernetes.io/function: 'exec: {path: /bin/false}'\n",
			objects: []string{"ConfigMap m o/m.yaml"},
			left:    "the plugin of g.yaml does not run",
		}, {
			name:  "missing",
			files: "-- o/kustomization.yaml --\nresources: [gone.yaml]\n",
			left:  "gone.yaml does not exist",
		}, {
			name: "patch that a script makes",
			files: "-- o/kustomization.yaml --\nresources: [m.yaml]\npatches: [{path: params.yaml}]\n" +
				"-- o/m.yaml --\n" + configMap,
			objects: []string{"ConfigMap m o/m.yaml"},
			left:    "params.yaml does not exist",
		}, {
			name:  "no kustomization",
			files: "-- o/kustomization.yaml --\nresources: {}\n",
			err:   "invalid Kustomization",
		}, {
			name:    "file elsewhere in the checkout",
			files:   "-- .git/x --\n-- o/kustomization.yaml --\nresources: [../m.yaml]\n-- m.yaml --\n" + configMap,
			objects: []string{"ConfigMap m m.yaml"},
		}, {
			name: "file outside of the checkout",
			files: "-- r/.git/x --\n-- r/o/kustomization.yaml --\nresources: [../../m.yaml]\n-- m.yaml --\n" +
				configMap,
			err: "it is outside of",
		}, {
			name:  "file elsewhere, without a checkout",
			files: "-- o/kustomization.yaml --\nresources: [../m.yaml]\n-- m.yaml --\n" + configMap,
			err:   "is not in or below",
		}, {
			name:    "file elsewhere in the folder that the user named",
			files:   "-- o/kustomization.yaml --\nresources: [../m.yaml]\n-- m.yaml --\n" + configMap,
			within:  ".",
			objects: []string{"ConfigMap m m.yaml"},
		}, {
			name: "base outside of the folder that the user named",
			files: "-- o/kustomization.yaml --\nresources: [../b]\n-- b/kustomization.yaml --\nresources: [m.yaml]\n" +
				"-- b/m.yaml --\n" + configMap,
			within:  "o",
			objects: []string{"ConfigMap m b/m.yaml"},
		}, {
			name:   "file outside of the folder that the user named",
			files:  "-- o/kustomization.yaml --\nresources: [../m.yaml]\n-- m.yaml --\n" + configMap,
			within: "o",
			err:    "it is outside of",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := unpack(t, c.files)
			top := filepath.Join(dir, "o")
			if strings.Contains(c.files, "-- r/o/") {
				top = filepath.Join(dir, "r/o")
			}
			var within []string
			if c.within != "" {
				within = []string{filepath.Join(dir, c.within)}
			}
			set, err := Read(t.Context(), []string{top}, within)
			if err != nil {
				t.Fatal(err)
			}
			made, err := set.Build(t.Context(), top)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			var got []string
			for _, o := range made.Objects {
				meta, _ := o.Tree["metadata"].(map[string]any)
				file, _ := filepath.Rel(dir, o.File)
				if o.Partial != c.partial {
					t.Errorf("partial is %v", o.Partial)
				}
				got = append(got, fmt.Sprint(o.Tree["kind"], " ", meta["name"], " ", file))
				if meta["annotations"] != nil {
					t.Errorf("annotations stay: %v", meta)
				}
			}
			if !slices.Equal(got, c.objects) {
				t.Errorf("objects %q, want %q", got, c.objects)
			}
			if left := strings.Join(made.Left, "\n"); !strings.Contains(left, c.left) || c.left == "" && left != "" {
				t.Errorf("left out: %q, want %q", left, c.left)
			}
		})
	}
}

// TestTrees: objects are as kubectl reads them, and equal ones of several builds
// are in memory once.
func TestTrees(t *testing.T) {
	dir := unpack(t, "-- a/kustomization.yaml --\nresources: [../b]\n-- c/kustomization.yaml --\nresources: [../b]\n"+
		"-- b/kustomization.yaml --\nresources: [m.yaml]\n-- b/m.yaml --\n"+configMap+
		"data: {at: 2019-03-20T17:54:53Z, n: '1'}\n")
	set, err := Read(t.Context(), []string{filepath.Join(dir, "a"), filepath.Join(dir, "c")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var data []map[string]any
	for _, top := range []string{"a", "c"} {
		made, err := set.Build(t.Context(), filepath.Join(dir, top))
		if err != nil || len(made.Objects) != 1 || made.Objects[0].File != filepath.Join(dir, "b/m.yaml") {
			t.Fatalf("%+v, %v", made, err)
		}
		values, _ := made.Objects[0].Tree["data"].(map[string]any)
		if values["at"] != "2019-03-20T17:54:53Z" {
			t.Errorf("a timestamp is %T %[1]v", values["at"])
		}
		data = append(data, values)
	}
	if len(set.trees) != 1 || reflect.ValueOf(data[0]).Pointer() != reflect.ValueOf(data[1]).Pointer() {
		t.Errorf("%d trees", len(set.trees))
	}
}

// TestTops: what others use, and components, are not built alone, unless the user
// names them.
func TestTops(t *testing.T) {
	dir := unpack(t, "-- o/kustomization.yaml --\nresources: [../b]\ncomponents: [../c]\n"+
		"-- b/kustomization.yaml --\nresources: [m.yaml]\n-- b/m.yaml --\n"+configMap+
		"-- c/kustomization.yaml --\napiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"+
		"patches: [{path: p.yaml}]\n"+
		"-- c/p.yaml --\n"+configMap+"data: {a: b}\n-- b/other.yaml --\n"+configMap)
	o, b, c := filepath.Join(dir, "o"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	set, err := Read(t.Context(), []string{b, c, o}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Tops(nil, []string{b, c, o}); !slices.Equal(got, []string{o}) {
		t.Errorf("built: %q", got)
	}
	if got := set.Tops([]string{b}, []string{b, c, o}); !slices.Equal(got, []string{b, o}) {
		t.Errorf("built, with one named: %q", got)
	}
	for name, want := range map[string]bool{
		"o/kustomization.yaml": true, "b/m.yaml": true, "c/p.yaml": true, "b/other.yaml": false,
	} {
		if set.Names(filepath.Join(dir, name)) != want {
			t.Errorf("a kustomization names %s: want %v", name, want)
		}
	}
}

// TestCircle: folders that use each other are built, so that the user hears of it.
func TestCircle(t *testing.T) {
	dir := unpack(t, "-- a/kustomization.yaml --\nresources: [../b]\n-- b/kustomization.yaml --\nresources: [../a]\n")
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	set, err := Read(t.Context(), []string{a, b}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Tops(nil, []string{a, b}); !slices.Equal(got, []string{a}) {
		t.Errorf("built: %q", got)
	}
	if _, err := set.Build(t.Context(), a); err == nil || !strings.Contains(err.Error(), "cycle") {
		t.Errorf("built with %v", err)
	}
}

// BenchmarkBuild builds an overlay of 200 files.
func BenchmarkBuild(b *testing.B) {
	var base, files strings.Builder
	for i := range 200 {
		fmt.Fprintf(&base, "- m%d.yaml\n", i)
		fmt.Fprintf(&files, "-- b/m%d.yaml --\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: m%[1]d}\n"+
			"spec:\n"+
			"  template:\n    spec:\n      containers: [{name: c, image: nginx}]\n", i)
	}
	dir := unpack(b, "-- o/kustomization.yaml --\nresources: [../b]\nnamePrefix: x-\nlabels: [{pairs: {a: b}}]\n"+
		"patches: [{target: {kind: Deployment}, path: p.yaml}]\n-- o/p.yaml --\napiVersion: apps/v1\n"+
		"kind: Deployment\nmetadata: {name: any}\nspec: {replicas: 2}\n-- b/kustomization.yaml --\nresources:\n"+
		base.String()+files.String())
	for b.Loop() {
		set, err := Read(b.Context(), []string{filepath.Join(dir, "o")}, nil)
		if err != nil {
			b.Fatal(err)
		}
		if made, err := set.Build(b.Context(), filepath.Join(dir, "o")); err != nil || len(made.Objects) != 200 {
			b.Fatal(len(made.Objects), err)
		}
	}
}
