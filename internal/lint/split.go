// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// document is the text of one YAML document, or of a sequence of JSON values.
type document struct {
	name    string // of the input
	world   string // see Input.World
	line    int    // of its first line in the input, from 1
	column  int    // characters before it on that line; not 0 only in JSON
	offset  int64  // of its first byte in the input
	text    []byte
	problem *problem // why it cannot be checked
	found   bool     // see Input.Found
	part    bool     // see Input.Part
	fixes   bool     // see Config.Fixes

	template *template // nil if the text was not rendered

	lineStarts []int // see starts
	cursor     struct{ line, column, offset int }
}

// starts returns the offsets of the document's lines.
func (d *document) starts() []int {
	if d.lineStarts == nil {
		d.lineStarts = lineStarts(d.text)
	}
	return d.lineStarts
}

// lines returns the document's lines without their line endings.
func (d *document) lines() []string {
	out := make([]string, len(d.starts()))
	for i := range out {
		out[i] = string(d.lineBytes(i + 1))
	}
	return out
}

// lineBytes returns line n of the document, counted from 1, without its line
// ending.
func (d *document) lineBytes(n int) []byte {
	starts := d.starts()
	if n < 1 || n > len(starts) {
		return nil
	}
	line := d.text[starts[n-1]:]
	if n < len(starts) {
		line = line[:starts[n]-starts[n-1]]
	}
	for len(line) > 0 {
		_, size := utf8.DecodeLastRune(line)
		if lineBreak(line[len(line)-size:]) == 0 {
			break
		}
		line = line[:len(line)-size]
	}
	return line
}

// seek returns the offset of a character in a line of the document; both count
// from 1. It counts from the place sought before if that is earlier on the
// line, so that places in order cost no more than one walk along the line.
func (d *document) seek(line []byte, n, column int) int {
	if c := &d.cursor; c.line != n || c.column > column || c.offset > len(line) {
		c.line, c.column, c.offset = n, 1, 0
	}
	c := &d.cursor
	for ; c.column < column && c.offset < len(line); c.column++ {
		_, size := utf8.DecodeRune(line[c.offset:])
		c.offset += size
	}
	return c.offset
}

// inInput returns the place in the input of a place in the document.
func (d *document) inInput(line, column int) (int, int) {
	if line == 1 {
		column += d.column
	}
	return line + d.line - 1, column
}

// width returns how many characters of its line a result is about: a key or a
// value, otherwise the one at its place, or 0 at the end of the line.
func (d *document) width(r *Result) int {
	line := d.lineBytes(r.Line)
	rest := line[d.seek(line, r.Line, r.Column):]
	length := min(len(rest), 1)
	if n := r.node; n != nil && n.Kind == yaml.ScalarNode && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		switch {
		case len(rest) == 0:
		case n.Style&yaml.DoubleQuotedStyle != 0:
			length = stringLen(rest)
		case n.Style&yaml.SingleQuotedStyle != 0:
			length = 1
			for length < len(rest) && (rest[length] != '\'' || bytes.HasPrefix(rest[length:], []byte("''"))) {
				if rest[length] == '\'' {
					length++
				}
				length++
			}
			length = min(length+1, len(rest))
		default: // plain; the value of one on several lines has spaces for their ends
			length = max(length, min(len(n.Value), len(rest)))
		}
	}
	return utf8.RuneCount(rest[:length])
}

// excerpt returns a line of the document to print, and the position of a column
// in it. Of a line wider than a terminal it returns the part around the column.
func (d *document) excerpt(n, column int) (text string, at int) {
	const most, before = 200, 60 // characters
	line := d.lineBytes(n)
	offset := d.seek(line, n, column)
	from, at := 0, max(1, min(column, d.cursor.column))
	head := ""
	if at > most-before && len(line) > most {
		from, at, head = offset, before+2, "…"
		for range before {
			_, size := utf8.DecodeLastRune(line[:from])
			from -= size
		}
	}
	to := from
	for range most {
		if to == len(line) {
			break
		}
		_, size := utf8.DecodeRune(line[to:])
		to += size
	}
	tail := ""
	if to < len(line) {
		tail = "…"
	}
	return head + string(bytes.ToValidUTF8(line[from:to], []byte("\uFFFD"))) + tail, at
}

// lineStarts returns the offsets of the lines of a text, as the YAML parser
// counts them.
func lineStarts(text []byte) []int {
	out := []int{0}
	for i := 0; i < len(text); {
		n := lineBreak(text[i:])
		if i += max(n, 1); n > 0 {
			out = append(out, i)
		}
	}
	return out
}

