// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package lint applies the rules of package policy to files: it splits streams
// of YAML and JSON into documents, finds the line of every finding, honours
// suppressions and makes the fixes that are safe.
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
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mullion-k8s/mullion/internal/lint/schema"
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
	Once bool // cannot be read twice: standard input. See readAhead

	template *template // see Rendered

	// World names the unit that the file is a part of and that is applied as a
	// whole, such as a chart: its objects are not matched with objects of other
	// files.
	World string

	// Part means that the file is a resource of a kustomization that cannot be
	// built, which may add fields that the file lacks.
	Part bool

	// Found means that the user named not this file, but its folder: files in
	// it other than manifests are skipped, not reported.
	Found bool
}

// File returns the input that reads a file. Of a device, which may have no end, it reads a little
// more than the largest document.
func File(path string) Input {
	return Input{Name: path, Open: func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		if info, err := f.Stat(); err == nil && info.Mode()&fs.ModeDevice != 0 {
			return struct {
				io.Reader
				io.Closer
			}{io.LimitReader(f, maxDocumentBytes+1), f}, nil
		}
		return f, nil
	}}
}

// Rendered returns the input that reads the output of a template. Places in it
// are reported as places in the template, as well as they can be found.
func Rendered(path string, source, rendered []byte) Input {
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(rendered)), nil }
	return Input{Name: path, Open: open, template: newTemplate(string(source), string(rendered))}
}

// readAheadBytes is several times the size of a rendered chart of hundreds of
// objects.
const readAheadBytes = 8 << 20

// readAhead returns an input that can be read twice, if this one is not too large to
// keep: helm and kustomize print a Service before the pods that it selects.
func (in Input) readAhead(ctx context.Context) Input {
	r, err := in.open(ctx)
	if err != nil {
		in.Open = func() (io.ReadCloser, error) { return nil, err }
		return in
	}
	rest := wait(ctx, r)
	text, err := io.ReadAll(io.LimitReader(rest, readAheadBytes))
	in.Once = err != nil || len(text) == readAheadBytes
	if !in.Once {
		_ = r.Close() // only read
	}
	in.Open = func() (io.ReadCloser, error) {
		switch {
		case !in.Once:
			return io.NopCloser(bytes.NewReader(text)), nil
		case err != nil:
			rest = failing{err}
		}
		return struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(text), rest), r}, nil
	}
	return in
}

// failing is a reader that cannot read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Config configures a run.
type Config struct {
	Inputs   []Input
	Builds   []Build // judged after the inputs
	Facts    policy.Facts
	Severity policy.Severity // the lowest to report; None: all
	Placed   bool            // the cluster has mullion's admission: pods are judged as it will place them
	Jobs     int             // documents judged at a time; 0: one per processor
	Fixes    bool            // results have replacements

	Rules    map[string]policy.Severity // override the rules' severities; None disables a rule
	Known    func(Result) bool          // reports whether a result is accepted; nil: no result is
	Excluded func(file string) bool     // reports whether results in a file do not count; nil: all do
}

// Result is one finding at one place. For an object in a cluster it has no file
// and no line.
type Result struct {
	policy.Finding
	File       string `json:"file,omitempty"`
	Line       int    `json:"line,omitempty"`
	Column     int    `json:"column,omitempty"`
	Object     string `json:"object,omitempty"`
	EndLine    int    `json:"endLine,omitempty"`
	EndColumn  int    `json:"endColumn,omitempty"`  // of the first character behind the place; 0 if it is not known
	Suppressed string `json:"suppressed,omitempty"` // the reason

	place   string        // the field, see namedField
	fix     []replacement // resolve the finding; only with Config.Fixes
	node    *yaml.Node    // at the place; nil once the result is finished
	excerpt string        // the line
	caret   int           // column in it
	width   int           // characters at the place
}

// Summary counts the results.
type Summary struct {
	Files, Documents, Objects           int
	Skipped                             []Skip
	Errors, Warnings, Infos, Suppressed int
	Known                               int // accepted by Config.Known
	Unread                              int // results that are about inputs which cannot be read
	Unseen                              Unseen
	Notes                               []Note // of the caller, for the output
}

