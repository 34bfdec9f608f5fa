// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package undo provides a stack of inverse steps for operations with several
// effects. Each step that succeeds pushes its inverse; if a later step fails, Run
// performs the inverses in reverse order.
package undo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// limit bounds a whole roll-back. The caller's context is often the reason for
// the failure, so undoing never uses it; 30 s is far above any single inverse
// (the slowest, stopping a container, takes at most 10 s).
const limit = 30 * time.Second

type step struct {
	name string
	do   func(ctx context.Context) error
}

// Stack holds the inverses pushed so far. The zero value is ready for use. It
// is not safe for concurrent use.
type Stack struct {
	steps []step
}

// Add pushes the inverse of a step that has just succeeded. The name appears in
// the error if the inverse fails.
func (s *Stack) Add(name string, do func(ctx context.Context) error) {
	s.steps = append(s.steps, step{name, do})
}

// release forgets all inverses: the operation succeeded as a whole.
func (s *Stack) release() { s.steps = nil }

// Run performs all inverses, last first, and empties the stack. If one fails, the
// others still run; Run joins all errors.
func (s *Stack) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	var errs []error
	for _, v := range slices.Backward(s.steps) {
		if err := v.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("undo %s: %w", v.name, err))
		}
	}
	s.steps = nil
	return errors.Join(errs...)
}

// OnError is meant for defer: if *err is set, it runs the stack and joins its
// errors to *err; otherwise it releases the stack.
func (s *Stack) OnError(ctx context.Context, err *error) {
	if *err == nil {
		s.release()
		return
	}
	*err = errors.Join(*err, s.Run(ctx))
}
