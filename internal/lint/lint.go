// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package lint applies the rules of package policy to files: it splits streams
// of YAML and JSON into documents, finds the line of every finding, honours
// suppressions and fixes what can be fixed safely.
//
// Documents are read one after another, checked in parallel, and reported in
// their original order; only a few of them are in memory at a time. Time and
// memory are bounded for any input: see limits.
package lint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// The limits bound the cost of one document. A document that exceeds them is
// reported and skipped.
const (
	// maxDocumentBytes: the API server takes requests of 3 MiB
	// (k8s.io/apiserver pkg/server: MaxRequestBodyBytes). Parsed, dense YAML takes about 80 times its size.
	maxDocumentBytes = 4 << 20
	// maxDepth: no published resource is nested deeper than about 40 levels
	// (CustomResourceDefinitions); the parser itself allows 10,000.
	maxDepth = 200
	// maxAliasNodes: nodes to which the aliases of one document may expand. Ten
	// lines of YAML can expand to 10^9.
	maxAliasNodes = 100_000
)

// Input is a stream of documents.
type Input struct {
	Name string // as printed; a path, or "<stdin>"
	Open func() (io.ReadCloser, error)
	Once bool // cannot be read twice: standard input

	template *template // see Rendered

	// Found means that the user named not this file, but its folder: other
	// files in it than manifests are skipped, and not mistakes.
	Found bool
}

// File returns the input that reads a file.
func File(path string) Input {
	return Input{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}
}

// Rendered returns the input that reads what a template made. Places in it are
// reported as places in the template, as well as they can be found.
func Rendered(path string, source, rendered []byte) Input {
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(rendered)), nil }
	return Input{Name: path, Open: open, template: newTemplate(string(source), string(rendered))}
}

// Config configures a run.
type Config struct {
	Inputs   []Input
	Builds   []Build // judged after the inputs
	Facts    policy.Facts
	Severity policy.Severity // the lowest to report; None: everything
	Placed   bool            // the cluster has mullion's admission: pods are judged as it will place them
	Jobs     int             // documents judged at a time; 0: one per processor
}

// Result is one finding at one place. For an object in a cluster it has no file
// and no line.
type Result struct {
	policy.Finding
	File       string `json:"file,omitempty"`
	Line       int    `json:"line,omitempty"`
	Column     int    `json:"column,omitempty"`
	Object     string `json:"object,omitempty"`
	Suppressed string `json:"suppressed,omitempty"` // the reason

	excerpt      string // the line
	caret, width int    // column in it, and how much stands there
}

// Summary counts the results.
type Summary struct {
	Files, Documents, Objects           int
	Skipped                             int // documents that are patches, or not manifests
	Errors, Warnings, Infos, Suppressed int
	Unseen                              Unseen
}

func (s *Summary) count(r Result) {
	switch {
	case r.Suppressed != "":
		s.Suppressed++
	case r.Severity == policy.Error:
		s.Errors++
	case r.Severity == policy.Warning:
		s.Warnings++
	default:
		s.Infos++
	}
}

// batchBytes is the amount of text handed to a worker at a time: handing over
// single documents of a kilobyte costs a fifth of the time of checking them.
const batchBytes = 32 << 10

// job is a batch of documents on its way through the workers.
type job struct {
	docs   []document
	facts  *policy.Facts
	judged judged
}

// run checks the documents. It stops when the context ends.
func (j *job) run(ctx context.Context, judge *policy.Evaluator, placed bool) {
	evaluate := judge.Evaluate
	if placed {
		evaluate = judge.Judge
	}
	for i := range j.docs {
		if ctx.Err() != nil {
			return
		}
		one := check(ctx, evaluate, &j.docs[i], *j.facts)
		j.judged.results = append(j.judged.results, one.results...)
		j.judged.objects += one.objects
		j.judged.skipped += one.skipped
		j.judged.unseen = append(j.judged.unseen, one.unseen...)
	}
}

// Run reads the inputs and calls emit with every result, in the order of the
// inputs and of their lines. It stops at the first error of emit, at a
// cancelled context and at an input that cannot be read.
func Run(ctx context.Context, cfg Config, emit func(Result) error) (Summary, error) {
	if cfg.Jobs <= 0 {
		cfg.Jobs = runtime.GOMAXPROCS(0)
	}
	var sum Summary
	facts, err := gather(ctx, cfg)
	if err != nil {
		return sum, err
	}
	judge := policy.New(cfg.Facts)
	err = inOrder(ctx, cfg.Jobs,
		func(ctx context.Context, send func(*job) error) error { return produce(ctx, cfg, facts, send, &sum) },
		func(ctx context.Context, j *job) { j.run(ctx, judge, cfg.Placed) },
		func(j *job) error {
			sum.Documents += len(j.docs)
			sum.Objects += j.judged.objects
			sum.Skipped += j.judged.skipped
			sum.Unseen.count(j.judged.unseen)
			return sum.report(cfg, j.judged.results, emit)
		})
	if err != nil {
		return sum, err
	}
	return sum, runBuilds(ctx, cfg, judge, facts, &sum, emit)
}

