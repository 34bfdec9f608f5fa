// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// stream is System.IO.Stream over Go's readers and writers.
type stream struct {
	r      io.Reader
	w      io.Writer
	closer io.Closer
	seek   io.Seeker
	mem    *bytes.Buffer // of a MemoryStream: everything written
	pos    int64         // of a MemoryStream
}

func (s *stream) close() error {
	if s.closer != nil {
		c := s.closer
		s.closer = nil
		return c.Close()
	}
	return nil
}

func newStream(r *interp.Runner, s *stream) *interp.Instance {
	return instance(r, "System.IO.Stream", s, nil)
}

// memory is a MemoryStream's reader and writer.
type memory struct{ s *stream }

func (m memory) Read(b []byte) (int, error) {
	all := m.s.mem.Bytes()
	if m.s.pos >= int64(len(all)) {
		return 0, io.EOF
	}
	n := copy(b, all[m.s.pos:])
	m.s.pos += int64(n)
	return n, nil
}

func (m memory) Write(b []byte) (int, error) {
	if m.s.mem.Len()+len(b) > value.MaxItems {
		return 0, value.ErrTooLarge
	}
	n, err := m.s.mem.Write(b)
	m.s.pos = int64(m.s.mem.Len())
	return n, err
}

func newMemory(r *interp.Runner, b []byte) *interp.Instance {
	s := &stream{mem: bytes.NewBuffer(append([]byte(nil), b...))}
	s.r, s.w = memory{s}, memory{s}
	return instance(r, "System.IO.MemoryStream", s, nil)
}

// reader is System.IO.StreamReader.
type reader struct {
	b    *bufio.Reader
	base *stream
}

func (x *reader) line() (any, error) {
	t, err := x.b.ReadString('\n')
	if err != nil && t == "" {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, ioError(err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(t, "\n"), "\r"), nil
}

// writer is System.IO.StreamWriter.
type writer struct {
	w    *bufio.Writer
	base *stream
	text *strings.Builder
	auto bool
	nl   string
}

func (x *writer) write(s string) error {
	if _, err := x.w.WriteString(s); err != nil {
		return ioError(err)
	}
	if x.auto || x.text != nil {
		return ioError(x.w.Flush())
	}
	return nil
}

func ioError(err error) error {
	if err == nil {
		return nil
	}
	if ex, ok := errors.AsType[*interp.Exception](err); ok {
		return ex
	}
	return interp.Failf("System.IO.IOException", "IOException", "NotSpecified", nil, "%s", err.Error())
}

// openStream returns a stream for an open file.
func openStream(r *interp.Runner, name string, flag int) (*stream, error) {
	fs := r.Handlers().Files
	if fs == nil {
		return nil, interp.NotImplemented("the file system")
	}
	p := r.Path(name)
	f, err := fs.OpenFile(p, flag, 0o666)
	if err != nil {
		return nil, fileError(r, err, p)
	}
	s := &stream{closer: f, seek: f}
	switch flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR) {
	case os.O_RDONLY:
		s.r = f
	case os.O_WRONLY:
		s.w = f
	default:
		s.r, s.w = f, f
	}
	return s, nil
}

// fileError is FileError with .NET's own words.
func fileError(r *interp.Runner, err error, p string) error {
	if errors.Is(err, os.ErrNotExist) && r.Exists(r.ParentPath(p)) {
		return interp.Failf("System.IO.FileNotFoundException", "FileNotFoundException", "NotSpecified", nil,
			"Could not find file '%s'.", p)
	}
	return r.FileError(err, p)
}

// newWriter returns a StreamWriter for a stream.
func newWriter(s *stream) *writer { return &writer{w: bufio.NewWriter(s.w), base: s, nl: "\r\n"} }

