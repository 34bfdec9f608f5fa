// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/lint/linttest"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// BenchmarkLint lets mullion lint, with all rules on, and kubeconform read the
// same corpus in turn. kubeconform's schemas are made of the Kubernetes version
// that we link, complete and without references, as its published ones are.
func BenchmarkLint(b *testing.B) {
	testenv.Need(b, testenv.Built)
	kubeconform := testenv.Bin("peers", "kubeconform")
	if _, err := os.Stat(kubeconform); err != nil {
		b.Skip("run `make peers` first")
	}
	const resources, rounds = 9000, 5 // about 8 MB; pairs, the median of their ratios is reported
	corpus, schemas := write(b, resources), schemas(b)
	mullion := []string{testenv.Bin("mullion"), "lint", "--severity", "info", corpus}
	peer := []string{kubeconform, "-schema-location", filepath.Join(schemas, "{{.ResourceKind}}{{.KindSuffix}}.json"),
		"-n", strconv.Itoa(2), "-summary", corpus}
	var ours, theirs, ratios, cpu []float64
	for b.Loop() {
		for range rounds {
			k, m := measure(b, peer), measure(b, mullion)
			ours, theirs = append(ours, resources/m.wall.Seconds()), append(theirs, resources/k.wall.Seconds())
			ratios, cpu = append(ratios, k.wall.Seconds()/m.wall.Seconds()),
				append(cpu, k.cpu.Seconds()/m.cpu.Seconds())
		}
	}
	b.ReportMetric(median(ours), "resources/s")
	b.ReportMetric(median(theirs), "resources/s-kubeconform")
	b.ReportMetric(median(ratios), "x-kubeconform")
	b.ReportMetric(median(cpu), "x-kubeconform/cpu")
	b.ReportMetric(0, "ns/op") // the sum of both
}

// BenchmarkLintOneFile measures the time that a user waits: one file with two
// objects, from exec to exit.
func BenchmarkLintOneFile(b *testing.B) {
	testenv.Need(b, testenv.Built)
	file := write(b, 2)
	const runs = 40
	var took []float64
	for b.Loop() {
		for range runs {
			took = append(took, measure(b, []string{testenv.Bin("mullion"), "lint", file}).wall.Seconds()*1000)
		}
	}
	b.ReportMetric(median(took), "ms/file")
	b.ReportMetric(took[len(took)*95/100], "ms/file-p95") // median has sorted them
	b.ReportMetric(0, "ns/op")
}

// BenchmarkLintKustomize builds and judges an overlay of 200 files with one object each, and of 200 with two, from exec
// to exit, in turn with kubectl, which only builds it.
func BenchmarkLintKustomize(b *testing.B) {
	testenv.Need(b, testenv.Built)
	one, two := writeOverlay(b, 200, 1), writeOverlay(b, 200, 2)
	const runs = 11
	took, cpu := map[string][]float64{}, map[string][]float64{}
	run := func(name string, argv ...string) {
		m := measure(b, argv)
		took[name] = append(took[name], m.wall.Seconds()*1000)
		cpu[name] = append(cpu[name], m.cpu.Seconds()*1000)
	}
	for b.Loop() {
		for range runs {
			run("overlay", testenv.Bin("mullion"), "lint", "-k", one)
			run("two-objects", testenv.Bin("mullion"), "lint", "-k", two)
			run("kubectl", testenv.Bin("mullion-kube"), "kubectl", "kustomize", one)
			run("kubectl-two-objects", testenv.Bin("mullion-kube"), "kubectl", "kustomize", two)
		}
	}
	for name := range took {
		b.ReportMetric(median(took[name]), "ms/"+name)
		b.ReportMetric(median(cpu[name]), "ms/"+name+"-cpu")
	}
	b.ReportMetric(0, "ns/op")
}

