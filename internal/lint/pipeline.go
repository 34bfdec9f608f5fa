// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// inOrder calls work with the values from produce, in as many goroutines as
// jobs, and then consume in the order of sending. It stops at the first error of
// produce and of consume, and when the context ends.
func inOrder[T any](
	ctx context.Context, jobs int, produce func(ctx context.Context, send func(T) error) error,
	work func(context.Context, T), consume func(T) error,
) error {
	type task struct {
		value T
		done  chan struct{}
	}
	g, ctx := errgroup.WithContext(ctx)
	// Tasks wait in ordered until all earlier ones are done; its length bounds
	// the memory.
	ordered, todo := make(chan task, 4*jobs), make(chan task)
	g.Go(func() error {
		defer close(ordered)
		defer close(todo)
		return produce(ctx, func(value T) error {
			t := task{value: value, done: make(chan struct{})}
			for _, c := range []chan<- task{ordered, todo} {
				select {
				case c <- t:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	})
	for range jobs {
		g.Go(func() error {
			for t := range todo {
				work(ctx, t.value)
				close(t.done)
			}
			return nil
		})
	}
	g.Go(func() error {
		for t := range ordered {
			select {
			case <-t.done:
			case <-ctx.Done():
			}
			if err := ctx.Err(); err != nil {
				return err // the task's result is incomplete
			}
			if err := consume(t.value); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}
