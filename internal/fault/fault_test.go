// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fault_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/mullion-k8s/mullion/internal/fault"
)

func TestPoint(t *testing.T) {
	if err := fault.Point(context.Background(), "a"); err != nil {
		t.Fatalf("without a set: %v", err)
	}
	s := fault.NewSet("b")
	ctx := fault.With(context.Background(), s)
	if err := fault.Point(ctx, "a"); err != nil {
		t.Errorf("a: %v", err)
	}
	if err := fault.Point(ctx, "b"); !errors.Is(err, fault.ErrInjected) {
		t.Errorf("b: %v", err)
	}
	if err := fault.Point(ctx, "b"); err != nil {
		t.Errorf("b again: %v, want it to fail once only", err)
	}
	if got := s.Reached(); !slices.Equal(got, []string{"a", "b", "b"}) {
		t.Errorf("reached %v", got)
	}
}