// writeOverlay writes a base of so many files, and an overlay of it, and returns the overlay.
func writeOverlay(b *testing.B, count, objects int) string {
	b.Helper()
	dir := b.TempDir()
	files := map[string]string{
		"overlay/kustomization.yaml": "resources: [../base]\nnamePrefix: x-\nlabels: [{pairs: {team: a}}]\n" +
			"images: [{name: registry.example/app, newTag: 2.0.0}]\n" +
			"patches: [{target: {kind: Deployment}, path: patch.yaml}]\n",
		"overlay/patch.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: any}\nspec: {replicas: 3}\n",
	}
	base := "resources:\n"
	for i, text := range bytes.Split(linttest.Corpus(objects*count), []byte("---\n"))[1:] {
		name := fmt.Sprintf("app-%d.yaml", i/objects)
		if i%objects == 0 {
			base += "- " + name + "\n"
		}
		files["base/"+name] += "---\n" + string(text)
	}
	files["base/kustomization.yaml"] = base
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	return filepath.Join(dir, "overlay")
}

// BenchmarkLintMemory compares the peak of 5,000 with that of 50,000 documents.
func BenchmarkLintMemory(b *testing.B) {
	testenv.Need(b, testenv.Built)
	peak := func(n int) float64 {
		m := measure(b, []string{testenv.Bin("mullion"), "lint", "--severity", "info", write(b, n)})
		return float64(m.peak) / (1 << 20)
	}
	var few, many float64
	for b.Loop() {
		few, many = peak(5_000), peak(50_000)
	}
	b.ReportMetric(few, "MiB/5000")
	b.ReportMetric(many, "MiB/50000")
	b.ReportMetric(0, "ns/op")
}

// write writes a corpus of n resources.
func write(b *testing.B, n int) string {
	b.Helper()
	name := filepath.Join(b.TempDir(), "corpus.yaml")
	if err := os.WriteFile(name, linttest.Corpus(n), 0o644); err != nil {
		b.Fatal(err)
	}
	return name
}

// usage holds the resources that a run of a program used.
type usage struct {
	wall, cpu time.Duration
	peak      int64 // bytes resident
}

// measure runs a program. Findings (exit code 1) are not an error.
func measure(b *testing.B, argv []string) usage {
	b.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	wall := time.Since(begin)
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		b.Fatalf("%s: %v: %.500s", strings.Join(argv, " "), err, out)
	}
	if strings.Contains(string(out), "could not find schema") {
		b.Fatalf("%s: %.500s", strings.Join(argv, " "), out)
	}
	state := cmd.ProcessState
	return usage{wall: wall, cpu: state.UserTime() + state.SystemTime(),
		peak: state.SysUsage().(*syscall.Rusage).Maxrss << 10}
}

// schemas writes the JSON schemas of the kinds of the corpus, out of the
// OpenAPI document that is part of Kubernetes' module.
func schemas(b *testing.B) string {
	b.Helper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		b.Fatalf("find Kubernetes' module: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), "api", "openapi-spec", "swagger.json"))
	if err != nil {
		b.Fatal(err)
	}
	var api struct{ Definitions map[string]any }
	if err := json.Unmarshal(text, &api); err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	for name, definition := range map[string]string{"deployment-apps-v1": "io.k8s.api.apps.v1.Deployment",
		"service-v1": "io.k8s.api.core.v1.Service"} {
		schema, err := json.Marshal(inline(api.Definitions, api.Definitions[definition], nil))
		if err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), schema, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

// inline replaces references by what they stand for.
func inline(definitions map[string]any, at any, open []string) any {
	switch v := at.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/definitions/")
			if slices.Contains(open, name) { // a type that holds itself
				return map[string]any{}
			}
			return inline(definitions, definitions[name], append(open, name))
		}
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = inline(definitions, e, open)
		}
		if out["format"] == "int-or-string" ||
			strings.HasPrefix(fmt.Sprint(out["description"]), "Quantity is a fixed-point") {
			return map[string]any{"oneOf": []any{map[string]any{"type": "string"}, map[string]any{"type": "number"}}}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = inline(definitions, e, open)
		}
		return out
	}
	return at
}
