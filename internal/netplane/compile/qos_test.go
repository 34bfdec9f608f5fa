// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"math"
	"testing"
)

func TestBucket(t *testing.T) {
	for _, c := range []struct {
		rate uint64
		mtu  int
		want *Bucket
	}{
		{rate: 0, want: nil},
		{rate: 1, want: &Bucket{Rate: 1000, Burst: 6056, Queue: 6056 + 65536}},
		{rate: 100_000, mtu: 1450, want: &Bucket{Rate: 100_000, Burst: 5856, Queue: 5856 + 65536}},
		{rate: 125_000_000, want: &Bucket{Rate: 125_000_000, Burst: 2_500_000, Queue: 15_000_000}},
		{rate: maxRate - 1, want: &Bucket{Rate: maxRate - 1, Burst: 249_999_999, Queue: 1_499_999_998}},
		{rate: maxRate, want: nil},
		{rate: math.MaxUint64, want: nil},
	} {
		switch got := bucket(c.rate, c.mtu); {
		case (got == nil) != (c.want == nil):
			t.Errorf("%d: %v, want %v", c.rate, got, c.want)
		case got != nil && *got != *c.want:
			t.Errorf("%d: %+v, want %+v", c.rate, *got, *c.want)
		}
	}
}
