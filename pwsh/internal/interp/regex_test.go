// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestRegexTimeout: a pattern that backtracks without end is given up.
func TestRegexTimeout(t *testing.T) {
	re, err := NewRegex(`^(\w+\s?)*$`, "")
	if err != nil {
		t.Fatal(err)
	}
	re.re.MatchTimeout = time.Millisecond
	_, err = re.Find(strings.Repeat("a", 60) + "!")
	var e *Exception
	if !errors.As(err, &e) || e.ID != "RegexMatchTimeoutException" {
		t.Errorf("error %v", err)
	}
}
