// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package supervise

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwait: the bell ends a pause at once, also if it rings during the call; without it, or if its ring is lost, the
// pauses are no longer than the longest one. Time stands still in the bubble while a goroutine works.
func TestAwait(t *testing.T) {
	errNot := errors.New("not yet")
	for name, tt := range map[string]struct {
		bell *Bell
		ring func(*Bell) // in the second call
		want time.Duration
	}{
		"a ring in the pause": {new(Bell), func(b *Bell) { time.AfterFunc(time.Minute, b.Ring) },
			time.Minute},
		"a ring in the call":   {new(Bell), func(b *Bell) { b.Ring() }, 0},
		"a ring that was lost": {new(Bell), func(*Bell) {}, 4 * time.Minute},
		"no bell":              {nil, func(*Bell) {}, 4 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				var second time.Time
				err := Await(t.Context(), tt.bell, 64*time.Minute, func() error {
					switch calls++; calls {
					case 2:
						second = time.Now()
						tt.ring(tt.bell)
					case 3:
						return nil
					}
					return errNot
				})
				if got := time.Since(second); err != nil || got != tt.want {
					t.Errorf("%v; the third call came after %s, want %s", err, got, tt.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("too late"))
		defer cancel()
		err := Await(ctx, new(Bell), time.Hour, func() error { return errNot })
		if !errors.Is(err, errNot) || err.Error() != "too late\nnot yet" {
			t.Errorf("after the context: %v", err)
		}
	})
}

// TestReadyByEvent: a component that reports is ready at its report, and soon after a report that was lost.
func TestReadyByEvent(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var bell Bell
			works := false
			began, ready := time.Now(), time.Time{}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s, err := New(Config{Log: slog.New(slog.DiscardHandler), Components: []Component{{
				Name: "host",
				Run: func(ctx context.Context) error {
					time.Sleep(20*time.Second + 7*time.Millisecond)
					works = true
					if !lost {
						bell.Ring()
					}
					<-ctx.Done()
					return ctx.Err()
				},
				Changed: &bell,
				Ready: func(context.Context) error {
					if !works {
						return errors.New("starting")
					}
					return nil
				},
			}}, OnChange: func(st []Status) {
				if st[0].State == Ready {
					ready = time.Now()
				}
			}})
			if err == nil {
				err = s.Run(ctx)
			}
			took := ready.Sub(began) - 20*time.Second - 7*time.Millisecond
			if err != nil || !lost && took != 0 || lost && (took <= 0 || took > pollBesidesBell) {
				t.Errorf("lost %t: ready %s after it worked, %v", lost, took, err)
			}
		})
	}
}
