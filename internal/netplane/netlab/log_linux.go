// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"context"
	"log/slog"
	"testing"
)

// StrictLog returns a log in which a warning fails the test: a Plane logs one if
// the kernel refused a difference and it replaced the whole table instead.
func StrictLog(t testing.TB) *slog.Logger { return slog.New(strictHandler{t}) }

type strictHandler struct{ t testing.TB }

func (strictHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (h strictHandler) Handle(_ context.Context, r slog.Record) error {
	h.t.Errorf("warning: %s", r.Message)
	r.Attrs(func(a slog.Attr) bool {
		h.t.Errorf("  %s=%v", a.Key, a.Value)
		return true
	})
	return nil
}

func (h strictHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h strictHandler) WithGroup(string) slog.Handler      { return h }
