// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package complete

import "strings"

// place is the role of a word in a line.
type place int

const (
	none       place = iota // cannot be completed: a comment
	command                 // the name of a command
	argument                // an argument of a command, or a part of an expression
	redirected              // the file behind > or <
)

// word is the end of a line, which is completed.
type word struct {
	place   place
	start   int    // where it begins in the line
	text    string // without quotes
	quote   byte   // the quote around it, or 0
	command string // the command whose argument it is; empty in an expression
	called  bool   // & or . precedes it
}

// scanner finds the last word of a line. The parser cannot do that: the line ends
// in the middle of a construct.
type scanner struct {
	line    string
	at      int
	place   place
	command string
	called  bool
	file    bool // the next word is the file of a redirection
	outer   []scanner
}

// lastWord finds the word that ends a line.
func lastWord(line string) word {
	s := scanner{line: line, place: command}
	for {
		for s.at < len(line) && (line[s.at] == ' ' || line[s.at] == '\t') {
			s.at++
		}
		if s.at == len(line) {
			return s.word(s.at, "", 0)
		}
		if line[s.at] == '#' {
			return word{}
		}
		if s.punctuation(line[s.at]) {
			s.at++
			continue
		}
		if w, ended := s.scanWord(); !ended {
			return w
		}
	}
}

func (s *scanner) word(start int, text string, quote byte) word {
	p := s.place
	if s.file {
		p = redirected
	}
	return word{place: p, start: start, text: text, quote: quote, command: s.command, called: s.called}
}

// punctuation acts upon a character that is no part of a word, and reports whether
// c is one.
func (s *scanner) punctuation(c byte) bool {
	switch c {
	case '(', '{':
		outer := *s
		s.outer = append(s.outer, outer)
		s.begin()
	case ')', '}':
		if n := len(s.outer); n > 0 {
			at, outer := s.at, s.outer[n-1]
			*s = outer
			s.at, s.outer = at, outer.outer[:n-1]
		}
		if c == ')' && s.place == command {
			s.place, s.command = argument, "" // the value of an expression
		}
	case '|', ';', '\n':
		s.begin()
	case '&':
		s.begin()
		s.called = true
	case '<', '>':
		s.file = true
	case ',':
	case '=':
		if s.command != "" || s.place != argument {
			return false
		}
		s.begin() // an assignment
	default:
		return false
	}
	return true
}

// begin begins a command.
func (s *scanner) begin() { s.place, s.command, s.called, s.file = command, "", false, false }

// scanWord reads a word. ended: something follows it.
func (s *scanner) scanWord() (w word, ended bool) {
	start := s.at
	var text strings.Builder
	var quote, first byte // the open quote; the one that begins the word
	for ; s.at < len(s.line); s.at++ {
		c := s.line[s.at]
		switch {
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
			if s.at == start {
				first = c
			}
		case c == quote:
			quote = 0
			if first != 0 && s.at+1 < len(s.line) && s.line[s.at+1] == c {
				quote = c // two stand for one
				continue
			}
		case c == '`' && quote != '\'' && s.at+1 < len(s.line):
			s.at++
			text.WriteByte(s.line[s.at])
		case quote == 0 && s.ends(start, c):
			s.finish(s.line[start:s.at], text.String())
			return word{}, true
		default:
			text.WriteByte(c)
		}
	}
	return s.word(start, text.String(), first), false
}

// ends reports whether a character ends a word that began at start.
func (s *scanner) ends(start int, c byte) bool {
	switch c {
	case ' ', '\t', '\n', '|', ';', '&', '(', ')', '{', '}', ',', '<', '>':
		return true
	case '=':
		return s.command == "" && s.line[start] == '$'
	}
	return false
}

// keywords may be followed by a command.
const keywords = " return throw else do try finally begin process end in "

// finish acts upon a word that has ended.
func (s *scanner) finish(raw, text string) {
	switch {
	case s.file:
		s.file = false
	case s.place != command:
	case raw == ".":
		s.called = true
	case !s.called && strings.IndexByte(`$'"@[+-0123456789`, raw[0]) >= 0:
		s.place = argument // of an expression
	case strings.Contains(keywords, " "+strings.ToLower(text)+" "):
	default:
		s.place, s.command = argument, text
	}
}
