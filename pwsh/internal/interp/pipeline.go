// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// stage is one command of a running pipeline.
type stage interface {
	begin() error
	process(v any) error
	end() error
}

// pipeline is a running pipeline. A stop unwinds to the pipeline with the same identity.
type pipeline struct {
	stages  []stage
	stopped int // stages up to this one are done; -1: no stage
}

// ambient is the state that belongs to the code of one stage. It must be
// restored while that code runs inside another stage.
type ambient struct {
	scope   *scope
	streams *streams
	source  *syntax.Source
}

func (r *Runner) ambient() ambient { return ambient{r.scope, r.streams, r.source} }

func (r *Runner) restore(a ambient) { r.scope, r.streams, r.source = a.scope, a.streams, a.source }

// pipelineStmt runs a pipeline as a statement.
func (r *Runner) pipelineStmt(s *syntax.Pipeline, out Sink) error {
	if len(s.Elements) == 1 {
		if ce, ok := s.Elements[0].(*syntax.CommandExpr); ok && len(ce.Redirect) == 0 {
			v, err := r.eval(ce.X)
			if err != nil {
				r.ok = false
				return r.thrown(err, ce)
			}
			r.ok = true
			if isIncDec(ce.X) {
				return nil
			}
			return r.emitAll(v, out)
		}
	}
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	home := r.ambient()
	p := &pipeline{stopped: -1}
	n := len(s.Elements)
	p.stages = make([]stage, n)
	var closers []func() error
	for i, el := range s.Elements {
		sink := out
		if i < n-1 {
			sink = Sink{Emit: func(v any) error {
				saved := r.ambient()
				r.restore(home)
				err := p.stages[i+1].process(v)
				r.restore(saved)
				return err
			}}
		} else if n > 1 || needsHome(el) {
			sink = Sink{Raw: out.Raw, Emit: func(v any) error {
				saved := r.ambient()
				r.restore(home)
				err := out.Emit(v)
				r.restore(saved)
				return err
			}}
		}
		st, closer, err := r.element(el, p, sink, i == 0)
		if closer != nil {
			closers = append(closers, closer)
		}
		if err != nil {
			for _, c := range closers {
				_ = c() // the first error is the one to report
			}
			r.ok = false
			return r.thrown(err, el)
		}
		p.stages[i] = st
	}
	err := r.drive(p.stages, p, s)
	for _, c := range closers {
		if cerr := c(); err == nil {
			err = cerr
		}
	}
	return err
}

func needsHome(el syntax.PipelineElement) bool {
	_, ok := el.(*syntax.Command)
	return ok
}

// emitAll sends a value down a pipeline, a collection element by element.
func (r *Runner) emitAll(v any, out Sink) error {
	switch v := v.(type) {
	case void:
		return nil
	case string, int32, bool:
		return out.Emit(v)
	}
	items, ok := value.Items(v)
	if !ok {
		return out.Emit(v)
	}
	for _, x := range items {
		if err := out.Emit(x); err != nil {
			return err
		}
	}
	return nil
}

// drive runs the stages of a pipeline: all begin, the first ends (which makes
// the objects), then the others end in order.
func (r *Runner) drive(stages []stage, p *pipeline, at syntax.Node) error {
	if p == nil {
		p = &pipeline{stages: stages, stopped: -1}
	}
	r.ok = true
	failed := false
	step := func(i int, f func() error) error {
		home := r.ambient()
		err := f()
		r.restore(home)
		if err == nil {
			return nil
		}
		var s *stopError
		if errors.As(err, &s) && s.p == p {
			return nil
		}
		if !isFlow(err) {
			r.ok = false
			if at != nil {
				err = r.thrown(err, at)
			}
		}
		p.dispose(i)
		return err
	}
	for i, st := range stages {
		if err := step(i, st.begin); err != nil {
			return err
		}
	}
	for i, st := range stages {
		if i < p.stopped {
			if d, ok := st.(disposer); ok {
				d.dispose()
			}
			continue
		}
		if err := step(i, st.end); err != nil {
			return err
		}
		if inner, ok := st.(*redirected); ok {
			st = inner.inner
		}
		switch st.(type) {
		case *cmdletStage, *nativeStage:
			failed = failed || !r.ok
		}
	}
	if failed { // $? covers the whole pipeline
		r.ok = false
	}
	return nil
}

// disposer is a stage with resources to release when it is stopped before its end.
type disposer interface{ dispose() }

