// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"bytes"
	"encoding/json"
	"io"
	"net/netip"
	"sync"

	"github.com/mullion-k8s/mullion/internal/supervise"
)

// report is one line from process 1 to the parent.
type report struct {
	Components []supervise.Status `json:"components"`
	Agent      json.RawMessage    `json:"agent,omitempty"`
	PodRanges  []netip.Prefix     `json:"podRanges,omitempty"`
	Shared     []netip.Prefix     `json:"shared,omitempty"`
	Fatal      string             `json:"fatal,omitempty"`
}

// Reporter sends init's news to the parent, one JSON document per line. The
// parent reads always; if it is dead, so are we in a moment.
type Reporter struct {
	// Changed rings when a program of the host has reported, see Output.
	Changed supervise.Bell

	mu   sync.Mutex
	to   io.Writer // guarded by mu
	last report    // guarded by mu
}

// components is supervise.Config.OnChange.
func (r *Reporter) components(list []supervise.Status) {
	r.send(func(last *report) { last.Components = list })
}

// PodRanges reports the ranges of the host's pods, so that the fabric gets routes to
// them, and the ranges that it shares with other hosts.
func (r *Reporter) PodRanges(ranges, shared []netip.Prefix) {
	r.send(func(last *report) { last.PodRanges, last.Shared = ranges, shared })
}

// outputLimit bounds a line of a program, in bytes. A status of the agent has some 1,000.
const outputLimit = 64 << 10

// Output returns the standard output for a program of mullion's on the host, which reports with a line. A line of the
// node agent is its status document, which is sent to the parent.
func (r *Reporter) Output() io.Writer {
	return &lines{limit: outputLimit, each: func(line []byte) {
		if json.Valid(line) {
			r.send(func(last *report) { last.Agent = bytes.TrimSpace(line) })
		}
		r.Changed.Ring()
	}}
}

// send changes the last report and sends it.
func (r *Reporter) send(change func(*report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.last)
	// An error means that the parent is gone.
	_ = json.NewEncoder(r.to).Encode(r.last)
}

// lines is a writer that calls each with every line. A line that is longer than the limit takes no more memory, and is
// left out.
type lines struct {
	limit int
	each  func(line []byte)
	line  []byte
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	for part := range bytes.Lines(p) {
		if len(l.line) <= l.limit {
			l.line = append(l.line, part...)
		}
		if !bytes.HasSuffix(part, []byte("\n")) {
			break // the rest of the line comes later
		}
		if len(l.line) <= l.limit {
			l.each(l.line)
		}
		l.line = nil
	}
	return len(p), nil
}
