// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package undo_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/fault/undo"
)

func TestRunsInReverseWithFreshContext(t *testing.T) {
	var got []string
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var s undo.Stack
	for _, name := range []string{"a", "b", "c"} {
		s.Add(name, func(ctx context.Context) error {
			got = append(got, name)
			if name == "b" {
				return errors.New("stuck")
			}
			return ctx.Err()
		})
	}
	err := s.Run(ctx)
	if !slices.Equal(got, []string{"c", "b", "a"}) {
		t.Errorf("order = %v", got)
	}
	if err == nil || !strings.Contains(err.Error(), "undo b: stuck") {
		t.Errorf("err = %v", err)
	}
	if err := s.Run(ctx); err != nil {
		t.Errorf("second run = %v, want nothing left to do", err)
	}
}

func TestOnError(t *testing.T) {
	ran := false
	try := func(fail bool) (err error) {
		var s undo.Stack
		defer s.OnError(context.Background(), &err)
		s.Add("x", func(context.Context) error { ran = true; return nil })
		if fail {
			return errors.New("boom")
		}
		return nil
	}
	if err := try(false); err != nil || ran {
		t.Errorf("success: err %v, ran %v", err, ran)
	}
	if err := try(true); err == nil || !ran {
		t.Errorf("failure: err %v, ran %v", err, ran)
	}
}
