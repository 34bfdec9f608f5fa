// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// fanIn is one listener made of several, because kube-apiserver serves one listener and
// its --bind-address accepts only one address or all of them.
type fanIn struct {
	listeners []net.Listener
	conns     chan accepted
	done      chan struct{}
	once      sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

// listen opens the port on all addresses, or fails. Addr returns the first address.
func listen(ctx context.Context, addresses []netip.Addr, port uint16) (net.Listener, error) {
	l := &fanIn{conns: make(chan accepted), done: make(chan struct{})}
	for _, a := range addresses {
		var lc net.ListenConfig
		at := netip.AddrPortFrom(a, port).String()
		x, err := lc.Listen(ctx, "tcp", at)
		if err != nil {
			_ = l.Close() // the listeners so far; the first error counts
			return nil, explain(at, err)
		}
		l.listeners = append(l.listeners, x)
	}
	for _, x := range l.listeners {
		go l.accept(x)
	}
	return l, nil
}

// explain adds the meaning of the two most common errors.
func explain(at string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen on %s: another program uses this port: %w", at, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("listen on %s: no interface of this machine has the address: %w", at, err)
	}
	return fmt.Errorf("listen on %s: %w", at, err)
}

func (l *fanIn) accept(x net.Listener) {
	for {
		conn, err := x.Accept()
		select {
		case l.conns <- accepted{conn, err}:
		case <-l.done:
			if conn != nil {
				_ = conn.Close() // no Accept will return it
			}
			return
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// Accept implements net.Listener.
func (l *fanIn) Accept() (net.Conn, error) {
	select {
	case a := <-l.conns:
		return a.conn, a.err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *fanIn) Close() error {
	var errs []error
	l.once.Do(func() {
		close(l.done)
		for _, x := range l.listeners {
			errs = append(errs, x.Close())
		}
	})
	return errors.Join(errs...)
}

// Addr implements net.Listener.
func (l *fanIn) Addr() net.Addr { return l.listeners[0].Addr() }
