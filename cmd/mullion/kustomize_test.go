// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/place"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestFixKeepsSystems fixes trees of kustomizations: what kubectl kustomize then
// makes of every folder are the same objects, for the same operating systems.
func TestFixKeepsSystems(t *testing.T) {
	testenv.Need(t, testenv.Built)
	for name, archive := range testenv.Archives(t, "testdata/kustomize/*.txtar") {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var folders []string
			for _, f := range archive.Files {
				path := filepath.Join(dir, f.Name)
				if filepath.Base(path) == "kustomization.yaml" && !strings.HasPrefix(f.Name, "components/") {
					folders = append(folders, filepath.Dir(path))
				}
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, f.Data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			before := map[string][]string{}
			for _, f := range folders {
				before[f] = systems(t, f)
			}
			out, err := exec.Command(testenv.Bin("mullion"), "lint", "--fix", "--builds", "2022", dir).CombinedOutput()
			if !changed(t, dir, archive) {
				t.Errorf("nothing was fixed: %v: %s", err, out)
			}
			for _, f := range folders {
				if after := systems(t, f); !slices.Equal(before[f], after) {
					t.Errorf("%s: before %q, after %q\n%s", f, before[f], after, out)
				}
			}
		})
	}
}

// changed reports whether a file of an archive has another text now.
func changed(t *testing.T, dir string, archive *txtar.Archive) bool {
	t.Helper()
	for _, f := range archive.Files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != string(f.Data) {
			return true
		}
	}
	return false
}

// systems lists what kubectl kustomize makes of a folder: the kind, the name, and
// the operating system of the pods.
func systems(t *testing.T, dir string) []string {
	t.Helper()
	text, err := exec.Command(testenv.Bin("mullion-kube"), "kubectl", "kustomize", dir).Output()
	if err != nil {
		t.Fatalf("kubectl kustomize %s: %v", dir, err)
	}
	judge := rule.New(policy.Facts{})
	var out []string
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		v := tree.Root(object)
		line := v.Find("kind").Str() + " " + v.Find("metadata", "name").Str()
		for _, p := range place.Pods(judge, policy.Parse(object), policy.Facts{}) {
			line += fmt.Sprintf(" %q", p.OS)
		}
		out = append(out, line)
	}
	if len(out) == 0 {
		t.Fatalf("kubectl kustomize %s makes nothing", dir)
	}
	return out
}
