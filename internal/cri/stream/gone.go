// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package stream

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
)

// errGone is the cause of a call's context when the client has disconnected.
var errGone = errors.New("the client has gone")

// watched is a listener whose connections report when the client has disconnected.
// The HTTP server does not report it once the library has hijacked a connection,
// but the library always reads.
type watched struct{ net.Listener }

func (w watched) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: c, gone: make(chan struct{})}, nil
}

type watchedConn struct {
	net.Conn
	once sync.Once
	gone chan struct{}
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.once.Do(func() { close(c.gone) })
	}
	return n, err
}

func (c *watchedConn) Close() error {
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}

// untilGone returns a context that ends when the connection's client disconnects.
func untilGone(ctx context.Context, c net.Conn) context.Context {
	w, ok := c.(*watchedConn)
	if !ok {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-w.gone:
			cancel(errGone)
		case <-ctx.Done():
		}
	}()
	return ctx
}
