// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package supervise

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Bell wakes all goroutines that wait for a change. The zero value is ready for use.
type Bell struct {
	mu   sync.Mutex
	rung chan struct{} // guarded by mu; the next Ring closes it; nil if no goroutine waits
}

// Ring wakes all that wait now.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

// Next returns a channel that the next Ring closes. A nil Bell never rings.
func (b *Bell) Next() <-chan struct{} {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

// Await calls f until it returns nil or the context ends: at once, whenever the bell rings, and after pauses that grow
// to the longest one. Without a bell, for a change of which no other side can notify us, it is a poll.
func Await(ctx context.Context, bell *Bell, longest time.Duration, f func() error) error {
	for pause := longest / 32; ; pause = min(2*pause, longest) {
		rung := bell.Next() // before the call, so that no change is missed
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-rung:
		case <-time.After(pause):
		}
	}
}
