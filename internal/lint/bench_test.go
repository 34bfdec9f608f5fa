// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/lint/linttest"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
)

func BenchmarkLint(b *testing.B) {
	const n = 9000
	text := linttest.Corpus(n)
	in := Input{Name: "corpus.yaml", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(text)), nil
	}}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		sum, err := Run(context.Background(), Config{Inputs: []Input{in}}, func(Result) error { return nil })
		if err != nil || sum.Objects != n {
			b.Fatal(sum, err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "resources/s")
}

func BenchmarkEvaluate(b *testing.B) {
	d := document{name: "x", line: 1, text: linttest.Corpus(1)}
	object, _ := convert(parse(context.Background(), &d)[0].node)
	judge := rule.New(policy.Facts{})
	b.ReportAllocs()
	for b.Loop() {
		judge.Check(policy.Parse(object.(map[string]any)), policy.Facts{})
	}
}

// BenchmarkSingleFile measures one small file without the start of the
// program.
func BenchmarkSingleFile(b *testing.B) {
	text := linttest.Corpus(1)
	in := Input{Name: "one.yaml", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(text)), nil
	}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Run(context.Background(), Config{Inputs: []Input{in}},
			func(Result) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// endless is a stream of documents that is never in memory as a whole.
type endless struct {
	doc  string
	n    int
	rest string
}

func (e *endless) Read(p []byte) (int, error) {
	if e.rest == "" {
		if e.n == 0 {
			return 0, io.EOF
		}
		e.n--
		e.rest = e.doc
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func (e *endless) Close() error { return nil }

// TestMemoryIsFlat reads 30,000 documents with findings from a stream: what
// stays in memory must not grow with them.
func TestMemoryIsFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	doc := string(linttest.Corpus(1))
	doc = strings.Replace(doc, "kubernetes.io/os: linux", "kubernetes.io/os: windows", 1)
	var early, late uint64
	results := 0
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n = 30_000 // BenchmarkLintMemory in test/bench reads more
	in := Input{Name: "-", Once: true, Open: func() (io.ReadCloser, error) { return &endless{doc: doc, n: n}, nil }}
	sum, err := Run(context.Background(), Config{Inputs: []Input{in}}, func(r Result) error {
		switch results++; results {
		case 10_000:
			early = heap()
		case 200_000:
			late = heap()
		}
		return nil
	})
	if err != nil || sum.Documents != n {
		t.Fatal(sum, err)
	}
	const slackBytes = 16 << 20
	if late > early+slackBytes {
		t.Errorf("heap grew from %d to %d bytes over %d results", early, late, results)
	}
	t.Logf("%d results; heap %d KiB early, %d KiB late", results, early>>10, late>>10)
}
