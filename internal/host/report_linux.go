// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/mullion-k8s/mullion/internal/supervise"
)

// followEvery is how often init looks at the agent's status file: `mullion up`
// waits for what is in it, so a user would feel more.
const followEvery = 200 * time.Millisecond

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
	mu   sync.Mutex
	to   io.Writer // guarded by mu
	last report    // guarded by mu
}

// components is supervise.Config.OnChange.
func (r *Reporter) components(list []supervise.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.Components = list
	r.send()
}

// PodRanges says which pods the host has, so that the fabric learns the way, and to which
// other ranges it is one of several ways.
func (r *Reporter) PodRanges(ranges, shared []netip.Prefix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.PodRanges, r.last.Shared = ranges, shared
	r.send()
}

// follow sends the agent's status document whenever it changes.
func (r *Reporter) follow(ctx context.Context, path string) {
	for {
		if doc, err := os.ReadFile(path); err == nil && json.Valid(doc) {
			var compact bytes.Buffer
			if json.Compact(&compact, doc) == nil {
				r.mu.Lock()
				if !bytes.Equal(compact.Bytes(), r.last.Agent) {
					r.last.Agent = compact.Bytes()
					r.send()
				}
				r.mu.Unlock()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(followEvery):
		}
	}
}

// send writes the last report.
// Preconditions: r.mu is held.
func (r *Reporter) send() {
	// An error means that the parent is gone.
	_ = json.NewEncoder(r.to).Encode(r.last)
}
