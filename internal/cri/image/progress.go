// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"io"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Progress reports the progress of a pull or load. Calls come from several
// goroutines, one at a time.
type Progress struct {
	Ref            string
	Layers         int // layers that the image has beside the stand-in's
	LayersUnpacked int
	Bytes          int64 // fetched
	TotalBytes     int64
}

// tracker adds up the progress of one image.
type tracker struct {
	report func(Progress)

	mu  sync.Mutex
	now Progress // guarded by mu
}

func newTracker(ref string, layers []v1.Descriptor, report func(Progress)) *tracker {
	t := &tracker{report: report, now: Progress{Ref: ref, Layers: len(layers)}}
	for _, l := range layers {
		t.now.TotalBytes += l.Size
	}
	return t
}

func (t *tracker) change(f func(*Progress)) {
	if t == nil || t.report == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.now)
	t.report(t.now)
}

func (t *tracker) fetched(n int64) { t.change(func(p *Progress) { p.Bytes += n }) }
func (t *tracker) unpacked()       { t.change(func(p *Progress) { p.LayersUnpacked++ }) }

// trackReader counts the bytes read; undo subtracts them before another attempt.
type trackReader struct {
	r io.Reader
	t *tracker
	n int64
}

func (r *trackReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.n += int64(n)
	r.t.fetched(int64(n))
	return n, err
}

func (r *trackReader) undo() {
	r.t.fetched(-r.n)
	r.n = 0
}