func (p *pipeline) dispose(int) {
	for _, st := range p.stages {
		if d, ok := st.(disposer); ok {
			d.dispose()
		}
	}
}

// element returns the stage of an element. closer closes its redirections.
func (r *Runner) element(el syntax.PipelineElement, p *pipeline, out Sink, first bool) (stage, func() error, error) {
	switch el := el.(type) {
	case *syntax.CommandExpr:
		st := &exprStage{r: r, x: el.X, out: out}
		if len(el.Redirect) == 0 {
			return st, nil, nil
		}
		red, err := r.redirect(el.Redirect, out)
		if err != nil {
			return nil, nil, err
		}
		st.out = red.out
		return &redirected{r, st, red.streams}, red.close, nil
	case *syntax.Command:
		return r.commandStage(el, p, out, first)
	}
	return nil, nil, NotImplemented("this element of a pipeline")
}

// exprStage is an expression at the head of a pipeline.
type exprStage struct {
	r   *Runner
	x   syntax.Expr
	out Sink
}

func (e *exprStage) begin() error      { return nil }
func (e *exprStage) process(any) error { return nil }
func (e *exprStage) end() error {
	v, err := e.r.eval(e.x)
	if err != nil {
		return err
	}
	return e.r.emitAll(v, e.out)
}

// redirected runs a stage with other streams.
type redirected struct {
	r       *Runner
	inner   stage
	streams *streams
}

func (s *redirected) with(f func() error) error {
	old := s.r.streams
	s.r.streams = s.streams
	err := f()
	s.r.streams = old
	return err
}

func (s *redirected) begin() error        { return s.with(s.inner.begin) }
func (s *redirected) process(v any) error { return s.with(func() error { return s.inner.process(v) }) }
func (s *redirected) end() error          { return s.with(s.inner.end) }
func (s *redirected) dispose() {
	if d, ok := s.inner.(disposer); ok {
		d.dispose()
	}
}

type redirection struct {
	out     Sink
	streams *streams
	close   func() error
}

// redirect prepares redirections. Source: about_Redirection.
func (r *Runner) redirect(list []*syntax.Redirect, out Sink) (*redirection, error) {
	red := &redirection{out: out}
	st := *r.streams
	red.streams = &st
	var closers []func() error
	red.close = func() error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c())
		}
		return errors.Join(errs...)
	}
	for _, rd := range list {
		if rd.Merge == 1 {
			continue
		}
		target, err := r.eval(rd.File)
		if err != nil {
			return red, err
		}
		emit, closer, err := r.redirectTarget(target, rd.Append)
		if err != nil {
			return red, err
		}
		closers = append(closers, closer)
		if rd.Stream == 1 || rd.Stream == 0 {
			red.out = Sink{Emit: emit}
		}
		setStream(red.streams, rd.Stream, emit)
	}
	for _, rd := range list {
		if rd.Merge == 1 {
			setStream(red.streams, rd.Stream, red.out.Emit)
			red.out.Raw = nil
		}
	}
	return red, nil
}

func setStream(s *streams, n int, emit func(any) error) {
	for i, f := range []*func(any) error{nil, nil, &s.err, &s.warn, &s.verbose, &s.debug, &s.info} {
		if f != nil && (n == 0 || n == i) {
			*f = emit
		}
	}
}

// redirectTarget opens the file of a redirection; $null drops.
func (r *Runner) redirectTarget(target any, appendTo bool) (func(any) error, func() error, error) {
	none := func() error { return nil }
	if target == nil {
		return func(any) error { return nil }, none, nil
	}
	name := r.Text(target)
	if strings.EqualFold(name, "nul") || name == "/dev/null" {
		return func(any) error { return nil }, none, nil
	}
	w, err := r.openWrite(name, appendTo)
	if err != nil {
		return nil, none, err
	}
	d := r.cfg.Library.Display(r, w)
	return d.Add, func() error { return errors.Join(d.Flush(), w.Close()) }, nil
}

// openWrite opens a file for writing text.
func (r *Runner) openWrite(name string, appendTo bool) (io.WriteCloser, error) {
	if r.h.Files == nil {
		return nil, NotImplemented("the file system")
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if appendTo {
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	p := r.Path(name)
	f, err := r.h.Files.OpenFile(p, flags, 0o666)
	if err != nil {
		return nil, r.FileError(err, p)
	}
	return f, nil
}