// Skip counts the documents of a file that are patches, or not manifests.
type Skip struct {
	File      string `json:"file"`
	Documents int    `json:"documents"`
}

// Note is something about a run that is not a finding.
type Note struct {
	File string `json:"file,omitempty"`
	Text string `json:"text"`
}

// SkippedDocuments returns the number of documents that were skipped.
func (s *Summary) SkippedDocuments() int {
	n := 0
	for _, skip := range s.Skipped {
		n += skip.Documents
	}
	return n
}

// skip counts documents of a file. Files come one after another.
func (s *Summary) skip(skips []Skip) {
	for _, add := range skips {
		if n := len(s.Skipped); n > 0 && s.Skipped[n-1].File == add.File {
			s.Skipped[n-1].Documents += add.Documents
		} else {
			s.Skipped = append(s.Skipped, add)
		}
	}
}

func (s *Summary) count(r Result) {
	if r.Suppressed == "" && r.Severity == policy.Error && unread(r.Code) {
		s.Unread++
	}
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
	skips  []Skip
}

// run checks the documents. It stops when the context ends.
func (j *job) run(ctx context.Context, judge *judge) {
	for i := range j.docs {
		if ctx.Err() != nil {
			return
		}
		one := check(ctx, judge, &j.docs[i], *j.facts)
		j.judged.results = append(j.judged.results, one.results...)
		j.judged.objects += one.objects
		if one.skipped > 0 {
			j.skips = append(j.skips, Skip{j.docs[i].name, one.skipped})
		}
		j.judged.unseen = append(j.judged.unseen, one.unseen...)
	}
}

// Run reads the inputs and calls emit with every result, in the order of the
// inputs and of their lines. It stops at the first error of emit and at a
// cancelled context. An input that cannot be read is a result.
func Run(ctx context.Context, cfg Config, emit func(Result) error) (Summary, error) {
	if cfg.Jobs <= 0 {
		cfg.Jobs = runtime.GOMAXPROCS(0)
	}
	var sum Summary
	cfg.Inputs = slices.Clone(cfg.Inputs)
	for i, in := range cfg.Inputs {
		if in.Once {
			cfg.Inputs[i] = in.readAhead(ctx)
		}
	}
	facts, err := gather(ctx, cfg)
	if err != nil {
		return sum, err
	}
	judge := newJudge(cfg)
	err = inOrder(ctx, cfg.Jobs,
		func(ctx context.Context, send func(*job) error) error { return produce(ctx, cfg, facts, send, &sum) },
		func(ctx context.Context, j *job) { j.run(ctx, judge) },
		func(j *job) error {
			sum.Documents += len(j.docs)
			sum.Objects += j.judged.objects
			sum.skip(j.skips)
			sum.Unseen.count(j.judged.unseen)
			return sum.report(cfg, j.judged.results, emit)
		})
	if err != nil {
		return sum, err
	}
	return sum, runBuilds(ctx, cfg, judge, facts, &sum, emit)
}

