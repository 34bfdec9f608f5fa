// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package testenv

import (
	"math"
	"os"
	"strconv"
	"testing"
)

// soak names the variable with the number of repetitions of tests that repeat something:
// the share of their full counts, 0 to 1 or more. Without it, they take a minute. `make
// soak` sets it.
const soak = "MULLION_SOAK"

// Times returns the number of a test's repetitions: few times, or its share of full times
// if that is more.
func Times(t testing.TB, few, full int) int {
	t.Helper()
	v := os.Getenv(soak)
	if v == "" {
		return few
	}
	share, err := strconv.ParseFloat(v, 64)
	if err != nil || share < 0 {
		t.Fatalf("%s=%q: want a share of the full counts, such as 0.1 or 1", soak, v)
	}
	return max(few, int(math.Ceil(share*float64(full))))
}
