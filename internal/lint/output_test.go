// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mullion-k8s/mullion/internal/lint/checkout"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

const windowsPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  os: {name: windows}\n" +
	"  nodeSelector: {kubernetes.io/os: windows}\n  containers:\n  - name: 'c'\n" +
	"    image: mcr.microsoft.com/windows/nanoserver:ltsc2022\n    resources: {limits: {memory: 1Gi}}\n"

// printed returns the output of a run.
func printed(t *testing.T, o Output, cfg Config, notes ...Note) []byte {
	t.Helper()
	var out bytes.Buffer
	p, err := NewPrinter(o, &out)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := Run(t.Context(), cfg, p.Print)
	if err != nil {
		t.Fatal(err)
	}
	sum.Notes = notes
	if err := p.Close(sum); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestFormats: every format of the list has a printer, and others have none.
func TestFormats(t *testing.T) {
	for _, f := range Formats() {
		if _, err := NewPrinter(Output{Format: f, Root: "."}, &bytes.Buffer{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := NewPrinter(Output{Format: "xml"}, &bytes.Buffer{}); err == nil {
		t.Error("xml is a format")
	}
}

// strange are inputs whose names and contents need escapes.
func strange() []Input {
	bad := windowsPod + "    securityContext: {privileged: false}\n"
	skipped := text("skipped.json", "[1]")
	skipped.Found = true
	return []Input{
		text("<stdin>", bad),
		text("a b/ü%,:#?.yaml", bad),
		text("c.yaml", "a:\n\tb\n"),
		text("d.yaml", strings.Replace(bad, "name: p}", "name: \"<p>\\n%0A::error::\\u0001\"}", 1)),
		text("e.yaml", bad+"    # mullion:ignore WIN312 why\n"),
		text("f.yaml", strings.Replace(bad, "{privileged", "{\"privileged\"", 1)+"---\n"+strings.ToUpper(bad)),
		text("g.yaml", strings.Replace(bad, "false}", "false} # mullion:ignore WIN021 <it & that>", 1)),
		text("unseen.yaml", "apiVersion: a.io/v1\nkind: K\nmetadata: {name: n}\nspec:\n  steps: [{image: b}]\n"),
		skipped, File("gone.yaml"),
	}
}

// TestSARIF validates what is written against the standard's schema.
func TestSARIF(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile(filepath.Join("testdata", "sarif", "schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	validate := func(name string, out []byte) {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(out))
		if err != nil {
			t.Fatalf("%s: %v:\n%s", name, err, out)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := Output{Format: "sarif", Version: "v1", Root: checkout.Real(".")}
	out := printed(t, o, Config{Inputs: strange(), Severity: policy.Info, Fixes: true}, Note{"a", "b"}, Note{"", "c"})
	validate("strange inputs", out)
	for _, want := range []string{
		`"uri":"gone.yaml","uriBaseId":"%SRCROOT%"`, `"uri":"a%20b/%C3%BC%25,:%23%3F.yaml"`, `"uri":"skipped.json"`,
		`"helpUri":"https://github.com/mullion-k8s/mullion/blob/main/docs/reference/rules.md#win021-privileged-on-`,
		`"justification":"\u003cit \u0026 that\u003e"`, `"deletedRegion":`, `"mullionFinding/v1":"`, `"endColumn":`,
	} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	validate("nothing", printed(t, o, Config{}))
	for name, ar := range testenv.Archives(t, "testdata/*.txtar") {
		var inputs []Input
		for _, f := range ar.Files {
			inputs = append(inputs, text(f.Name, string(f.Data)))
		}
		cfg := Config{Inputs: inputs, Facts: factsOf(t, string(ar.Comment)), Severity: policy.Info, Fixes: true}
		validate(name, printed(t, o, cfg))
	}
}

// TestHelp: the addresses of rules are headings of the reference.
func TestHelp(t *testing.T) {
	reference, err := os.ReadFile(testenv.Repo("docs", "reference", "rules.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range allRules() {
		u, err := url.Parse(ruleURL(&r))
		heading := "\n### " + r.Code + ": " + r.Title + "\n"
		if err != nil || !strings.HasPrefix(u.Fragment, strings.ToLower(r.Code)+"-") ||
			!bytes.Contains(reference, []byte(heading)) {
			t.Errorf("%s: %v, %v", r.Code, u, err)
		}
	}
}

// TestReplacements applies the replacements of each result to its file: the
// finding is gone, and nothing else is new.
func TestReplacements(t *testing.T) {
	inputs := map[string]string{"quoted": windowsPod + "    securityContext: {\"privileged\": false, runAsUser: 1}\n"}
	for name, ar := range testenv.Archives(t, "testdata/*.txtar") {
		for _, f := range ar.Files {
			if f.Name != "findings" && !strings.HasPrefix(f.Name, "fixed/") {
				inputs[name+" "+f.Name] = string(f.Data)
			}
		}
	}
	applied := 0
	for name, content := range inputs {
		results := func(content string) (out []Result) {
			cfg := Config{Inputs: []Input{text("x.yaml", content)}, Fixes: true}
			if _, err := Run(t.Context(), cfg, func(r Result) error { out = append(out, r); return nil }); err != nil {
				t.Fatal(err)
			}
			return out
		}
		identities := func(content string) map[Identity]int {
			out := map[Identity]int{}
			for _, r := range results(content) {
				out[r.Identity("")]++
			}
			return out
		}
		before := identities(content)
		for _, r := range results(content) {
			if len(r.fix) == 0 {
				continue
			}
			applied++
			fixed := replace(t, content, r.fix)
			after := identities(fixed)
			if id := r.Identity(""); after[id] >= before[id] {
				t.Errorf("%s: %s at %s stays:\n%s", name, r.Code, r.Field, fixed)
			}
			for id, n := range after {
				if n > before[id] && (strings.HasPrefix(id.Rule, "WIN9") || id.Rule < "WIN100") {
					t.Errorf("%s: the fix of %s at %s makes %+v:\n%s", name, r.Code, r.Field, id, fixed)
				}
			}
		}
	}
	if applied < 20 {
		t.Errorf("only %d results have fixes", applied)
	}
}

// replace applies replacements to a text, from its end.
func replace(t *testing.T, text string, fixes []replacement) string {
	t.Helper()
	offset := func(line, column int) int {
		starts := lineStarts([]byte(text))
		if line > len(starts) {
			t.Fatalf("line %d of %d", line, len(starts))
		}
		at := starts[line-1]
		for range column - 1 {
			_, size := utf8.DecodeRuneInString(text[at:])
			at += size
		}
		return at
	}
	slices.SortFunc(fixes, func(a, b replacement) int {
		return cmp.Or(cmp.Compare(b.line, a.line), cmp.Compare(b.column, a.column))
	})
	for _, f := range fixes {
		text = text[:offset(f.line, f.column)] + f.with + text[offset(f.endLine, f.endColumn):]
	}
	return text
}

// TestGitHub: each command is one line, whose properties are those of the result.
func TestGitHub(t *testing.T) {
	out := string(printed(t, Output{Format: "github", Root: "."}, Config{Inputs: strange()}))
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "::error file=") && !strings.HasPrefix(line, "::warning file=") {
			t.Errorf("not a command: %s", line)
		}
	}
	for _, want := range []string{
		"::error file=a b/ü%25%2C%3A#?.yaml,line=11,endLine=11,col=23,endColumn=33,title=WIN021::privileged: the API " +
			"server refuses the field, whatever its value, on a pod with spec.os.name: windows%0Afix: remove it;",
		"::error file=c.yaml,line=2,endLine=2,col=1,endColumn=2,title=WIN901::",
		"::error file=f.yaml,line=11,endLine=11,col=23,endColumn=35,title=WIN021::",
		"::error file=gone.yaml,line=1,endLine=1,col=1,endColumn=1,title=WIN910::this cannot be read: no such file",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if strings.Contains(out, "g.yaml") {
		t.Error("a suppressed finding is an annotation")
	}
}

// TestJUnit reads what is written as a CI server would.
func TestJUnit(t *testing.T) {
	out := printed(t, Output{Format: "junit", Root: "."}, Config{Inputs: strange()})
	var got struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	if err := xml.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	failures := map[string]int{}
	for _, s := range got.Suites {
		failed, skipped := 0, 0
		for _, c := range s.Cases {
			if c.Failure != nil {
				failed++
			}
			if c.Skipped != nil {
				skipped++
			}
		}
		failures[s.Name] = failed
		if failed != s.Failures || skipped != s.Skipped || len(s.Cases) != s.Tests {
			t.Errorf("%s counts %d failures, %d skipped, %d tests", s.Name, s.Failures, s.Skipped, s.Tests)
		}
	}
	for name, want := range map[string]int{
		"mullion lint": 0, "<stdin>": 1, "a b/ü%,:#?.yaml": 1, "g.yaml": 0, "gone.yaml": 1,
	} {
		if n, ok := failures[name]; n != want || !ok {
			t.Errorf("%s: %d failures", name, n)
		}
	}
}

// TestJSONNotes: what was not checked is in the output too.
func TestJSONNotes(t *testing.T) {
	out := printed(t, Output{Format: "json", Root: "."}, Config{Inputs: strange()}, Note{"chart", "skipped the chart"})
	for _, want := range []string{
		`{"skipped":{"file":"skipped.json","documents":1}}`, `{"notLookedAt":{"kind":"K","group":"a.io","objects":1}}`,
		`{"note":{"file":"chart","text":"skipped the chart"}}`,
	} {
		if !bytes.Contains(out, []byte(want+"\n")) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	for line := range bytes.Lines(out) {
		if !json.Valid(line) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

func TestPaths(t *testing.T) {
	dir := checkout.Real(t.TempDir())
	if err := os.MkdirAll(filepath.Join(dir, "r/sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("r", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(dir, "r", "sub"))
	p := NewPaths(filepath.Join(dir, "link"))
	for file, want := range map[string]string{
		"a.yaml": "sub/a.yaml", "../b.yaml": "b.yaml", "./x/../a.yaml": "sub/a.yaml",
		filepath.Join(dir, "link/sub/c.yaml"): "sub/c.yaml",
		"../../o.yaml":                        filepath.ToSlash(filepath.Join(dir, "o.yaml")),
		"<stdin>":                             "<stdin>", "": "", "..x.yaml": "sub/..x.yaml",
	} {
		if got := p.Of(file); got != want {
			t.Errorf("%q is %q, want %q", file, got, want)
		}
	}
}
