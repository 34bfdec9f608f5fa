// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/place"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

func text(name, content string) Input {
	return Input{Name: name, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
}

func lintText(t testing.TB, content string) []Result {
	t.Helper()
	var out []Result
	_, err := Run(context.Background(), Config{Inputs: []Input{text("x.yaml", content)}}, func(r Result) error {
		out = append(out, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// factsOf reads "builds:" and "taints:" of a golden file's comment.
func factsOf(t testing.TB, comment string) policy.Facts {
	var f policy.Facts
	var taints []policy.Taint
	for line := range strings.Lines(comment) {
		if rest, ok := strings.CutPrefix(line, "taints: "); ok {
			taint, err := policy.ParseTaint(strings.TrimSpace(rest))
			if err != nil {
				t.Fatal(err)
			}
			taints = append(taints, taint)
		}
	}
	for line := range strings.Lines(comment) {
		if rest, ok := strings.CutPrefix(line, "builds: "); ok {
			for s := range strings.FieldsSeq(rest) {
				b, err := winver.Parse(s)
				if err != nil {
					t.Fatal(err)
				}
				f.Nodes = append(f.Nodes, policy.Node{Name: b.Version, OS: "windows", Build: b, Taints: taints})
			}
		}
	}
	return f
}

// TestGolden prints the findings of the files of every archive, and what
// fixing makes of them.
func TestGolden(t *testing.T) {
	for name, ar := range testenv.Archives(t, "testdata/*.txtar") {
		t.Run(name, func(t *testing.T) {
			facts := factsOf(t, string(ar.Comment))
			ar.Files = slices.DeleteFunc(ar.Files, func(f txtar.File) bool {
				return f.Name == "findings" || strings.HasPrefix(f.Name, "fixed/")
			})
			var inputs []Input
			for _, f := range ar.Files {
				inputs = append(inputs, text(f.Name, string(f.Data)))
			}
			var out bytes.Buffer
			p, err := NewPrinter(Output{Format: "text"}, &out)
			if err != nil {
				t.Fatal(err)
			}
			sum, err := Run(context.Background(), Config{Inputs: inputs, Facts: facts}, p.Print)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Close(sum); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%d errors, %d warnings, %d infos, %d suppressed\n", sum.Errors, sum.Warnings, sum.Infos,
				sum.Suppressed)
			for _, note := range sum.Unseen.Notes() {
				fmt.Fprintln(&out, note)
			}
			ar.Files = append(ar.Files, txtar.File{Name: "findings", Data: out.Bytes()})
			for _, f := range slices.Clone(ar.Files) {
				if f.Name == "findings" {
					continue
				}
				fixed := fix(t, f.Name, f.Data, facts)
				if fixed.Applied > 0 || fixed.Left > 0 {
					data := append([]byte(fmt.Sprintf("# %d changes, %d left\n", fixed.Applied, fixed.Left)),
						fixed.Text...)
					ar.Files = append(ar.Files, txtar.File{Name: "fixed/" + f.Name, Data: data})
				}
			}
			testenv.Golden(t, name+".txtar", txtar.Format(ar))
		})
	}
}

// TestRealManifests: every shape of manifests that public repositories show, R01
// to R15, has a golden file, which names it.
func TestRealManifests(t *testing.T) {
	all := ""
	for _, ar := range testenv.Archives(t, "testdata/real-*.txtar") {
		all += string(ar.Comment)
	}
	for i := 1; i <= 15; i++ {
		if id := fmt.Sprintf("R%02d", i); !strings.Contains(all, id) {
			t.Errorf("no golden file of %s", id)
		}
	}
}

// fix applies Fix, twice: the second time must change nothing.
func fix(t testing.TB, name string, data []byte, facts policy.Facts) Fixed {
	t.Helper()
	once, err := fixText(t.Context(), name, data, facts, nil)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := fixText(t.Context(), name, once.Text, facts, nil)
	if err != nil {
		t.Fatal(err)
	}
	if once.Left == 0 && !bytes.Contains(data, []byte("mullion:ignore")) {
		placed(t, name, once.Text, facts)
	}
	before, after := systems(t, name, data, facts), systems(t, name, once.Text, facts)
	if !slices.Equal(before, after) {
		t.Errorf("fixing %s makes of %q %q:\n%s\n--- fixed\n%s", name, before, after, data, once.Text)
	}
	if !bytes.Equal(once.Text, twice.Text) {
		t.Errorf("fixing %s twice differs from once:\n%s\n--- twice\n%s", name, once.Text, twice.Text)
	}
	return once
}

// systems returns the operating systems of the pods of a file.
func systems(t testing.TB, name string, text []byte, facts policy.Facts) []string {
	t.Helper()
	var out []string
	err := split(t.Context(), name, bytes.NewReader(text), func(d document) error {
		if d.problem != nil {
			return nil
		}
		for _, p := range parse(t.Context(), &d) {
			if p.problem != nil {
				continue
			}
			value, _ := convert(p.node)
			object, _ := value.(map[string]any)
			out = append(out, Systems([]map[string]any{object}, facts)...)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return out
}

// placed checks that placement has nothing to add to a fixed text.
func placed(t testing.TB, name string, text []byte, facts policy.Facts) {
	t.Helper()
	judge := rule.New(facts)
	err := split(t.Context(), name, bytes.NewReader(text), func(d document) error {
		if d.problem != nil {
			return nil
		}
		values := parse(t.Context(), &d)
		if slices.ContainsFunc(values, func(p parsed) bool { return p.problem != nil }) {
			return nil
		}
		for _, p := range values {
			value, problems := convert(p.node)
			object, ok := value.(map[string]any)
			if !ok || len(problems) > 0 {
				continue
			}
			objects := policy.Parse(object)
			objects.DropPatches(true)
			for _, p := range place.Pods(judge, objects, facts) {
				left := slices.DeleteFunc(p.Edits, func(e tree.Edit) bool { return !mayWrite(objects, p, e) })
				if len(left) > 0 {
					t.Errorf("placement would still write %v into the fixed %s:\n%s", left, name, text)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestReference(t *testing.T) {
	testenv.Golden(t, "../../../docs/reference/rules.md", []byte(rule.Reference(allRules())))
}

// TestProblemsHaveRules: every code that this package reports can be explained.
func TestProblemsHaveRules(t *testing.T) {
	for _, code := range []string{"WIN901", "WIN902", "WIN903", "WIN904", "WIN907", "WIN908", "WIN909"} {
		r, ok := FindRule(code)
		if !ok || r.Section() == "" || r.Text() == "" {
			t.Errorf("%s has no text", code)
		}
	}
}

// TestHostile gives the linter what no file should hold. Each must end with
// the named problem, or with none.
func TestHostile(t *testing.T) {
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 10; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), i-1)
	}
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n" +
		"    image: mcr.microsoft.com/windows/nanoserver:ltsc2022\n"
	for _, c := range []struct{ name, in, want string }{
		{"alias bomb", bomb, "WIN903"},
		{"alias to itself", "a: &a [*a]\nb: *a\n", "WIN903"},
		{"merge of itself", "a: &a\n- *a\nb:\n  <<: *a\n", "WIN903"},
		{"deep flow", strings.Repeat("[", 100_000), "WIN901"},
		{"deep block", strings.Repeat("- ", 5_000) + "x", "WIN903"},
		{"deep JSON", strings.Repeat(`{"a":`, 100_000), "WIN903"},
		{"one long line", "a: " + strings.Repeat("x", 1<<20), "WIN908"},
		{"too large", "a: " + strings.Repeat("x", maxDocumentBytes), "WIN903"},
		{"NUL", "a: b\x00c\n", "WIN904"},
		{"not UTF-8", "a: \xff\n", "WIN904"},
		{"UTF-16", "\xff\xfea\x00:\x00", "WIN904"},
		{"BOM", "\xef\xbb\xbf" + pod, "WIN312"},
		{"CRLF", strings.ReplaceAll(pod, "\n", "\r\n"), "WIN312"},
		{"BOM and JSON", "\xef\xbb\xbf{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": " +
			"{\"annotations\": " +
			"{\"winProxyOptimization\": \"off\"}}}", "WIN622"},
		{"duplicate key", "a: 1\na: 2\n", "WIN902"},
		{"huge number", "a: 1" + strings.Repeat("0", 400) + "\nb: .nan\nc: -.inf\n" +
			"kind: Settings\napiVersion: example.test/v1\n", ""},
		{"key that is a map", "{a: b}: c\n", "WIN901"},
		{"CR", strings.ReplaceAll(pod, "\n", "\r"), "WIN312"},
		{"NEL and LS", strings.ReplaceAll(strings.ReplaceAll(pod, "kind", "\u0085kind"), "spec", "\u2028spec"),
			"WIN312"},
		{"a second document behind ...", "a: b\n...\n" + pod, "WIN901"},
		{"a template", "{{- if .Values.x }}\n" + pod, "WIN901"},
		{"scalar", "hello\n", "WIN908"},
		{"empty", "", ""},
		{"separators", "---\n---\n# x\n---\n", ""},
		{"no newline at the end", strings.TrimSpace(pod), "WIN312"},
		{"wrong types",
			"apiVersion: v1\nkind: Pod\nmetadata: [1]\n" +
				"spec: {containers: {a: b}, volumes: 7, os: windows, nodeSelector: [x], tolerations: {a: 1}}\n",
			"WIN030"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := lintText(t, c.in)
			if c.want == "" {
				if len(got) > 0 {
					t.Errorf("got %+v, want nothing", got)
				}
				return
			}
			if !slices.ContainsFunc(got, func(r Result) bool {
				return r.Code == c.want && r.Line > 0 &&
					r.Column > 0
			}) {
				t.Errorf("no %s in %+v", c.want, got)
			}
		})
	}
}

// TestOrder reads many documents with many workers: the order is that of the
// stream, whichever job ends first.
func TestOrder(t *testing.T) {
	var b strings.Builder
	const n = 2000
	for i := range n {
		fmt.Fprintf(&b,
			"---\napiVersion: v1\nkind: Service\nspec: {}\n"+
				"metadata: {name: s%d, annotations: {winProxyOptimization: off please}}\n", i)
	}
	next := 0
	sum, err := Run(context.Background(), Config{Inputs: []Input{text("s.yaml", b.String())}, Jobs: 8},
		func(r Result) error {
			if want := fmt.Sprintf("Service s%d", next); r.Object != want || r.Line != next*5+5 {
				t.Fatalf("result %d is %s in line %d", next, r.Object, r.Line)
			}
			next++
			return nil
		})
	if err != nil || next != n || sum.Objects != n {
		t.Errorf("%d results, %d objects, %v", next, sum.Objects, err)
	}
}

func TestEmitErrorStops(t *testing.T) {
	stop := fmt.Errorf("disk full")
	_, err := Run(context.Background(),
		Config{Inputs: []Input{text("s.yaml", strings.Repeat("---\na: 1\na: 2\n", 500))}}, func(Result) error {
			return stop
		})
	if !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

// large is too much for an input that cannot be read twice to be kept.
var large = "---\n" + strings.Repeat("# nothing\n", readAheadBytes/10+1)

// TestFacts takes a RuntimeClass of a later file into account, and of a large
// stream what stands before.
func TestFacts(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n" +
		"spec: {runtimeClassName: w, os: {name: linux}, containers: [{name: c, image: x}]}\n"
	class := "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: w}\nhandler: runhcs-wcow-process\n"
	run := func(inputs ...Input) (conflict bool) {
		_, err := Run(context.Background(), Config{Inputs: inputs}, func(r Result) error {
			conflict = conflict || r.Code == "WIN201"
			if r.Code == "WIN224" {
				t.Error("a RuntimeClass that is not in the files may still be in the cluster")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return conflict
	}
	if run(text("p", pod)) || !run(text("p", pod), text("c", class)) {
		t.Error("a later file does not count")
	}
	once := text("-", class+"---\n"+pod)
	once.Once = true
	if !run(once) {
		t.Error("what stands before in standard input does not count")
	}
	once = text("-", pod+"---\n"+class)
	once.Once = true
	if !run(once) {
		t.Error("what stands behind in standard input does not count")
	}
	once = text("-", class+"---\n"+pod+large)
	once.Once = true
	if !run(once) {
		t.Error("what stands before in a large stream does not count")
	}
}

// TestFixList fixes a List of many pods: it must not be read again for each of
// them.
func TestFixList(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	const n = 500
	for i := range n {
		fmt.Fprintf(&b, "- apiVersion: v1\n  kind: Pod\n  metadata: {name: p%d}\n  spec:\n    containers:\n"+
			"    - name: c\n      image: mcr.microsoft.com/windows/nanoserver:ltsc2022\n"+
			"      securityContext: {privileged: false}\n", i)
	}
	if got := fix(t, "list.yaml", []byte(b.String()), policy.Facts{}); got.Applied < 3*n || got.Left > 0 {
		t.Errorf("%d changes, %d left", got.Applied, got.Left)
	}
}

// FuzzLint: whatever comes in, lint and Fix end, never panic, and fixing
// twice changes nothing more.
func FuzzLint(f *testing.F) {
	for _, ar := range testenv.Archives(f, "testdata/*.txtar") {
		for _, file := range ar.Files {
			f.Add(file.Data)
		}
	}
	f.Add([]byte("a: &a [*a]\nb:\n  <<: *a\n"))
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: # mullion:ignore WIN420 why\n  tolerations: # ü\n" +
		"  - {key: a, operator: Exists}\n  # mullion:ignore WIN312\n  containers:\n  - name: c\n" +
		"    image: mcr.microsoft.com/windows/nanoserver:ltsc2022\n    securityContext: {privileged: false}\n"
	for _, end := range []string{"\n", "\r\n", "\r", "\u0085", "\u2028"} {
		f.Add([]byte(strings.ReplaceAll(pod, "\n", end)))
	}
	f.Add([]byte("\xef\xbb\xbf" + pod))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		in := Input{Name: "x", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
		cfg := Config{Inputs: []Input{in}, Jobs: 1, Fixes: true}
		if _, err := Run(t.Context(), cfg, func(r Result) error {
			if r.Line < 1 || r.Column < 1 || r.EndLine < r.Line || r.EndLine == r.Line && r.EndColumn < r.Column {
				t.Errorf("position %d:%d of %+v", r.Line, r.Column, r)
			}
			for _, f := range r.fix {
				if f.line < 1 || f.column < 1 || f.endLine < f.line || f.endLine == f.line && f.endColumn < f.column {
					t.Errorf("replacement %+v of %+v", f, r)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		fix(t, "x", data, policy.Facts{})
		fix(t, "x", data, factsOf(t, "builds: 2019 2022 2025\ntaints: os=windows:NoSchedule\n"))
	})
}

// FuzzYAML: what the reader of kubectl (sigs.k8s.io/yaml) takes is read the
// same way.
func FuzzYAML(f *testing.F) {
	for _, s := range []string{
		"a: yes\nb: 'yes'\nc: 0x1F\nd: 017\ne: 0o17\nf: 1_000\ng: .5\nh: 1e3\ni: ~\nj: null\nk:\n",
		"a: &x {b: 1, c: [1, 2]}\nd: {<<: *x, b: 2}\ne: *x\n", "- a\n- {b: c}\n",
		"a: |\n  text\n  more\nb: >-\n  folded\n  text\n",
		"a: 2026-01-01\nb: 12:30:45\nc: !!str 1\nd: !!int \"3\"\ne: \"\\u00e9\"\n", "1: a\ntrue: b\n2.5: c\n",
		"a: 'it''s'\n\"b\": \"x\\ny\"\n", "{a: b, c: [d, e]}", "on: on\noff: OFF\ny: N\n", "oFf", "00: oFF", "oN",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		node, err := parseYAML(t.Context(), data)
		// Explicit tags are in no manifest, and resolved in different ways.
		if err != nil || node == nil || len(data) > 1<<14 || bytes.ContainsAny(data, "!") {
			return
		}
		ours, problems := convert(node)
		var theirs any
		if len(problems) > 0 || sigsyaml.Unmarshal(data, &theirs) != nil {
			return
		}
		text, err := json.Marshal(ours)
		if err != nil {
			return
		}
		var back any
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, theirs) {
			t.Errorf("read as %v, kubectl reads %v", back, theirs)
		}
	})
}

// FuzzJSON: what encoding/json takes is read the same way by way of nodes.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, 2.5, true, null, "x\u00e9"]}`, `[]`, `{"a":1}{"b":2}`, `{"a`, "\t{}\r\n",
		`{"on": "yes", "1": 1e3, "x": "\u2028"}`, "{\"a\": \"\u2028\u0085\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes, p := parseJSON(t.Context(), data)
		if p != nil {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		for _, n := range nodes {
			ours, problems := convert(n.node)
			var theirs any
			if err := dec.Decode(&theirs); err != nil {
				return // a number that is too large
			}
			text, err := json.Marshal(ours)
			if err != nil {
				t.Fatal(err)
			}
			var back any
			if err := json.Unmarshal(text, &back); err == nil && len(problems) == 0 &&
				!reflect.DeepEqual(back, theirs) {
				t.Errorf("read as %v, encoding/json reads %v", back, theirs)
			}
		}
	})
}

// TestObjectsOfTheInput: what is in the input is there, wherever; what is neither
// there nor in the cluster is missing. A stream may have it further on.
func TestObjectsOfTheInput(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  serviceAccountName: a\n  containers: " +
		"[{name: c, image: x}]\n"
	const account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\n"
	const list = "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}]}"
	missing := func(known policy.Known, inputs ...Input) bool {
		found := false
		_, err := Run(t.Context(), Config{Inputs: inputs, Facts: policy.Facts{Objects: known}}, func(r Result) error {
			found = found || r.Code == "WIN810"
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	empty := func() policy.Known { return policy.Known{"ServiceAccount": {}} }
	stream, short := text("-", pod+large), text("-", pod)
	stream.Once, short.Once = true, true
	built := Config{Builds: []Build{{File: "k", Objects: []Built{{Object: map[string]any{"apiVersion": "v1",
		"kind": "ServiceAccount", "metadata": map[string]any{"name": "a"}}}}}}}
	for name, tt := range map[string]struct{ got, want bool }{
		"without a cluster":       {missing(nil, text("p", pod)), false},
		"missing":                 {missing(empty(), text("p", pod)), true},
		"in another file":         {missing(empty(), text("p", pod), text("a", account)), false},
		"in a List":               {missing(empty(), text("p", pod), text("a", list)), false},
		"in a short stream":       {missing(empty(), short), true},
		"in the rest of a stream": {missing(empty(), stream), false},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: reported %t", name, tt.got)
		}
	}
	known := empty()
	built.Facts.Objects, built.Jobs = known, 1
	facts, err := gather(t.Context(), built)
	if err != nil || len(facts.Objects["ServiceAccount"]) != 1 || len(known["ServiceAccount"]) != 0 {
		t.Errorf("objects %v, the caller's %v, %v", facts.Objects, known, err)
	}
}
