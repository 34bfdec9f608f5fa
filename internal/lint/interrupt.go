// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"context"
	"io"
)

// interruptible is a reader that fails once its context has ended. Both parsers
// read while they parse, so this ends them in the middle of a document.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	// The JSON decoder requests the whole remainder. It must come back here.
	const piece = 64 << 10
	return i.r.Read(p[:min(len(p), piece)])
}

// patient is a reader of something that may keep silent, such as a terminal: a
// Read ends with its context, even if the Read below it does not.
type patient struct {
	ctx    context.Context
	chunks <-chan []byte
	err    *error // why there are no more chunks, once they are closed
	rest   []byte
}

// wait returns a reader of r whose reads end with the context. A read of r that
// never returns keeps one goroutine.
func wait(ctx context.Context, r io.Reader) io.Reader {
	chunks := make(chan []byte)
	var end error
	go func() {
		defer close(chunks)
		for {
			b := make([]byte, 64<<10)
			n, err := r.Read(b)
			if n > 0 {
				select {
				case chunks <- b[:n]:
				case <-ctx.Done():
					end = ctx.Err()
					return
				}
			}
			if err != nil {
				end = err
				return
			}
		}
	}()
	return &patient{ctx: ctx, chunks: chunks, err: &end}
}

func (p *patient) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		select {
		case chunk, ok := <-p.chunks:
			if !ok {
				return 0, *p.err
			}
			p.rest = chunk
		case <-p.ctx.Done():
			return 0, p.ctx.Err()
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// open opens an input. It returns when the context ends, even if the open file never does: a FIFO without a
// writer keeps one goroutine.
func (in Input) open(ctx context.Context) (io.ReadCloser, error) {
	type opened struct {
		r   io.ReadCloser
		err error
	}
	done := make(chan opened, 1)
	go func() {
		r, err := in.Open()
		done <- opened{r, err}
	}()
	select {
	case o := <-done:
		return o.r, o.err
	case <-ctx.Done():
		go func() {
			if o := <-done; o.err == nil {
				_ = o.r.Close() // nothing was read
			}
		}()
		return nil, ctx.Err()
	}
}
