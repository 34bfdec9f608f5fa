// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"bufio"
	"bytes"
	"io"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// nativeStage is a program in a pipeline: objects go to its standard input as
// lines of text, and its lines of output come out as strings.
type nativeStage struct {
	r     *Runner
	path  string
	name  string
	args  []argument
	out   Sink
	p     *pipeline
	first bool
	input bytes.Buffer
	disp  Display
}

func (s *nativeStage) begin() error { return nil }

func (s *nativeStage) process(v any) error {
	if text, ok := v.(string); ok {
		s.input.WriteString(text + s.r.Newline())
		return nil
	}
	if s.disp == nil {
		s.disp = s.r.cfg.Library.Display(s.r, &s.input)
	}
	return s.disp.Add(v)
}

// argv returns the arguments of a program: one for each element of a collection.
func (s *nativeStage) argv() []string {
	var argv []string
	for i, a := range s.args {
		if i > 0 && s.args[i-1].value == "--%" && s.args[i-1].bare {
			argv = append(argv, splitVerbatim(expandPercent(s.r, s.r.Text(a.value)))...)
			continue
		}
		if a.bare && a.value == "--%" {
			continue
		}
		if a.param != "" {
			argv = append(argv, a.text)
			continue
		}
		if a.text != "" {
			argv = append(argv, a.text)
			continue
		}
		if items, ok := value.Items(a.value); ok {
			for _, x := range items {
				argv = append(argv, s.r.Text(x))
			}
			continue
		}
		if a.value == nil {
			continue
		}
		argv = append(argv, s.r.Text(a.value))
	}
	return argv
}

// splitVerbatim splits the command line after --% as Windows' programs do:
// blanks separate arguments, double quotes hold one together.
func splitVerbatim(line string) []string {
	var argv []string
	var arg strings.Builder
	quoted, started := false, false
	for _, c := range line {
		switch {
		case c == '"':
			quoted, started = !quoted, true
		case !quoted && (c == ' ' || c == '\t'):
			if started {
				argv = append(argv, arg.String())
			}
			arg.Reset()
			started = false
		default:
			arg.WriteRune(c)
			started = true
		}
	}
	if started {
		argv = append(argv, arg.String())
	}
	return argv
}

// expandPercent replaces %NAME% by the environment variable of that name.
func expandPercent(r *Runner, word string) string {
	parts := strings.Split(word, "%")
	for i := 1; i+1 < len(parts); i += 2 {
		if v, ok := r.getenv(parts[i]); ok {
			parts[i] = v
		} else {
			parts[i] = "%" + parts[i] + "%"
		}
	}
	return strings.Join(parts, "")
}

func (s *nativeStage) end() error {
	r := s.r
	if r.h.Exec == nil {
		return NotImplemented("running a program")
	}
	if s.disp != nil {
		if err := s.disp.Flush(); err != nil {
			return err
		}
	}
	p := host.Process{Path: s.path, Args: s.argv(), Dir: r.Location}
	if !s.first {
		p.Stdin = &s.input
	}
	if err := r.display.Flush(); err != nil {
		return err
	}
	type line struct {
		text string
		err  bool
	}
	lines := make(chan line, 64)
	quit := make(chan struct{})
	var pumps []*linePump
	pump := func(isErr bool) io.Writer {
		lp := &linePump{send: func(t string) {
			select {
			case lines <- line{t, isErr}:
			case <-quit:
			}
		}}
		pumps = append(pumps, lp)
		return lp
	}
	if s.out.Raw != nil {
		p.Stdout = s.out.Raw
	} else {
		p.Stdout = pump(false)
	}
	if r.streams.err != nil {
		p.Stderr = pump(true)
	} else {
		p.Stderr = r.h.Stderr
	}
	var exit int
	var execErr error
	go func() {
		defer close(lines)
		exit, execErr = r.h.Exec(r.Context(), p)
		for _, lp := range pumps {
			lp.flush()
		}
	}()
	var sendErr error
	for l := range lines {
		if sendErr != nil {
			continue
		}
		if l.err {
			sendErr = r.streams.err(r.nativeError(l.text))
		} else {
			sendErr = s.out.Emit(l.text)
		}
		if sendErr != nil {
			close(quit)
		}
	}
	if execErr != nil {
		return r.fail("System.Management.Automation.ApplicationFailedException", "NativeCommandFailed",
			"ResourceUnavailable", s.path, "Program '%s' failed to run: %s", s.name, execErr.Error())
	}
	r.lastExit, r.exitSet = exit, true
	r.ok = exit == 0
	return sendErr
}

// nativeError returns an error record for a line of a program's standard error.
func (r *Runner) nativeError(text string) *ErrorRecord {
	return &ErrorRecord{
		Exception: &Exception{Type: "System.Management.Automation.RemoteException", Message: text,
			ID: "NativeCommandError"},
		Category: "NotSpecified",
		FQID:     "NativeCommandError",
		Target:   text,
	}
}

// maxLine bounds one line of a program's output. Bytes.
const maxLine = 1 << 24

// linePump is a writer that splits its input into lines.
type linePump struct {
	buf  bytes.Buffer
	send func(string)
}

func (p *linePump) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			p.buf.Write(b)
			if p.buf.Len() > maxLine {
				p.flush()
			}
			break
		}
		p.buf.Write(b[:i])
		p.send(strings.TrimSuffix(p.buf.String(), "\r"))
		p.buf.Reset()
		b = b[i+1:]
	}
	return n, nil
}

func (p *linePump) flush() {
	if p.buf.Len() > 0 {
		p.send(strings.TrimSuffix(p.buf.String(), "\r"))
		p.buf.Reset()
	}
}

// SplitLines cuts text into lines without their ends.
func SplitLines(text string) []string {
	if text == "" {
		return nil
	}
	sc := bufio.NewScanner(strings.NewReader(text))
	sc.Buffer(nil, len(text)+1)
	var lines []string
	for sc.Scan() {
		lines = append(lines, strings.TrimSuffix(sc.Text(), "\r"))
	}
	return lines
}

// Newline returns the line end that files and pipes get.
func (r *Runner) Newline() string {
	if r.cfg.Windows {
		return "\r\n"
	}
	return "\n"
}
