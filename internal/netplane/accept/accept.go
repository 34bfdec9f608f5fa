// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package accept serves the connections of a listener, at most so many at once. The
// HNS server and the server of a host's routing table accept their clients with it.
package accept

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// pause keeps a failing Accept from spinning.
const pause = 50 * time.Millisecond

// Loop serves connections of a listener, each in a goroutine.
type Loop struct {
	// Limit is how many are served at once. Beyond it a connection waits in the kernel's queue.
	Limit int
	// Failed is called with the error of Accept. The loop tries again after the
	// wait.
	Failed func(err error, wait time.Duration)
	// Serve closes the connection. Its context ends with the loop.
	Serve func(context.Context, net.Conn)
}

// Run accepts connections until ctx ends; then it closes the listener, waits for open connections, and returns nil. It
// returns an error if someone else has closed the listener.
func (l Loop) Run(ctx context.Context, from net.Listener) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = from.Close() }) // Accept reports it
	defer stop()
	slots := make(chan struct{}, l.Limit)
	for {
		slots <- struct{}{}
		conn, err := from.Accept()
		if err == nil {
			serving.Go(func() {
				defer func() { <-slots }()
				l.Serve(ctx, conn)
			})
			continue
		}
		<-slots
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept: %w", err)
		}
		l.Failed(err, pause) // out of descriptors, or the client is gone already
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