// Length: one table; splitting hides which names belong together.
func streamClasses() []*interp.Class {
	return append([]*interp.Class{
		{Name: "System.IO.Stream", Props: []interp.Property{
			get("CanRead", func(s *stream) any { return s.r != nil }),
			get("CanWrite", func(s *stream) any { return s.w != nil }),
			get("CanSeek", func(s *stream) any { return s.mem != nil || s.seek != nil }),
			get("DataAvailable", func(s *stream) any {
				if b, ok := s.r.(interface{ Buffered() int }); ok {
					return b.Buffered() > 0
				}
				return false
			}),
			getErr("Length", func(_ *interp.Call, s *stream) (any, error) {
				if s.mem != nil {
					return int64(s.mem.Len()), nil
				}
				if s.seek == nil {
					return nil, errNotSeekable
				}
				at, err := s.seek.Seek(0, io.SeekCurrent)
				if err != nil {
					return nil, ioError(err)
				}
				n, err := s.seek.Seek(0, io.SeekEnd)
				if err != nil {
					return nil, ioError(err)
				}
				_, err = s.seek.Seek(at, io.SeekStart)
				return n, ioError(err)
			}),
			rw("Position", func(s *stream) any { return s.pos }, func(_ *interp.Call, s *stream, v any) error {
				n, err := value.ToInt(v)
				if err != nil {
					return err
				}
				if s.seek != nil {
					_, err = s.seek.Seek(int64(n), io.SeekStart)
					return ioError(err)
				}
				if n < 0 {
					return argError("Non-negative number required.")
				}
				s.pos = int64(n)
				return nil
			}),
		}, Methods: []interp.Method{
			method("Write", func(c *interp.Call, s *stream) (any, error) {
				if s.w == nil {
					return nil, interp.Failf("System.NotSupportedException", "NotSupportedException", "NotSpecified",
						nil, "Stream does not support writing.")
				}
				b, err := slice(c)
				if err != nil {
					return nil, err
				}
				_, err = s.w.Write(b)
				return interp.Void, ioError(err)
			}),
			method("WriteByte", func(c *interp.Call, s *stream) (any, error) {
				b, err := value.Bytes(c.Arg(0))
				if err != nil {
					return nil, err
				}
				_, err = s.w.Write(b)
				return interp.Void, ioError(err)
			}),
			method("Read", func(c *interp.Call, s *stream) (any, error) {
				buf, ok := c.Arg(0).(*value.Array)
				if !ok || s.r == nil {
					return nil, argError("Stream does not support reading.")
				}
				off, err := c.Int(1)
				if err != nil {
					return nil, err
				}
				n, err := c.Int(2)
				if err != nil {
					return nil, err
				}
				if off < 0 || n < 0 || off+n > len(buf.Items) {
					return nil, argError("Offset and length were out of bounds for the array or count is greater " +
						"than the number of elements from index to the end of the source collection.")
				}
				b := make([]byte, n)
				got, err := s.r.Read(b)
				for i := range got {
					buf.Items[off+i] = b[i]
				}
				if err != nil && !errors.Is(err, io.EOF) {
					return nil, ioError(err)
				}
				return i32(got), nil
			}),
			method("CopyTo", func(c *interp.Call, s *stream) (any, error) {
				to, ok := data[*stream](c.Arg(0))
				if !ok || to.w == nil || s.r == nil {
					return nil, argError("Stream does not support writing.")
				}
				_, err := io.Copy(to.w, s.r)
				return interp.Void, ioError(err)
			}),
			method("Flush", func(*interp.Call, *stream) (any, error) { return interp.Void, nil }),
			method("Seek", func(c *interp.Call, s *stream) (any, error) {
				n, err := c.Int(0)
				if err != nil {
					return nil, err
				}
				s.pos = int64(max(n, 0))
				if s.seek != nil {
					_, err = s.seek.Seek(int64(n), io.SeekStart)
				}
				return s.pos, ioError(err)
			}),
			method("ToArray", func(_ *interp.Call, s *stream) (any, error) {
				if s.mem == nil {
					return nil, errNotSeekable
				}
				return value.NewBytes(s.mem.Bytes()), nil
			}),
			method("Close", func(_ *interp.Call, s *stream) (any, error) { return interp.Void, ioError(s.close()) }),
			method("Dispose", func(_ *interp.Call, s *stream) (any, error) { return interp.Void, ioError(s.close()) }),
		}},
		{Name: "System.IO.MemoryStream", Base: "System.IO.Stream", New: func(c *interp.Call) (any, error) {
			if c.N() == 0 || value.IsNumber(c.Arg(0)) {
				return newMemory(c.R, nil), nil
			}
			b, err := value.Bytes(c.Arg(0))
			return newMemory(c.R, b), err
		}},
	}, textStreamClasses()...)
}

var errNotSeekable = interp.Failf("System.NotSupportedException", "NotSupportedException", "NotSpecified", nil,
	"This stream does not support seek operations.")

// slice is (bytes[, offset, count]) of a Write.
func slice(c *interp.Call) ([]byte, error) {
	b, err := value.Bytes(c.Arg(0))
	if err != nil || c.N() < 3 {
		return b, err
	}
	n, err := ints(c, 1)
	if err != nil {
		return nil, err
	}
	if n[0] < 0 || n[1] < 0 || n[0]+n[1] > len(b) {
		return nil, argError("Offset and length were out of bounds for the array or count is greater than the number " +
			"of elements from index to the end of the source collection.")
	}
	return b[n[0] : n[0]+n[1]], nil
}