// lineBreak returns the length of the line ending at the start of a text, or 0
// if there is no line ending. YAML 1.1 has five line endings, and CR LF.
func lineBreak(b []byte) int {
	switch {
	case b[0] == '\n':
		return 1
	case b[0] == '\r':
		if len(b) > 1 && b[1] == '\n' {
			return 2
		}
		return 1
	case b[0] == 0xC2 && len(b) > 1 && b[1] == 0x85: // NEL
		return 2
	case b[0] == 0xE2 && len(b) > 2 && b[1] == 0x80 && (b[2] == 0xA8 || b[2] == 0xA9): // LS, PS
		return 3
	}
	return 0
}

// split calls f with every document of a stream. YAML separates documents by a
// line that begins with ---, wherever it appears: not even a block scalar may
// contain one.
func split(ctx context.Context, name string, r io.Reader, f func(document) error) error {
	br := bufio.NewReaderSize(interruptible{ctx, r}, 64<<10)
	s := splitter{name: name, f: f, line: 1}
	if bom, _ := br.Peek(3); bytes.HasPrefix(bom, []byte("\xEF\xBB\xBF")) {
		_, _ = br.Discard(3) // peeked
		s.at, s.begin = 3, 3
	} else if len(bom) >= 2 && (bom[0] == 0xFF && bom[1] == 0xFE || bom[0] == 0xFE && bom[1] == 0xFF) {
		s.problem = newProblem(1, 1, "WIN904",
			"the file is UTF-16, which PowerShell 5 writes with >", "save it as UTF-8: Out-File -Encoding utf8")
		head, _ := br.Peek(4 << 10) // the available bytes
		s.problem.foreign = !mentionsObjectUTF16(head)
	}
	fresh := true // at the beginning of a line
	for {
		chunk, err := br.ReadSlice('\n')
		if fresh && separator(chunk) && (s.seen || s.size > 0) {
			if err := s.flush(); err != nil {
				return err
			}
		}
		if failed := s.add(chunk); failed != nil {
			return failed
		}
		fresh = err == nil
		switch {
		case err == nil:
			s.lines++
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return s.flush()
		default:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &readError{err}
		}
	}
}

// separator reports whether a line begins a document.
func separator(line []byte) bool {
	return bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || line[3] == ' ' || line[3] == '\n' ||
		line[3] == '\r' || line[3] == '\t')
}

type splitter struct {
	name    string
	f       func(document) error
	text    []byte
	size    int   // of the document, including bytes that were not kept
	line    int   // of the document's first line
	lines   int   // complete lines so far
	at      int64 // offset of the next byte
	begin   int64 // of the document
	seen    bool  // the document has more than blanks and comments
	problem *problem
	json    *jsonSplitter // takes over a large document that is JSON
}

func (s *splitter) add(chunk []byte) error {
	s.size += len(chunk)
	s.at += int64(len(chunk))
	switch {
	case s.problem != nil:
	case s.json != nil:
		return s.json.write(chunk)
	case s.size > maxDocumentBytes && looksLikeJSON(s.text):
		s.json = &jsonSplitter{name: s.name, f: s.f, line: s.line, offset: s.begin}
		kept := s.text
		s.text = nil
		if err := s.json.write(kept); err != nil {
			return err
		}
		return s.json.write(chunk)
	case s.size > maxDocumentBytes:
		s.problem = tooLarge()
		s.problem.foreign = !mentionsObject(s.text)
		s.text = nil
	default:
		if i := bytes.IndexByte(chunk, 0); i >= 0 {
			s.problem = newProblem(s.lines+1, i+1, "WIN904", "there is a NUL byte: this is not text", "remove it")
			s.problem.foreign = !mentionsObject(s.text)
		}
		s.text = append(s.text, chunk...)
		t := bytes.TrimLeft(chunk, " \t\r\n")
		s.seen = s.seen || len(t) > 0 && t[0] != '#' && !separator(chunk)
	}
	return nil
}

// looksLikeJSON reports whether a text begins as a JSON object does.
func looksLikeJSON(text []byte) bool {
	rest, object := bytes.CutPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{"))
	return object && bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(`"`))
}

func (s *splitter) flush() error {
	if s.json != nil {
		if err := s.json.close(); err != nil {
			return err
		}
		s.json, s.seen = nil, false
	}
	d := document{name: s.name, line: s.line, offset: s.begin, text: s.text, problem: s.problem}
	empty := !s.seen && s.problem == nil
	s.line, s.lines, s.size, s.begin = s.line+s.lines, 0, 0, s.at
	// the next one is likely as large
	s.text, s.seen, s.problem = make([]byte, 0, min(len(s.text)+len(s.text)/4, 64<<10)), false, nil
	if empty {
		return nil
	}
	return s.f(d)
}
