// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func component(name string, needs ...string) Component {
	return Component{Name: name, Needs: needs, Run: func(ctx context.Context) error { <-ctx.Done(); return nil }}
}

func TestPlan(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   []Component
		want [][]int
		err  string
	}{
		{"empty", nil, nil, ""},
		{"chain and branch", []Component{component("c", "b"), component("a"), component("b", "a"), component("d", "a")},
			[][]int{{1}, {2, 3}, {0}}, ""},
		{"unknown need", []Component{component("a", "x")}, nil, `"a" needs "x", which does not exist`},
		{"twice", []Component{component("a"), component("a")}, nil, `two are named "a"`},
		{"circle", []Component{component("z"), component("a", "b"), component("b", "a")}, nil, "circle: a, b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := plan(tc.in)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("err = %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || !slices.EqualFunc(got, tc.want, slices.Equal) {
				t.Errorf("plan = %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

// journal records events in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(s string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, s)
}

func TestStartsAndStopsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		mk := func(name string, ready time.Duration, needs ...string) Component {
			began := time.Now()
			return Component{Name: name, Needs: needs,
				Run: func(ctx context.Context) error {
					j.add("start " + name)
					began = time.Now()
					<-ctx.Done()
					j.add("stop " + name)
					return nil
				},
				Ready: func(context.Context) error {
					if time.Since(began) < ready {
						return errors.New("not yet")
					}
					return nil
				}}
		}
		prepare := Component{Name: "prepare", Once: true, Run: func(context.Context) error {
			j.add("prepare")
			return nil
		}}
		early := mk("early", 0, "prepare")
		early.Uses = []string{"node"}
		s, err := New(Config{Log: slog.New(slog.DiscardHandler), Components: []Component{
			mk("node", 0, "server"), mk("server", 3*time.Second, "prepare"), prepare, early}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		want := []string{"prepare", "start server", "start node", "stop early", "stop node", "stop server"}
		// at any time after prepare
		got := slices.DeleteFunc(j.lines, func(s string) bool { return s == "start early" })
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

func TestRestartsWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Duration
		began := time.Now()
		c := Component{Name: "flaky", Run: func(ctx context.Context) error {
			starts = append(starts, time.Since(began))
			switch len(starts) {
			case 1:
				panic("first life")
			case 2:
				return errors.New("second life")
			case 3:
				time.Sleep(time.Minute) // stable: the back-off starts over
				return nil
			}
			<-ctx.Done()
			return nil
		}}
		var last []Status
		s, err := New(Config{Log: slog.New(slog.DiscardHandler), Components: []Component{c},
			OnChange: func(st []Status) {
				last = st
			}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{0, firstWait, 3 * firstWait, 3*firstWait + time.Minute + firstWait}
		if !slices.Equal(starts, want) {
			t.Errorf("starts at %v, want %v", starts, want)
		}
		if last[0].Restarts != 3 || last[0].State != Stopped {
			t.Errorf("status %+v", last[0])
		}
	})
}

// TestPermanentError: what cannot succeed is not tried again, and the others run on.
func TestPermanentError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		hopeless := Component{Name: "hopeless", Run: func(context.Context) error {
			runs++
			return fmt.Errorf("run: %w", Permanent(errors.New("the data are damaged")))
		}}
		var during []Status
		s, err := New(Config{Log: slog.New(slog.DiscardHandler), Components: []Component{hopeless, component("other")},
			OnChange: func(st []Status) {
				if st[0].State == Failed {
					during = st
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if runs != 1 || len(during) != 2 || during[0].Message != "run: the data are damaged" ||
			during[0].Restarts != 0 {
			t.Errorf("%d runs; %+v", runs, during)
		}
	})
}

// TestStartingSaysWhyItEnded: a component that ends again and again is asked
// about while it starts.
func TestStartingSaysWhyItEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Component{
			Name:  "flaky",
			Run:   func(context.Context) error { time.Sleep(time.Second); return errors.New("the port is busy") },
			Ready: func(context.Context) error { return errors.New("not yet") },
		}
		var said []string
		s, err := New(Config{Log: slog.New(slog.DiscardHandler), Components: []Component{c},
			OnChange: func(st []Status) {
				said = append(said, fmt.Sprintf("%s: %s", st[0].State, st[0].Message))
			}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		want := []string{"starting: ", "starting: not yet", "restarting: the port is busy",
			"starting: the port is busy", "starting: not yet; the last time: the port is busy", "stopping: ",
			"stopped: "}
		if !slices.Equal(said, want) {
			t.Errorf("said %q, want %q", said, want)
		}
	})
}

// TestRemove takes a component out of a supervisor that runs, and adds one of its
// name again.
func TestRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last []Status
		s, err := New(Config{
			Log:      slog.New(slog.DiscardHandler),
			OnChange: func(all []Status) { last = all },
			Components: []Component{component("network"), component("win-1", "network"),
				component("win-2", "network")},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Remove("win-1"); err == nil {
			t.Error("removed before Run")
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(time.Second)
		if err := s.Remove("network"); err == nil || !strings.Contains(err.Error(), `"win-1" needs it`) {
			t.Errorf("what others need: %v", err)
		}
		if err := s.Remove("win-9"); err == nil {
			t.Error("removed what does not exist")
		}
		if err := s.Remove("win-1"); err != nil || len(last) != 2 || last[1].Name != "win-2" {
			t.Errorf("%v, %v", err, last)
		}
		if err := s.Add(component("win-1", "network")); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if len(last) != 3 || last[2].Name != "win-1" || last[2].State != Ready {
			t.Errorf("added again: %v", last)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.Remove("win-2"); err != nil {
			t.Errorf("after the end: %v", err)
		}
	})
}
