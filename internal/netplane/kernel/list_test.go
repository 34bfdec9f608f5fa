// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kernel

import (
	"errors"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestList(t *testing.T) {
	interrupted := func(times int) (list func() ([]int, error), calls *int) {
		calls = new(int)
		return func() ([]int, error) {
			if *calls++; *calls <= times {
				return []int{1}, netlink.ErrDumpInterrupted
			}
			return []int{1, 2}, nil
		}, calls
	}
	list, _ := interrupted(3)
	if got, err := List(list); err != nil || !slices.Equal(got, []int{1, 2}) {
		t.Errorf("a list that changes three times: %v, %v", got, err)
	}
	list, calls := interrupted(1 << 20)
	if _, err := List(list); !errors.Is(err, netlink.ErrDumpInterrupted) || *calls != listTries {
		t.Errorf("a list that always changes: %v after %d tries", err, *calls)
	}
	other := errors.New("no permission")
	if _, err := List(func() ([]int, error) { return nil, other }); !errors.Is(err, other) {
		t.Errorf("another error: %v", err)
	}
}
