// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package testenv

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// ProcessorTime returns the processor time that a process has used, in seconds.
func ProcessorTime(t testing.TB, pid int) float64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// The program's name, in brackets, may hold blanks; utime and stime are the
	// 14th and 15th fields, in hundredths of a second (proc(5)).
	_, rest, _ := strings.Cut(string(data), ") ")
	f := strings.Fields(rest)
	var user, system float64
	if _, err := fmt.Sscan(f[11]+" "+f[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return (user + system) / 100
}
