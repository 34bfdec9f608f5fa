// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package console

import (
	"slices"
	"strings"
)

// historySize is how many lines a console keeps (GetConsoleHistoryInfo, default).
const historySize = 50

// history are the lines entered, oldest first, and which one is recalled.
type history struct {
	lines []string
	at    int // len(lines): no line
}

// add keeps a line. The same one twice in a row is kept once.
func (h *history) add(line string) {
	if line != "" && (len(h.lines) == 0 || h.lines[len(h.lines)-1] != line) {
		h.lines = append(h.lines, line)
		if len(h.lines) > historySize {
			h.lines = slices.Delete(h.lines, 0, 1)
		}
	}
	h.at = len(h.lines)
}

// last returns the line entered before, or "".
func (h *history) last() string {
	if len(h.lines) == 0 {
		return ""
	}
	return h.lines[len(h.lines)-1]
}

// recall moves by n lines and returns the one there; ok is false without a line in
// that direction.
func (h *history) recall(n int) (line string, ok bool) {
	if len(h.lines) == 0 {
		return "", false
	}
	h.at = min(max(0, h.at+n), len(h.lines)-1)
	return h.lines[h.at], true
}

// search goes back to the line that begins with prefix, round at the oldest.
func (h *history) search(prefix string) (line string, ok bool) {
	for i := range h.lines {
		at := (h.at - 1 - i + 2*len(h.lines)) % len(h.lines)
		if strings.HasPrefix(h.lines[at], prefix) {
			h.at = at
			return h.lines[at], true
		}
	}
	return "", false
}
