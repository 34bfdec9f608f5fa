// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// output is standard output, which transfers in parallel share.
type output struct {
	mu   sync.Mutex
	w    io.Writer
	text bool // until a body was written to it
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.text {
		return o.w.Write(p)
	}
	if _, err := io.WriteString(o.w, strings.ReplaceAll(string(p), "\n", "\r\n")); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (o *output) binary() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = false
}

// sink is where a transfer's body goes: a file that is made when the first byte
// comes, or standard output.
type sink struct {
	g *global
	o *operation

	name     string // empty: standard output
	fromName bool   // the server gave the name, with Content-Disposition
	file     *os.File
	offset   int64 // where --continue-at began
	written  int64
	discard  bool
}

func (s *sink) Write(p []byte) (int, error) {
	if s.discard {
		return len(p), nil
	}
	if s.name == "" {
		n, err := s.g.out.Write(p)
		s.written += int64(n)
		if err != nil {
			return n, s.failed(len(p), n)
		}
		return n, nil
	}
	if err := s.open(); err != nil {
		return 0, s.failed(len(p), 0)
	}
	if s.discard {
		return len(p), nil
	}
	n, err := s.file.Write(p)
	s.written += int64(n)
	if err != nil {
		return n, s.failed(len(p), n)
	}
	return n, nil
}

func (s *sink) failed(want, got int) error {
	return fail(exitWrite, "Failure writing output to destination, passed %d returned %d", want, got)
}

// open makes the file, once.
func (s *sink) open() error {
	if s.file != nil {
		return nil
	}
	if isNull(s.name) {
		s.discard = true
		return nil
	}
	flags := os.O_WRONLY | os.O_CREATE
	switch {
	case s.o.resume && s.offset > 0:
		flags |= os.O_APPEND
	case s.o.noClobber || s.fromName && !s.o.clobber:
		flags |= os.O_EXCL
	default:
		flags |= os.O_TRUNC
	}
	name := s.name
	f, err := os.OpenFile(name, flags, 0o666)
	for n := 1; s.o.noClobber && errors.Is(err, fs.ErrExist) && n < 100; n++ {
		name = fmt.Sprintf("%s.%d", s.name, n)
		f, err = os.OpenFile(name, flags, 0o666)
	}
	if err != nil {
		s.g.warnf("Failed to open the file %s: %s", s.name, strerror(err))
		return err
	}
	s.name, s.file = name, f
	return nil
}

// isNull reports whether a name is Windows' null device.
func isNull(name string) bool {
	return strings.EqualFold(name, "NUL") || strings.EqualFold(name, `\\.\NUL`)
}

// strerror is the C library's text of an error.
func strerror(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "No such file or directory"
	case errors.Is(err, fs.ErrExist):
		return "File exists"
	case errors.Is(err, fs.ErrPermission):
		return "Permission denied"
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return err.Error()
}

// again empties the file for another try.
func (s *sink) again() {
	if s.file == nil || s.written == 0 {
		return
	}
	s.g.notef("Throwing away %d bytes", s.written)
	if err := s.file.Truncate(s.offset); err != nil {
		s.g.errorf("Failed to truncate file")
		return
	}
	if _, err := s.file.Seek(s.offset, io.SeekStart); err != nil {
		s.g.errorf("Failed seeking to end of file")
		return
	}
	s.written = 0
}

// close ends the output; a transfer that brought nothing leaves an empty file.
func (s *sink) close(err error, unmet bool) error {
	if s.name == "" || s.discard {
		return err
	}
	if err == nil && s.file == nil && !unmet {
		if s.open() != nil {
			err = &failure{code: exitWrite, quiet: true}
		}
	}
	if s.file == nil {
		return err
	}
	if closeErr := s.file.Close(); closeErr != nil && err == nil {
		err = fail(exitWrite, "Failed writing body")
	}
	if err != nil && s.o.removeOnError {
		if os.Remove(s.name) == nil {
			s.g.notef("Removed output file: %s", s.name)
		} else {
			s.g.warnf("Failed removing: %s", s.name)
		}
	}
	return err
}

// setName prepares the file that a URL is written to.
func (s *sink) setName(n *node, u *address, m match) error {
	name := n.output
	switch {
	case n.remoteName:
		if name = u.remoteFileName(); name == "" {
			name = "curl_response"
			s.g.warnf("No remote file name, uses %q", name)
		}
	case name == "-" || name == "":
		s.g.out.binary()
		s.offset = s.o.resumeFrom
		return nil
	case !s.o.globOff:
		if name = fillName(name, m.parts); name == "" {
			s.g.warnf("output glob produces empty string")
			return &failure{code: exitWrite, quiet: true}
		}
	}
	if s.o.outputDir != "" && !isNull(name) {
		name = s.o.outputDir + "/" + name
	}
	if err := s.o.makeDirs(s.g, name); err != nil {
		return err
	}
	s.name = name
	if s.o.resumeHere {
		if info, err := os.Stat(name); err == nil {
			s.offset = info.Size()
		}
	} else {
		s.offset = s.o.resumeFrom
	}
	return nil
}

// makeDirs is --create-dirs.
func (o *operation) makeDirs(g *global, name string) error {
	if !o.createDirs {
		return nil
	}
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		g.errorf("Failed to create directory %s: %s", dir, strerror(err))
		return &failure{code: exitWrite, quiet: true}
	}
	return nil
}

// takeName honors the name in Content-Disposition.
func (s *sink) takeName(header string) {
	for parameter := range strings.SplitSeq(header, ";") {
		value, ok := strings.CutPrefix(strings.TrimSpace(parameter), "filename=")
		if !ok {
			continue
		}
		name, _ := word(strings.Replace(value, "'", `"`, 2), ";")
		if name = sanitize(baseName(name)); name == "" {
			return
		}
		if s.o.outputDir != "" {
			name = s.o.outputDir + "/" + name
		}
		s.name, s.fromName = name, true
		return
	}
}
