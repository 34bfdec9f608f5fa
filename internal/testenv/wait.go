// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package testenv

import (
	"errors"
	"testing"
	"time"
)

const (
	// waitLimit is far above any expected wait, even on a busy machine: tests do
	// not assert durations.
	waitLimit = 2 * time.Minute
	// waitPause is the longest pause between two attempts; the first is 1 ms.
	waitPause = 10 * time.Millisecond
)

// Eventually retries until there is no error, or fails the test with the last error.
func Eventually(t testing.TB, what string, ask func() error) {
	t.Helper()
	deadline := time.Now().Add(waitLimit)
	for pause := time.Millisecond; ; pause = min(2*pause, waitPause) {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, waitLimit, err)
		}
		time.Sleep(pause)
	}
}

// Until polls until the condition holds.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Eventually(t, what, func() error {
		if !holds() {
			return errors.New("it does not hold")
		}
		return nil
	})
}
