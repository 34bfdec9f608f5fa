// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package testenv

import (
	"errors"
	"testing"
	"time"
)

const (
	// waitLimit is far above anything that is waited for, on a machine that
	// does other work too: how long it takes is not the test's matter.
	waitLimit = 2 * time.Minute
	// waitPause is the longest between two looks; the first is 1 ms.
	waitPause = 10 * time.Millisecond
)

// Eventually asks until there is no error, or fails the test with the last one.
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

// Until looks until something holds.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Eventually(t, what, func() error {
		if !holds() {
			return errors.New("it does not hold")
		}
		return nil
	})
}
