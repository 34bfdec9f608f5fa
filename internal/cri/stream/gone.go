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

// errGone is why the context of a call ends whose client has gone.
var errGone = errors.New("the client has gone")

// watched is a listener whose connections tell when the client has gone. The
// library takes connections over from the HTTP server, which from then on says
// nothing of them; but it always reads.
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

// untilGone returns a context that ends when the connection's client has gone.
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
