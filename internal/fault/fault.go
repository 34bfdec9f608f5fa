// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package fault names the points where a multi-step operation may fail, so that tests can
// make it fail there. In production a point is a no-op that costs one context lookup: the
// context carries the set of faults, and With panics outside a test binary.
package fault

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
)

// ErrInjected is the error of a point that a test made fail.
var ErrInjected = errors.New("injected fault")

type key struct{}

// Set decides which points fail and remembers which were reached. Safe for
// concurrent use.
type Set struct {
	mu      sync.Mutex
	fail    map[string]bool // guarded by mu
	reached []string        // guarded by mu
}

// NewSet returns a set that fails at the named points, once each.
func NewSet(points ...string) *Set {
	s := &Set{fail: map[string]bool{}}
	for _, p := range points {
		s.fail[p] = true
	}
	return s
}

// Reached lists the points passed so far, in order. A test first runs the operation with
// an empty set to collect them, then walks the list.
func (s *Set) Reached() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.reached...)
}

// With returns a context whose points obey the set. Preconditions: the program is a test
// binary; With panics otherwise, because a production build must not be able to fail on
// purpose. The test.v flag identifies a test binary without linking the testing package.
func With(ctx context.Context, s *Set) context.Context {
	if flag.Lookup("test.v") == nil {
		panic("fault.With called outside of a test")
	}
	return context.WithValue(ctx, key{}, s)
}

// Point returns ErrInjected if the context's set has a fault there, and nil otherwise.
// Names read as a path: "sandbox.run.after-network".
func Point(ctx context.Context, name string) error {
	s, ok := ctx.Value(key{}).(*Set)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reached = append(s.reached, name)
	if s.fail[name] {
		delete(s.fail, name)
		return fmt.Errorf("%s: %w", name, ErrInjected)
	}
	return nil
}
