// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package accept

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// listener returns what it was given, then waits until it is closed.
type listener struct {
	results []any // net.Conn or error
	closed  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	if len(l.results) == 0 {
		<-l.closed
		return nil, net.ErrClosed
	}
	next := l.results[0]
	l.results = l.results[1:]
	if err, ok := next.(error); ok {
		return nil, err
	}
	return next.(net.Conn), nil
}

func (l *listener) Close() error   { close(l.closed); return nil }
func (l *listener) Addr() net.Addr { return nil }

func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		other, another := net.Pipe()
		l := &listener{[]any{syscall.EMFILE, server, syscall.ECONNABORTED, another}, make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		var failed []error
		var serving, most atomic.Int32
		loop := Loop{
			Limit:  1,
			Failed: func(err error, _ time.Duration) { failed = append(failed, err) },
			Serve: func(_ context.Context, c net.Conn) {
				most.Store(max(most.Load(), serving.Add(1)))
				_, _ = c.Read(make([]byte, 1)) // until the client closes
				_ = c.Close()
				serving.Add(-1)
			},
		}
		done := make(chan error, 1)
		go func() { done <- loop.Run(ctx, l) }()
		time.Sleep(time.Second)
		_ = client.Close()
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("ended before what it serves: %v", err)
		default:
		}
		_ = other.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !slices.Equal(failed, []error{syscall.EMFILE, syscall.ECONNABORTED}) {
			t.Errorf("told %v", failed)
		}
		if most.Load() != 1 {
			t.Errorf("served %d at once", most.Load())
		}
	})
}

// TestClosed: a loop whose listener is closed by another ends, and tells what it serves.
func TestClosed(t *testing.T) {
	_, server := net.Pipe()
	loop := Loop{Limit: 2, Failed: func(error, time.Duration) {}, Serve: func(ctx context.Context, c net.Conn) {
		<-ctx.Done()
		_ = c.Close()
	}}
	err := loop.Run(t.Context(), &listener{[]any{server, syscall.EMFILE, net.ErrClosed}, make(chan struct{})})
	if !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
