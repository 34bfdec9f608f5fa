// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// cut returns the documents that jsonSplitter makes of a text, written in
// pieces of a size.
func cut(t testing.TB, text string, size int) []document {
	t.Helper()
	var out []document
	s := jsonSplitter{name: "x", line: 1, f: func(d document) error { out = append(out, d); return nil }}
	for part := range slices.Chunk([]byte(text), size) {
		if err := s.write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestJSONSplitter(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string // LINE:COLUMN and text, or the problem
	}{
		{`{"a": 1}`, []string{`1:0 {"a": 1}`}},
		{"{\"a\": \"}{\\\"\"}\n {\"b\": [{}]}", []string{`1:0 {"a": "}{\""}`, `2:1 {"b": [{}]}`}},
		{`{"items": [{"a": "ü"}, {"b": [1, {}]}], "kind": "List"}{}`,
			[]string{`1:11 {"a": "ü"}`, `1:23 {"b": [1, {}]}`, `1:55 {}`}},
		{`{"kind": "items", "x": ["y"]}`, []string{`1:0 {"kind": "items", "x": ["y"]}`}},
		{`{"items2": [{}], "it,ems": [{}]}`, []string{`1:0 {"items2": [{}], "it,ems": [{}]}`}},
		{`{"x": {"items": [{}]}}`, []string{`1:0 {"x": {"items": [{}]}}`}},
		{`{"items": []}`, nil},
		{`{"items": [{"items": [{}]}]}`, []string{`1:11 {"items": [{}]}`}},
		{`{"items": [{} {}]}`,
			[]string{"1:11 {}", "1:14 this is not JSON: there is no comma between two items", "1:14 {}"}},
		{`{"items": [{}, ]}`, []string{"1:11 {}", "1:15 this is not JSON: a comma without an item after it"}},
		{`{"items": [{}, , {}]}`,
			[]string{"1:11 {}", "1:15 this is not JSON: a comma without an item before it", "1:17 {}"}},
		{`{"items": ["x", 1, {}]}`, []string{
			"1:11 this is not JSON: an item of the list is not an object",
			"1:16 this is not JSON: an item of the list is not an object", "1:19 {}"}},
		{`{"items": [{}, {"a"`, []string{"1:11 {}", `1:15 {"a"`}},
		{`{"items": [{}`, []string{"1:11 {}", "1:13 this is not JSON: the list has no end"}},
		{`x {"a": 1}`, []string{`1:0 x {"a": 1}`}},
		{"]]} {}", []string{"1:4 {}"}},
	} {
		for _, size := range []int{1, 2, 3, 1000} {
			var got []string
			for _, d := range cut(t, c.in, size) {
				text := string(d.text)
				if d.problem != nil {
					text = d.problem.text
				}
				got = append(got, fmt.Sprintf("%d:%d %s", d.line, d.column, text))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s in pieces of %d:\n%q, want\n%q", c.in, size, got, c.want)
			}
		}
	}
}

// FuzzJSONSplitter: the documents are parts of the text, whatever the pieces in
// which it arrives, and a stream of JSON objects is cut into these.
func FuzzJSONSplitter(f *testing.F) {
	for _, s := range []string{
		`{"items": [{"a": "\"]"}, {}], "b": 1} {"c": "\\"}`,
		`{"items": [1, "x", [], {}]}`, `{"items": {"items": []}}`, "]}{",
	} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, text string, size int) {
		whole := cut(t, text, max(len(text), 1))
		parts := cut(t, text, max(size, 1))
		if len(whole) != len(parts) {
			t.Fatalf("%d documents, and %d in pieces", len(whole), len(parts))
		}
		for i, d := range whole {
			if !bytes.Equal(d.text, parts[i].text) || d.offset != parts[i].offset || d.column != parts[i].column {
				t.Errorf("%+v, in pieces %+v", d, parts[i])
			}
			if !strings.HasPrefix(text[d.offset:], string(d.text)) {
				t.Errorf("%q is not at %d", d.text, d.offset)
			}
		}
		dec := json.NewDecoder(strings.NewReader(text))
		for i := 0; ; i++ {
			var object map[string]any
			if dec.Decode(&object) != nil || object == nil || object["items"] != nil || i >= len(whole) {
				return
			}
			if !json.Valid(whole[i].text) {
				t.Fatalf("document %d is %q", i, whole[i].text)
			}
		}
	})
}

