// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import "testing"

// TestFound reads what repositories have beside manifests: in a folder it is
// skipped, and a mistake where the user names it.
func TestFound(t *testing.T) {
	utf16 := "\xff\xfe"
	for _, b := range []byte("apiVersion: v1\nkind: Pod\n") {
		utf16 += string(rune(b)) + "\x00"
	}
	for _, c := range []struct {
		name, in string
		named    string // the code
		found    string // "" if it is skipped
	}{
		{"JSON patch", `[{"op": "add", "path": "/spec/os", "value": {"name": "windows"}}]`, "WIN908", ""},
		{"JSON patch as YAML", "- op: remove\n  path: /spec/os\n", "WIN908", ""},
		{"JSON with comments", "{\n  // the compiler's\n  \"target\": \"es2022\", /* x */\n}\n", "WIN901", ""},
		{"JSON with a last comma", `{"target": ["es2022",],}`, "WIN908", ""},
		{"JSON with a comment before it", "// editor\n{\"a\": \"//\"}\n", "WIN901", ""},
		{"template of Azure with comments",
			"{\n// x\n\"resources\": [{\"apiVersion\": \"2024-01-01\", \"kind\": \"app\"}]}", "WIN901", ""},
		{"manifest with comments", "{\n// x\n\"apiVersion\": \"v1\", \"kind\": \"Pod\"}", "WIN901", "WIN901"},
		{"values", "image: nginx\nimage: nginx\n", "WIN902", ""},
		{"template", "apiVersion: v1\nkind: {{ .kind }}\n{{- end }}\n", "WIN901", ""},
		{"template that YAML can read", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Name }}\n", "WIN901", ""},
		{"template in a list", "apiVersion: v1\nkind: Pod\nspec:\n  args:\n  - {{ .A }}\n  - b\n", "WIN901", ""},
		{"template with an instruction in a text", "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    {\n" +
			"{{- if .X}}\n      \"b\": {\n    },\n{{- end}}\n  c: d\n", "WIN901", ""},
		{"template in JSON", "{\n  \"apiVersion\": \"v1\",\n  \"clusters\": {\n    \"{{Var \"group\"}}\": 1\n  },\n" +
			"  \"kind\": \"Config\"\n}\n", "WIN901", ""},
		{"template with quotes", "apiVersion: v1\nkind: Secret\ndata:\n  a: \"{{Get \"x\"}}\"\n", "WIN901", ""},
		{"workflow with a mistake", "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec:\n    a: '{{b}}'\n  c: d\n",
			"WIN901", "WIN901"},
		{"patch of an image", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n" +
			"spec: {template: {spec: {containers: [{name: c, image: x}]}}}\n", "WIN804", ""},
		{"patch of labels", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n" +
			"spec: {template: {metadata: {labels: {a: b}}}}\n", "WIN804", ""},
		{"variable in a list", "apiVersion: v1\nkind: Pod\nspec:\n  args: [${ARGS}]\n  x: y\n", "WIN901", ""},
		{"variable at the beginning of a line",
			"apiVersion: v1\nkind: ConfigMap\ndata:\n  cert: |\n$CERT\n", "WIN901", ""},
		{"variable with text behind it",
			"apiVersion: v1\nkind: Service\nspec:\n  type: ClusterIP\n  # one\n  clusterIP: {PREFIX}.16\n" +
				"  ports: []\n", "WIN901", ""},
		{"template with a value further below",
			"apiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    a: b\n  name: {{.Name}}-{{.N}}\n", "WIN901", ""},
		{"annotations of a workload", "apiVersion: apps/v1\nkind: Deployment\n" +
			"metadata: {name: d, annotations: {a: b}}\nspec: {replicas: 2}\n", "WIN804", ""},
		{"variable in a broken manifest", "apiVersion: v1\nkind: ${KIND}\nspec:\n  a: b: c\n", "WIN901", "WIN901"},
		{"mapping as a key", "apiVersion: v1\nkind: Pod\nmetadata:\n  {a: b}: c\n", "WIN901", "WIN901"},
		{"broken settings", "a:\n\tb: c\n", "WIN901", ""},
		{"broken manifest", "apiVersion: v1\nkind: Pod\nspec:\n\tx: y\n", "WIN901", "WIN901"},
		{"manifest with a key twice", "apiVersion: v1\nkind: Pod\nkind: Pod\n", "WIN902", "WIN902"},
		{"not UTF-8", "a: \xff\n", "WIN904", ""},
		{"text with NUL", "a: b\x00\n", "WIN904", ""},
		{"UTF-16", "\xff\xfea\x00", "WIN904", ""},
		{"manifest in UTF-16", utf16, "WIN904", "WIN904"},
		{"without kind", "apiVersion: v1\n", "WIN908", ""},
	} {
		for _, found := range []bool{false, true} {
			want := c.named
			if found {
				want = c.found
			}
			got := ""
			in := text("x.json", c.in)
			in.Found = found
			sum, err := Run(t.Context(), Config{Inputs: []Input{in}}, func(r Result) error { got = r.Code; return nil })
			if err != nil || got != want || (sum.SkippedDocuments() > 0) != (want == "") {
				t.Errorf("%s, found %v: %q, %d skipped, want %q (%v)", c.name, found, got, sum.SkippedDocuments(), want,
					err)
			}
		}
	}
}

// TestExpectation: in a folder, files with parts of objects that a test expects are
// skipped.
func TestExpectation(t *testing.T) {
	for name, skipped := range map[string]int{
		"t/00-assert.yaml": 1, "t/02-errors.yaml": 1, "t/assert-job.yaml": 1, "t/00-install.yaml": 0, "errors.yaml": 0,
		"assertions/x.yaml": 0,
	} {
		in := text(name, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {selector: {}}\n")
		for _, in.Found = range []bool{false, true} {
			want := 0
			if in.Found {
				want = skipped
			}
			sum, err := Run(t.Context(), Config{Inputs: []Input{in}}, func(Result) error { return nil })
			if err != nil || sum.SkippedDocuments() != want || (sum.Errors > 0) != (want == 0) {
				t.Errorf("%s, found %v: %d skipped, %d errors, %v", name, in.Found, sum.SkippedDocuments(), sum.Errors,
					err)
			}
		}
	}
}
