// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package settings

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/lint/checkout"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func known(code string) bool { return code == "WIN312" || code == "WIN336" }

const all = `# how lint checks this repository
exclude:
- vendor/
- "*.gen.yaml"
rules:
  WIN312: off
  WIN336: error
builds: [2022, 10.0.26100]
node-taints: [os=windows:NoSchedule]
kubernetes-version: 1.34
platform: eks
placed: true
baseline: ci/baseline.json
fail-on: error
`

func TestParse(t *testing.T) {
	got, err := parse("f", []byte(all), known)
	if err != nil {
		t.Fatal(err)
	}
	want := Settings{
		Exclude:    []string{"vendor/", "*.gen.yaml"},
		Rules:      map[string]policy.Severity{"WIN312": policy.None, "WIN336": policy.Error},
		Builds:     []string{"2022", "10.0.26100"},
		Taints:     []string{"os=windows:NoSchedule"},
		Kubernetes: "1.34",
		Platform:   "eks",
		Placed:     true,
		Baseline:   "ci/baseline.json",
		FailOn:     "error",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, empty := range []string{"", "# only a comment\n", "---\n"} {
		if got, err := parse("f", []byte(empty), known); err != nil || !reflect.DeepEqual(got, Settings{}) {
			t.Errorf("%q: %+v, %v", empty, got, err)
		}
	}
}

// TestDocumented: the example in the documentation is right, and has every key.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile(testenv.Repo("docs", "user", "lint.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```yaml\n# .mullion.yaml\n")
	example, _, _ = strings.Cut(example, "```")
	if _, err := parse("example", []byte(example), known); err != nil {
		t.Error(err)
	}
	for _, key := range keys() {
		if !strings.Contains(example, "\n"+key+":") && !strings.HasPrefix(example, key+":") {
			t.Errorf("no %s in the example", key)
		}
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"exclude: vendor\n":              "f:1:10: exclude: want a list",
		"exclude: [a, '[']\n":            "f:1:14: exclude: \"[\" is not a pattern",
		"a: b\n":                         "f:1:1: \"a\" is not a setting: want one of exclude, rules,",
		"rules: {WIN999: off}\n":         "f:1:9: rules: no rule has the code \"WIN999\"",
		"rules:\n  WIN312: none\n":       "f:2:11: rules: WIN312: want error, warning, info or off, not \"none\"",
		"rules: [WIN312]\n":              "f:1:8: rules: want a mapping",
		"builds:\n- 2022\n- 2023\n":      "f:3:3: builds: ",
		"node-taints: [a b]\n":           "f:1:15: node-taints: ",
		"kubernetes-version: x\n":        "f:1:21: kubernetes-version: ",
		"fail-on: all\n":                 "f:1:10: fail-on: ",
		"placed: 1\n":                    "f:1:9: placed: want true or false",
		"platform:\n":                    "f:1:10: platform: want a text",
		"platform: a\nplatform: b\n":     "f:2:1: \"platform\" is given twice",
		"- a\n":                          "f:1:1: the file: want a mapping",
		"rules: {\n":                     "f:1:1: ",
		"a: 1\n---\nb: 1\n":              "f:",
		"exclude: &x [a]\nbuilds: *x\n":  "f:2:9: builds: want a list",
		"platform: \xff\n":               "f:1:1: not UTF-8",
		strings.Repeat("# x\n", 100_000): "f:1:1: larger than 256 KiB",
	} {
		_, err := parse("f", []byte(text), known)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

func TestFind(t *testing.T) {
	dir := checkout.Real(t.TempDir())
	write := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	outer, file := write(".mullion.yaml"), write("r/a/b/x.yaml")
	write("r/.git")
	if got := Find(file); got != "" {
		t.Errorf("found %q outside of the checkout", got)
	}
	root := write("r/.mullion.yaml")
	for _, path := range []string{file, filepath.Dir(file), filepath.Join(dir, "r/gone.yaml")} {
		if got := Find(path); got != root {
			t.Errorf("found %q for %s", got, path)
		}
	}
	if closer := write("r/a/.mullion.yaml"); Find(file) != closer {
		t.Errorf("found %q", Find(file))
	}
	loose := write("s/x.yaml")
	if got := Find(loose); got != "" {
		t.Errorf("found %q above the folder of a file in no checkout", got)
	}
	t.Chdir(dir)
	if got := Find(loose); got != outer {
		t.Errorf("found %q in the working folder", got)
	}
}

// FuzzParse: no text panics, and what is read is within the limits.
func FuzzParse(f *testing.F) {
	f.Add([]byte(all))
	f.Add([]byte("a: &a [*a]\nrules: {<<: *a}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parse("f", text, known)
		if err == nil && len(got.Rules) > maxItems {
			t.Error("too many rules")
		}
		if err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("no place in %v", err)
		}
	})
}
