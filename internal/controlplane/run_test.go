// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/mullion-k8s/mullion/internal/supervise"
)

// TestOneForAll lets a component end in each of the ways that upstream's code
// knows, and looks at the order in which the others stop.
func TestOneForAll(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(s *server) error
		want string
	}{
		{"error", func(*server) error { return errors.New("lost the lease") }, "bad: lost the lease"},
		{"return", func(*server) error { return nil }, "bad: exited unexpectedly"},
		{"panic", func(*server) error { panic("nil map") }, "bad: panic: nil map"},
		{"exit", func(s *server) error { s.exit(7); return nil }, "exit code 7"},
		{"exit of another goroutine", func(s *server) error { go s.exit(255); select {} }, "exit code 255"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &server{log: slog.New(slog.DiscardHandler), ended: make(chan struct{})}
			var mu sync.Mutex
			var stopped []string
			part := func(name string, needs ...string) supervise.Component {
				return supervise.Component{Name: name, Needs: needs,
					Run: s.oneForAll(name, func(ctx context.Context) error {
						<-ctx.Done()
						mu.Lock()
						defer mu.Unlock()
						stopped = append(stopped, name)
						return nil
					}, false)}
			}
			bad := supervise.Component{Name: "bad", Needs: []string{"api"},
				Run: s.oneForAll("bad", func(context.Context) error {
					return tc.end(s)
				}, false)}
			err := s.superviseAll(t.Context(), []supervise.Component{part("etcd"), part("api", "etcd"), bad}, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v, want %q", err, tc.want)
			}
			if !slices.Equal(stopped, []string{"api", "etcd"}) {
				t.Errorf("stopped in the order %v", stopped)
			}
		})
	}
}

func TestKeepStopsWhenAsked(t *testing.T) {
	s := &server{log: slog.New(slog.DiscardHandler), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	once := supervise.Component{Name: "once", Once: true, Run: s.oneForAll("once", func(context.Context) error {
		cancel()
		return nil
	}, true)}
	if err := s.superviseAll(ctx, []supervise.Component{once}, nil); err != nil {
		t.Error(err)
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, err := lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("second: %v", err)
	}
	release()
	release, err = lock(path)
	if err != nil {
		t.Fatal(err)
	}
	release()
}

// TestZapCore checks what of etcd's log is passed on.
func TestZapCore(t *testing.T) {
	var b strings.Builder
	h := slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	reason := make(chan error, 1)
	log := zap.New(zapCore{without{h, []string{"noise"}}},
		zap.WithFatalHook(fatalHook{func(err error) { reason <- err }})).With(zap.String("member", "m"))
	log.Info("too much")
	log.Warn("slow", zap.Duration("took", time.Second))
	log.Error("stopped listening", zap.Error(net.ErrClosed))
	log.Warn("noise")
	log.Fatal("failed to commit", zap.Error(syscall.ENOSPC))
	const want = "level=WARN msg=slow member=m took=1s\n" +
		"level=ERROR msg=\"failed to commit\" member=m error=\"no space left on device\"\n"
	if b.String() != want {
		t.Errorf("log:\n%swant:\n%s", b.String(), want)
	}
	if err := <-reason; !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "failed to commit") {
		t.Errorf("reason %v", err)
	}
}
