// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// jsonSplitter cuts JSON that is larger than a document may be into separate
// documents: the values of a stream, and the items of a List. `kubectl get -A
// -o json` prints one List, of any size.
type jsonSplitter struct {
	name string
	f    func(document) error

	line, column int // of the next byte; column counts characters before it
	offset       int64

	depth           int    // of open brackets
	quoted, escaped bool   // in a string; after a backslash in it
	key             []byte // the last string of the outermost object, up to a few bytes
	items           bool   // in the list "items" of the outermost object
	comma           bool   // an item has ended: a comma or the end of the list must follow
	skipping        bool   // the text between two commas of the list has been reported
	count           int    // items of the list so far
	listed          bool   // the outermost object has such a list

	open  bool     // piece has a beginning
	piece document // the document being collected
}

// begin starts to collect a document at the next byte.
func (s *jsonSplitter) begin() {
	s.piece = document{name: s.name, line: s.line, column: s.column, offset: s.offset}
	s.open = true
}

// end emits the collected document.
func (s *jsonSplitter) end() error {
	if !s.open {
		return nil
	}
	s.open = false
	return s.f(s.piece)
}

// fail reports an error in the text around the documents.
func (s *jsonSplitter) fail(text, fix string) error {
	p := newProblem(1, 1, "WIN901", "this is not JSON: "+text, fix)
	return s.f(document{name: s.name, line: s.line, column: s.column, offset: s.offset, problem: p})
}

// write reads more of the stream.
func (s *jsonSplitter) write(text []byte) error {
	for len(text) > 0 {
		// Most bytes are inside of a document, where they need no decision.
		n := bytes.IndexAny(text, `"\{}[]:,`)
		switch {
		case n < 0:
			n = len(text)
		case n == 0:
			if err := s.step(text[0]); err != nil {
				return err
			}
			text = text[1:]
			continue
		}
		if err := s.plain(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// plain takes text without brackets, quotes and separators.
func (s *jsonSplitter) plain(text []byte) (err error) {
	s.escaped = false
	if s.quoted {
		s.inKey(text)
		s.take(text)
		return nil
	}
	rest := bytes.TrimLeft(text, " \t\r\n")
	s.take(text[:len(text)-len(rest)])
	if len(rest) > 0 && s.depth == 0 && !s.open {
		s.begin()
	} else if len(rest) > 0 && s.items && s.depth == 2 {
		err = s.scalar()
	}
	s.take(rest)
	return err
}

// inKey collects a string that may be a key of the outermost object.
func (s *jsonSplitter) inKey(text []byte) {
	if s.depth == 1 && len(s.key) <= len(itemsKey) {
		s.key = append(s.key, text[:min(len(text), len(itemsKey)+1)]...)
	}
}

// itemsKey is the field of a List that holds its objects.
const itemsKey = "items"

// separate checks that an item may begin here.
func (s *jsonSplitter) separate() error {
	if s.comma {
		return s.fail("there is no comma between two items", "fix it here")
	}
	return nil
}

// scalar reports an item that is a string, a number or the like, once.
func (s *jsonSplitter) scalar() error {
	if s.skipping {
		return nil
	}
	s.skipping = true
	return s.fail("an item of the list is not an object", "remove it")
}

// step takes one byte that may change the state.
func (s *jsonSplitter) step(b byte) (err error) {
	switch {
	case s.quoted:
		s.inString(b)
		if s.quoted {
			s.inKey([]byte{b})
		}
		s.take([]byte{b})
		return nil
	case b == '{', b == '[':
		return s.opens(b)
	case b == '}', b == ']':
		return s.closes(b)
	case b == '"':
		s.quoted = true
		if s.depth == 1 {
			s.key = s.key[:0]
		} else if s.items && s.depth == 2 {
			err = s.scalar()
		}
	case b == ',' && s.items && s.depth == 2:
		if !s.comma && !s.skipping {
			err = s.fail("a comma without an item before it", "fix it here")
		}
		s.comma, s.skipping = false, false
	}
	s.take([]byte{b})
	return err
}

// inString takes one byte of a string.
func (s *jsonSplitter) inString(b byte) {
	switch {
	case s.escaped:
		s.escaped = false
	case b == '\\':
		s.escaped = true
	case b == '"':
		s.quoted = false
	}
}

func (s *jsonSplitter) opens(b byte) error {
	switch {
	case s.depth == 0 && !s.open:
		s.begin()
	case s.depth == 1 && b == '[' && string(s.key) == itemsKey:
		s.items, s.listed, s.comma, s.skipping, s.count = true, true, false, false, 0
		s.open = false // the List itself is not a document any more
	case s.items && s.depth == 2:
		if err := s.separate(); err != nil {
			return err
		}
		s.begin()
	}
	s.depth++
	s.take([]byte{b})
	return nil
}

func (s *jsonSplitter) closes(b byte) error {
	if s.items && s.depth == 2 && s.count > 0 && !s.comma && !s.skipping {
		if err := s.fail("a comma without an item after it", "remove the last comma"); err != nil {
			return err
		}
	}
	s.take([]byte{b})
	s.depth = max(s.depth-1, 0)
	switch {
	case s.items && s.depth == 2:
		s.comma = true
		s.count++
		return s.end()
	case s.items && s.depth == 1:
		s.items = false
	case s.depth == 0:
		s.key, s.listed = s.key[:0], false
		return s.end()
	}
	return nil
}

// take counts text, and keeps it if it belongs to a document.
func (s *jsonSplitter) take(text []byte) {
	if s.open {
		switch {
		case s.piece.problem != nil:
		case len(s.piece.text)+len(text) > maxDocumentBytes:
			s.piece.problem, s.piece.text = tooLarge(), nil
		default:
			s.piece.text = append(s.piece.text, text...)
		}
	}
	s.offset += int64(len(text))
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		s.line += bytes.Count(text, []byte("\n"))
		s.column, text = 0, text[i+1:]
	}
	for _, b := range text {
		if utf8.RuneStart(b) {
			s.column++
		}
	}
}

// close emits an unfinished document.
func (s *jsonSplitter) close() error {
	if s.listed && !s.open {
		return s.fail("the list has no end", "check that the file is complete")
	}
	return s.end()
}

// tooLarge is the problem of a document above the limit.
func tooLarge() *problem {
	return newProblem(1, 1, "WIN903",
		fmt.Sprintf("the document is larger than %d MiB", maxDocumentBytes>>20), "split it with --- lines")
}
