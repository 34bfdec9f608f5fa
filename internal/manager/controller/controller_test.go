// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controller_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/mullion-k8s/mullion/internal/manager/controller"
)

// TestWork: what fails comes back, what panics ends nothing, a conflict is not
// worth a line in the log.
func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		queue := controller.NewQueue()
		for _, key := range []string{"good", "fails", "panics", "conflict"} {
			queue.Add(key)
		}
		tries := map[string]int{}
		done := make(chan error, 1)
		go func() {
			done <- controller.Work(ctx, slog.New(slog.NewTextHandler(&log, nil)), queue, nil, 1,
				func(_ context.Context, key string) error {
					tries[key]++
					switch {
					case key == "good" || tries[key] > 2:
						return nil
					case key == "panics":
						panic("no such thing")
					case key == "conflict":
						return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n",
							errors.New("changed"))
					}
					return errors.New("no luck")
				})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for key, want := range map[string]int{"good": 1, "fails": 3, "panics": 3, "conflict": 3} {
			if tries[key] != want {
				t.Errorf("%s was tried %d times, want %d", key, tries[key], want)
			}
		}
		for text, want := range map[string]int{"no luck": 2, "no such thing": 2, "changed": 0} {
			if n := strings.Count(log.String(), text); n != want {
				t.Errorf("%q %d times in the log, want %d:\n%s", text, n, want, log.String())
			}
		}
	})
}

func TestWorkStopsBeforeItBegan(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	never := []cache.InformerSynced{func() bool { return false }}
	if err := controller.Work(ctx, slog.New(slog.DiscardHandler), controller.NewQueue(), never, 1, nil); err != nil {
		t.Error(err)
	}
}