// report counts results, and emits the results that are severe enough and not known.
func (s *Summary) report(cfg Config, results []Result, emit func(Result) error) error {
	for _, r := range results {
		if severity, ok := cfg.Rules[r.Code]; ok {
			if r.Severity = severity; severity == policy.None {
				continue
			}
		}
		if r.Severity < cfg.Severity || cfg.Excluded != nil && cfg.Excluded(r.File) {
			continue
		}
		if r.Suppressed == "" && cfg.Known != nil && cfg.Known(r) {
			s.Known++
			continue
		}
		s.count(r)
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

// runBuilds checks the builds.
func runBuilds(
	ctx context.Context, cfg Config, judge *judge, facts *policy.Facts, sum *Summary,
	emit func(Result) error,
) error {
	b := builder{
		ctx:   ctx,
		facts: facts,
		judge: judge,
		files: map[string][]source{},
		seen:  map[spot]bool{},
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
	if cfg.Facts.Objects = cfg.Facts.Objects.Clone(); cfg.Facts.Objects != nil {
		delete(cfg.Facts.Objects, "Namespace") // objects of a cluster are in namespaces that exist
	}
	evaluate := newJudge(cfg).evaluate
	err := source(func(object map[string]any) error {
		sum.Objects++
		var found []Result
		parsed := policy.Parse(object)
		sum.Unseen.count(parsed.Unseen())
		for _, f := range evaluate(parsed, cfg.Facts) {
			found = append(found, Result{Finding: f, Object: objectName(object, f.Scope), place: namedField(object, f)})
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
		if in.Once && facts.Objects != nil { // earlier documents may need objects of later ones
			next := *facts
			next.Objects = nil
			facts = &next
		}
		err := documents(ctx, in, func(d document) error {
			d.world = in.World
			if in.Once {
				facts = addFacts(ctx, facts, d)
			}
			if facts != j.facts && len(j.docs) > 0 || size > batchBytes {
				if err := flush(); err != nil {
					return err
				}
			}
			j.facts = facts
			d.found, d.part, d.template, d.fixes = in.Found, in.Part, in.template, cfg.Fixes
			j.docs = append(j.docs, d)
			size += len(d.text)
			return nil
		})
		if e, ok := errors.AsType[*readError](err); ok && ctx.Err() == nil {
			j.docs = append(j.docs, document{name: in.Name, line: 1, problem: e.problem()})
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return flush()
}

// documents opens an input and calls f with its documents.
func documents(ctx context.Context, in Input, f func(document) error) (err error) {
	r, err := in.open(ctx)
	if err != nil {
		return &readError{err}
	}
	defer func() { _ = r.Close() }() // only read
	if in.Once {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return split(ctx, in.Name, wait(ctx, r), f)
	}
	return split(ctx, in.Name, r, f)
}

// readError is the reason why an input cannot be read.
type readError struct{ err error }

func (e *readError) Error() string { return "read: " + e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

func (e *readError) problem() *problem {
	reason := e.err
	if path, ok := errors.AsType[*fs.PathError](reason); ok {
		reason = path.Err // the file is the place of the finding
	}
	return newProblem(1, 1, "WIN910", "this cannot be read: "+reason.Error(), "check the path and its permissions")
}

// judged holds the results of one or more documents.
type judged struct {
	results          []Result
	objects, skipped int
	unseen           []policy.Kind
}

// check checks one document.
func check(ctx context.Context, judge *judge, d *document, facts policy.Facts) judged {
	var out judged
	if d.found && expectation(d.name) {
		out.skipped++
		return out
	}
	if d.problem != nil {
		out.reject(ctx, d, d.problem)
		out.results = d.finish(out.results)
		return out
	}
	facts.Location = d.place()
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
		if p := templated(d, problems); p != nil {
			out.refuse(d, p)
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
		patches := parsed.DropPatches(!d.found)
		out.skipped += len(patches)
		out.objects += parsed.Len()
		out.unseen = append(out.unseen, parsed.Unseen()...)
		found := make([]Result, 0, 8)
		for _, f := range append(judge.written(parsed, facts), judge.patches(patches)...) {
			if len(problems) > 0 && schema.Finds(f.Code) || d.part && schema.Missing(f.Code) {
				continue // not as it was written, or not all of it
			}
			at := locate(root.node, f.Path)
			found = append(found, Result{
				Finding: f,
				File:    d.name,
				Object:  objectName(object, f.Scope),
				Line:    at.Line,
				Column:  at.Column,
				place:   namedField(object, f),
				node:    at,
			})
		}
		if d.fixes {
			addFixes(ctx, d, judge.rules, root.node, object, facts, found)
		}
		out.results = append(out.results, ignored.apply(root.node, object, found)...)
	}
	out.results = d.finish(append(out.results, ignored.unexplained()...))
	return out
}

// reject reports why a document cannot be read, or skips it if it is not a
// Kubernetes manifest.
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
		r.width, r.node = d.width(r), nil
		r.Line, r.Column = d.inInput(r.Line, r.Column)
		r.EndLine, r.EndColumn = r.Line, r.Column+r.width
		if d.template != nil {
			var exact bool
			if r.Line, exact = d.template.line(r.Line); !exact {
				r.Column, r.EndColumn = 1, 0
			}
			r.EndLine = r.Line
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
