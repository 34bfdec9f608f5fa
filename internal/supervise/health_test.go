// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errSilent = errors.New("no answer")

// life checks a program from one time to another, in seconds, at the pace of Next, with checks that take as long as
// they may when the program is silent. It returns the times at which the program was found to be frozen.
func life(h *Health, from, to int, silent func(second int) bool) (frozen []string) {
	begin := time.Unix(0, 0)
	for now := begin.Add(time.Duration(from) * time.Second); now.Before(begin.Add(time.Duration(to) * time.Second)); {
		wait, limit := h.Next(now)
		now = now.Add(wait)
		var err error
		if silent(int(now.Sub(begin).Seconds())) {
			now = now.Add(limit)
			if silent(int(now.Sub(begin).Seconds())) {
				err = errSilent
			}
		}
		if d := h.Observe(now, err); d > 0 {
			frozen = append(frozen, fmt.Sprintf("%d %s", int(now.Sub(begin).Seconds()), FrozenMessage("kubelet", d)))
		}
	}
	return frozen
}

func TestHealth(t *testing.T) {
	always := func(int) bool { return true }
	for _, tc := range []struct {
		name   string
		silent func(second int) bool
		want   string
	}{
		{"answers", func(int) bool { return false }, "[]"},
		{"starts, and waits for others", always, "[]"},
		{"is slow for a while", func(s int) bool { return s >= 100 && s < 145 }, "[]"},
		{"freezes right after an answer, and works after the restart", func(s int) bool { return s > 100 && s < 165 },
			"[160 kubelet did not answer for 60s; restarted]"},
		{"freezes, and restarts do not help", func(s int) bool { return s > 100 },
			"[160 kubelet did not answer for 60s; restarted 460 kubelet did not answer for 300s; restarted " +
				"760 kubelet did not answer for 300s; restarted]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h Health
			if got := fmt.Sprint(life(&h, 0, 800, tc.silent)); got != tc.want {
				t.Errorf("frozen at %s, want %s", got, tc.want)
			}
			if want := strings.Count(tc.want, "restarted") == maxFutile; h.Hopeless() != want {
				t.Errorf("hopeless: %t, want %t", h.Hopeless(), want)
			}
		})
	}
}

// TestHealthAfterSleep: a machine that slept for an hour finds its programs slow, not frozen.
func TestHealthAfterSleep(t *testing.T) {
	var h Health
	now := time.Unix(0, 0)
	h.Observe(now, nil)
	now = now.Add(time.Hour)
	if d := h.Observe(now, errSilent); d != 0 {
		t.Errorf("frozen for %s after one failed check", d)
	}
	if d := h.Observe(now.Add(time.Second), nil); d != 0 {
		t.Errorf("frozen for %s after an answer", d)
	}
}

// TestHealthForgets: a program that was restarted for another reason is not frozen while it starts, even if the one
// before it was silent.
func TestHealthForgets(t *testing.T) {
	var h Health
	h.Observe(time.Unix(0, 0), nil)
	h.Observe(time.Unix(30, 0), errSilent)
	h.Started()
	for second := int64(60); second < 600; second += 10 {
		if d := h.Observe(time.Unix(second, 0), errSilent); d != 0 {
			t.Fatalf("frozen for %s, and it has not answered yet", d)
		}
	}
}

// TestRestartsFrozen: a component that stops answering is restarted and says so; if that does not help, nor does the
// next time, it is hopeless.
func TestRestartsFrozen(t *testing.T) {
	for _, helps := range []bool{true, false} {
		t.Run(fmt.Sprintf("helps=%t", helps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				starts := 0
				began := time.Now()
				c := Component{Name: "kubelet",
					Run: func(ctx context.Context) error { starts++; <-ctx.Done(); return ctx.Err() },
					Alive: func(ctx context.Context) error {
						if time.Since(began) < 100*time.Second || helps && starts > 1 {
							return nil
						}
						<-ctx.Done() // as a connection to a frozen program
						return ctx.Err()
					}}
				var messages []string
				var last []Status
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
				defer cancel()
				s, err := New(Config{Log: slog.New(slog.DiscardHandler), Components: []Component{c},
					OnChange: func(st []Status) {
						if st[0].State == Ready {
							last = st
						}
					},
					OnFrozen: func(_, message string, hopeless bool) {
						messages = append(messages, fmt.Sprintf("%s %t", message, hopeless))
						if hopeless {
							cancel()
						}
					}})
				if err == nil {
					err = s.Run(ctx)
				}
				want := "[kubelet did not answer for 60s; restarted false]"
				if !helps {
					want = "[kubelet did not answer for 60s; restarted false " +
						"kubelet did not answer for 300s; restarted false " +
						"kubelet did not answer for 300s; restarted true]"
				}
				if got := fmt.Sprint(messages); err != nil || got != want {
					t.Errorf("%s, %v; want %s", got, err, want)
				}
				if f := last[0].Frozen; f == nil || !strings.HasPrefix(f.Message, "kubelet did not answer for") ||
					last[0].Restarts == 0 {
					t.Errorf("status %+v", last)
				}
			})
		})
	}
}

// TestPermanentlyDead: a check that says so ends the attempts at once.
func TestPermanentlyDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		got := ""
		s, err := New(Config{Log: slog.New(slog.DiscardHandler), Components: []Component{{
			Name:  "agent",
			Run:   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			Alive: func(context.Context) error { return Permanent(errors.New("its kubelet is dead")) },
		}}, OnFrozen: func(_, message string, hopeless bool) { got = fmt.Sprint(message, " ", hopeless) }})
		if err == nil {
			err = s.Run(ctx)
		}
		if err != nil || got != "its kubelet is dead true" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestAnswers: a server answers, refuses, or is frozen, for which the kernel accepts connections.
func TestAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := Answers("tcp", l.Addr().String(), HTTPRequest)(short); err == nil {
		t.Error("a server that accepts nothing answers")
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.0 500 it is ill\r\n\r\n")
			_ = conn.Close()
		}
	}()
	if err := Answers("tcp", l.Addr().String(), HTTPRequest)(t.Context()); err != nil {
		t.Errorf("any answer counts: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Answers("tcp", l.Addr().String(), HTTPRequest)(t.Context()); err == nil {
		t.Error("a server that has ended answers")
	}
}
