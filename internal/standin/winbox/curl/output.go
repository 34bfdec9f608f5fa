// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// output is standard output.
type output struct {
	w    io.Writer
	text bool // until a body is written to it
}

func (o *output) Write(p []byte) (int, error) {
	if !o.text {
		return o.w.Write(p)
	}
	if _, err := io.WriteString(o.w, strings.ReplaceAll(string(p), "\n", "\r\n")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// A target is the value of one --output or --remote-name.
type target struct {
	name   string // empty or "-" is standard output
	remote bool   // the name comes from the URL
}

// sink is where a transfer's body goes: standard output, or a file, which is
// created when the first byte arrives.
type sink struct {
	c       *client
	name    string // empty is standard output
	file    *os.File
	discard bool // Windows' null device
}

// newSink returns the sink of a URL.
func (c *client) newSink(to target, u *url.URL) (*sink, error) {
	name := to.name
	if to.remote {
		name = remoteFileName(u)
	}
	switch {
	case name == "" || name == "-":
		c.out.text = false
		return &sink{c: c}, nil
	case isNull(name):
		return &sink{c: c, name: name, discard: true}, nil
	}
	if c.opts.outputDir != "" {
		name = c.opts.outputDir + "/" + name
	}
	return &sink{c: c, name: name}, c.makeDirs(name)
}

// makeDirs is --create-dirs.
func (c *client) makeDirs(name string) error {
	if !c.opts.createDirs {
		return nil
	}
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		c.errorf("Failed to create directory %s: %s", dir, strerror(err))
		return &failure{code: exitWrite}
	}
	return nil
}

// isNull reports whether a name is Windows' null device.
func isNull(name string) bool {
	return strings.EqualFold(name, "NUL") || strings.EqualFold(name, `\\.\NUL`)
}

func (s *sink) Write(p []byte) (int, error) {
	if s.discard {
		return len(p), nil
	}
	var w io.Writer = s.c.out
	if s.name != "" {
		if err := s.open(); err != nil {
			return 0, fail(exitWrite, "Failure writing output to destination, passed %d returned 0", len(p))
		}
		w = s.file
	}
	n, err := w.Write(p)
	if err != nil {
		return n, fail(exitWrite, "Failure writing output to destination, passed %d returned %d", len(p), n)
	}
	return n, nil
}

// open creates the file, once.
func (s *sink) open() (err error) {
	if s.file != nil {
		return nil
	}
	if s.file, err = os.Create(s.name); err != nil {
		s.c.warnf("Failed to open the file %s: %s", s.name, strerror(err))
	}
	return err
}

// again empties the file for another try.
func (s *sink) again() error {
	if s.file == nil {
		return nil
	}
	if err := s.file.Truncate(0); err != nil {
		return fail(exitWrite, "Failed to truncate file")
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return err
}

// close ends the output; a transfer without a body leaves an empty file.
func (s *sink) close(err error) error {
	if s.name == "" || s.discard {
		return err
	}
	if err == nil && s.open() != nil {
		return &failure{code: exitWrite}
	}
	if s.file == nil {
		return err
	}
	if closeErr := s.file.Close(); closeErr != nil && err == nil {
		err = fail(exitWrite, "Failed writing body")
	}
	return err
}

// strerror is the C library's text of an error.
func strerror(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "No such file or directory"
	case errors.Is(err, fs.ErrPermission):
		return "Permission denied"
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return err.Error()
}