// jsonList makes a List of n Services, with a finding in every one.
func jsonList(t testing.TB, n int, indent string) string {
	t.Helper()
	var items []any
	for i := range n {
		items = append(items, map[string]any{
			"apiVersion": "v1",
			"kind":       "Service",
			"metadata": map[string]any{"name": fmt.Sprintf("s%d", i),
				"annotations": map[string]any{"a": "ä{\"ö\"", "winProxyOptimization": "off"}},
			"spec": map[string]any{"ports": []any{map[string]any{"port": 1}}},
		})
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	out, err := json.MarshalIndent(list, "", indent)
	if indent == "" {
		out, err = json.Marshal(list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestLargeJSON reads Lists below and above the limit of a document, on one
// line and on many: all of it is judged, and every finding points to its field.
func TestLargeJSON(t *testing.T) {
	for _, n := range []int{1000, 40_000} {
		for _, indent := range []string{"", " "} {
			list := jsonList(t, n, indent)
			lines := strings.Split(list, "\n")
			found := 0
			in := text("x.json", list)
			sum, err := Run(t.Context(), Config{Inputs: []Input{in}}, func(r Result) error {
				if found++; found%997 != 1 {
					return nil // counting characters takes long
				}
				line := []rune(lines[r.Line-1])
				if !strings.HasPrefix(string(line[r.Column-1:min(len(line), r.Column+30)]), `"winProxyOptimization"`) {
					t.Errorf("%s is not at %d:%d", r.Field, r.Line, r.Column)
				}
				excerpt := []rune(r.excerpt)
				if !strings.HasPrefix(string(excerpt[r.caret-1:]), `"winProxyOptimization"`) {
					t.Errorf("the caret is at %d of %s", r.caret, r.excerpt)
				}
				return nil
			})
			if err != nil || found != n || sum.Objects != n {
				t.Errorf("%d Services, indented %q: %d findings, %+v, %v", n, indent, found, sum, err)
			}
		}
	}
}

// BenchmarkOneLine reads JSON of 50 MB on one line and on many, and reports how
// many times as long the one line takes.
func BenchmarkOneLine(b *testing.B) {
	const n = 450_000
	took := map[string]float64{}
	for _, indent := range []string{" ", ""} {
		name := "one"
		if indent != "" {
			name = "many"
		}
		b.Run(name, func(b *testing.B) {
			list := jsonList(b, n, indent)
			in := text("x.json", list)
			b.SetBytes(int64(len(list)))
			for b.Loop() {
				sum, err := Run(context.Background(), Config{Inputs: []Input{in}}, func(Result) error { return nil })
				if err != nil || sum.Objects != n {
					b.Fatal(sum, err)
				}
			}
			took[name] = b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(took["one"]/took["many"], "x-many-lines")
		})
	}
}

// silent is a reader that blocks until the test ends, as a terminal does.
type silent struct{ end <-chan struct{} }

func (s silent) Read([]byte) (int, error) { <-s.end; return 0, io.EOF }

func (silent) Close() error { return nil }

// TestInterrupted ends runs at several stages: while they wait for input, while
// they report, and while they fix.
func TestInterrupted(t *testing.T) {
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	waiting := Input{Name: "-", Once: true, Open: func() (io.ReadCloser, error) { return silent{never}, nil }}
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	_, err := Run(ctx, Config{Inputs: []Input{waiting}}, func(Result) error { return nil })
	if ctx.Err() == nil || err == nil {
		t.Errorf("a run that waited for input: %v", err)
	}
	if _, err := FixAll(ctx, "-", silent{never}, factsOf(t, ""), nil); err == nil {
		t.Error("a fix that waited for input")
	}
	ctx, cancel = context.WithCancel(t.Context())
	found := 0
	_, err = Run(ctx, Config{Inputs: []Input{text("x.json", jsonList(t, 60_000, ""))}}, func(Result) error {
		found++
		cancel()
		return nil
	})
	if err == nil || found == 60_000 {
		t.Errorf("a run that reported: %d results, %v", found, err)
	}
	for _, in := range []string{jsonList(t, 1000, ""), "a: b\n"} {
		d := document{name: "x", line: 1, text: []byte(in)}
		if got := parse(ctx, &d); len(got) > 0 && got[0].problem == nil {
			t.Errorf("%.20s was read after the end", in)
		}
	}
}