// Length: one table; splitting hides which names belong together.
func textStreamClasses() []*interp.Class {
	return []*interp.Class{
		{Name: "System.IO.StreamReader", Props: []interp.Property{
			get("EndOfStream", func(x *reader) any { _, err := x.b.Peek(1); return err != nil }),
			getErr("BaseStream", func(c *interp.Call, x *reader) (any, error) { return newStream(c.R, x.base), nil }),
		}, New: func(c *interp.Call) (any, error) {
			s, ok := data[*stream](c.Arg(0))
			if !ok {
				var err error
				if s, err = openStream(c.R, c.Str(0), os.O_RDONLY); err != nil {
					return nil, err
				}
			}
			if s.r == nil {
				return nil, argError("Stream was not readable.")
			}
			b := bufio.NewReader(s.r)
			if mark, err := b.Peek(3); err == nil && string(mark) == "\ufeff" {
				_, _ = b.Discard(3) // peeked: cannot fail
			}
			return instance(c.R, "System.IO.StreamReader", &reader{b, s}, nil), nil
		}, Methods: []interp.Method{
			method("ReadLine", func(_ *interp.Call, x *reader) (any, error) { return x.line() }),
			method("ReadToEnd", func(_ *interp.Call, x *reader) (any, error) {
				b, err := io.ReadAll(io.LimitReader(x.b, value.MaxItems))
				return string(b), ioError(err)
			}),
			method("Read", func(c *interp.Call, x *reader) (any, error) {
				if err := c.Need(0); err != nil {
					return nil, err
				}
				r, _, err := x.b.ReadRune()
				if err != nil {
					return int32(-1), nil
				}
				return int32(r), nil
			}),
			method("Peek", func(_ *interp.Call, x *reader) (any, error) {
				b, _ := x.b.Peek(4) // fewer at the end
				if len(b) == 0 {
					return int32(-1), nil
				}
				r, _ := utf8.DecodeRune(b)
				return int32(r), nil
			}),
			method("Close", func(_ *interp.Call, x *reader) (any, error) {
				return interp.Void, ioError(x.base.close())
			}),
			method("Dispose", func(_ *interp.Call, x *reader) (any, error) {
				return interp.Void, ioError(x.base.close())
			}),
		}},
		{Name: "System.IO.StreamWriter", Props: []interp.Property{
			rw("AutoFlush", func(x *writer) any { return x.auto }, func(_ *interp.Call, x *writer, v any) error {
				x.auto = value.Bool(v)
				return ioError(x.w.Flush())
			}),
			rw("NewLine", func(x *writer) any { return x.nl }, func(_ *interp.Call, x *writer, v any) error {
				x.nl = value.String(v)
				return nil
			}),
			getErr("BaseStream", func(c *interp.Call, x *writer) (any, error) { return newStream(c.R, x.base), nil }),
		}, New: func(c *interp.Call) (any, error) {
			s, ok := data[*stream](c.Arg(0))
			if !ok {
				flag := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
				if c.N() > 1 && value.Bool(c.Arg(1)) {
					flag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
				}
				var err error
				if s, err = openStream(c.R, c.Str(0), flag); err != nil {
					return nil, err
				}
			}
			if s.w == nil {
				return nil, argError("Stream was not writable.")
			}
			w := newWriter(s)
			w.nl = c.R.Newline()
			return instance(c.R, "System.IO.StreamWriter", w, nil), nil
		}, Methods: []interp.Method{
			method("Write", func(c *interp.Call, x *writer) (any, error) {
				s, err := formatArgs(c)
				if err != nil {
					return nil, err
				}
				return interp.Void, x.write(s)
			}),
			method("WriteLine", func(c *interp.Call, x *writer) (any, error) {
				s, err := formatArgs(c)
				if err != nil {
					return nil, err
				}
				return interp.Void, x.write(s + x.nl)
			}),
			method("Flush", func(_ *interp.Call, x *writer) (any, error) { return interp.Void, ioError(x.w.Flush()) }),
			method("Close", func(_ *interp.Call, x *writer) (any, error) {
				return interp.Void, ioError(errors.Join(x.w.Flush(), x.base.close()))
			}),
			method("Dispose", func(_ *interp.Call, x *writer) (any, error) {
				return interp.Void, ioError(errors.Join(x.w.Flush(), x.base.close()))
			}),
		}},
	}
}

// formatArgs returns the text of Write(format, args…).
func formatArgs(c *interp.Call) (string, error) {
	if c.N() <= 1 {
		if a, ok := c.Arg(0).(*value.Array); ok && a.Elem == "Char" {
			return value.Join(a.Items, ""), nil
		}
		return c.Str(0), nil
	}
	return value.Format(c.Str(0), c.Args[1:])
}