// report counts results, and emits those that are severe enough.
func (s *Summary) report(cfg Config, results []Result, emit func(Result) error) error {
	for _, r := range results {
		if r.Severity < cfg.Severity {
			continue
		}
		s.count(r)
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

// runBuilds judges what was built.
func runBuilds(
	ctx context.Context, cfg Config, judge *policy.Evaluator, facts *policy.Facts, sum *Summary,
	emit func(Result) error,
) error {
	b := builder{ctx: ctx, facts: facts, judge: judge.Evaluate, files: map[string][]source{}, seen: map[spot]bool{}}
	if cfg.Placed {
		b.judge = judge.Judge
	}
	for _, made := range cfg.Builds {
		out := b.build(made)
		if err := ctx.Err(); err != nil {
			return err
		}
		sum.Files++
		sum.Objects += out.objects
		sum.Unseen.count(out.unseen)
		if err := sum.report(cfg, out.results, emit); err != nil {
			return err
		}
	}
	return nil
}

// Objects checks objects that come from source instead of a file, in order, and
// calls emit with every result. Only annotations can suppress findings there.
func Objects(cfg Config, source func(yield func(map[string]any) error) error,
	emit func(Result) error) (Summary, error) {
	var sum Summary
	judge := policy.New(cfg.Facts)
	evaluate := judge.Evaluate
	if cfg.Placed {
		evaluate = judge.Judge
	}
	err := source(func(object map[string]any) error {
		sum.Objects++
		var found []Result
		parsed := policy.Parse(object)
		sum.Unseen.count(parsed.Unseen())
		for _, f := range evaluate(parsed, cfg.Facts) {
			found = append(found, Result{Finding: f, Object: objectName(object, f.Scope)})
		}
		return sum.report(cfg, suppressByAnnotation(object, found), emit)
	})
	return sum, err
}

// produce splits the inputs into jobs.
func produce(ctx context.Context, cfg Config, facts *policy.Facts, send func(*job) error, sum *Summary) error {
	j, size := &job{facts: facts}, 0
	flush := func() error {
		full := j
		j, size = &job{facts: facts}, 0
		return send(full)
	}
	for _, in := range cfg.Inputs {
		sum.Files++
		err := documents(ctx, in, func(d document) error {
			if in.Once {
				facts = addFacts(ctx, facts, d)
			}
			if facts != j.facts && len(j.docs) > 0 || size > batchBytes {
				if err := flush(); err != nil {
					return err
				}
			}
			j.facts = facts
			d.found, d.template = in.Found, in.template
			j.docs = append(j.docs, d)
			size += len(d.text)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return flush()
}

// documents opens an input and calls f with its documents.
func documents(ctx context.Context, in Input, f func(document) error) (err error) {
	r, err := in.Open()
	if err != nil {
		return fmt.Errorf("open %s: %w", in.Name, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if in.Once {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return split(ctx, in.Name, wait(ctx, r), f)
	}
	return split(ctx, in.Name, r, f)
}

// judged holds what came of a document, or of several.
type judged struct {
	results          []Result
	objects, skipped int
	unseen           []policy.Kind
}

// check checks one document.
func check(
	ctx context.Context, evaluate func(*policy.Parsed, policy.Facts) []policy.Finding, d *document, facts policy.Facts,
) judged {
	var out judged
	if d.problem != nil {
		out.reject(ctx, d, d.problem)
		out.results = d.finish(out.results)
		return out
	}
	ignored := suppressions(d)
	for _, root := range parse(ctx, d) {
		if root.problem != nil {
			out.reject(ctx, d, root.problem)
			continue
		}
		value, problems := convert(root.node)
		object, _ := value.(map[string]any)
		if value == nil && len(problems) == 0 {
			continue
		}
		if !isManifest(object) && (d.found || len(problems) == 0) {
			out.refuse(d, notAnObject(root.node))
			continue
		}
		for _, p := range problems {
			out.results = append(out.results, p.result(d))
		}
		parsed := policy.Parse(object)
		out.skipped += parsed.DropPatches()
		out.objects += parsed.Len()
		out.unseen = append(out.unseen, parsed.Unseen()...)
		found := make([]Result, 0, 8)
		for _, f := range evaluate(parsed, facts) {
			at := locate(root.node, f.Path)
			found = append(found, Result{
				Finding: f,
				File:    d.name,
				Object:  objectName(object, f.Scope),
				Line:    at.Line,
				Column:  at.Column,
				width:   len(at.Value),
			})
		}
		out.results = append(out.results, ignored.apply(root.node, object, found)...)
	}
	out.results = d.finish(append(out.results, ignored.unexplained()...))
	return out
}

// reject reports why a document cannot be read, or skips it if it is none of
// ours.
func (j *judged) reject(ctx context.Context, d *document, p *problem) {
	if d.found && foreign(ctx, d, p) {
		j.skipped++
		return
	}
	j.results = append(j.results, p.result(d))
}

// refuse reports that a document is not a manifest, or skips it.
func (j *judged) refuse(d *document, p *problem) {
	if d.found {
		j.skipped++
		return
	}
	j.results = append(j.results, p.result(d))
}

// finish sorts results whose places are relative to the document, quotes their
// lines, and makes the places relative to the input.
func (d *document) finish(out []Result) []Result {
	slices.SortStableFunc(out, func(a, b Result) int {
		return cmp.Or(
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.Field, b.Field))
	})
	for i := range out {
		r := &out[i]
		r.excerpt, r.caret = d.excerpt(r.Line, r.Column)
		if r.Line == 1 {
			r.Column += d.column
		}
		r.Line += d.line - 1
		if d.template != nil {
			var exact bool
			if r.Line, exact = d.template.line(r.Line); !exact {
				r.Column = 1
			}
		}
	}
	return out
}

// objectName returns the kind and name, such as "Deployment default/iis", of
// the object or item of a List that contains a finding.
func objectName(object map[string]any, scope tree.Path) string {
	v := tree.Root(object).At(scope)
	name := v.Find("metadata", "name").Str()
	if ns := v.Find("metadata", "namespace").Str(); ns != "" {
		name = ns + "/" + name
	}
	return strings.TrimSpace(v.Find("kind").Str() + " " + name)
}
