// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAwaitOutput: the end of a program waits for its output, unless there is none, or no process that copies it.
func TestAwaitOutput(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before string // reported before the program's end
		lives  bool   // the process that copies
		waits  bool
	}{
		{"no output", "", true, false},
		{"copied before the end", "sd", true, false},
		{"lost", "s", false, false},
		{"copied later", "s", true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := openStreams()
			if err != nil {
				t.Fatal(err)
			}
			copier, err := unix.Dup(s.write)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(copier)
			report := func(text string) {
				if _, err := unix.Write(copier, []byte(text)); err != nil {
					t.Error(err)
				}
			}
			report(tc.before)
			returned := make(chan struct{})
			go func() {
				s.await(func() bool { return tc.lives })
				close(returned)
			}()
			if tc.waits {
				select {
				case <-returned:
					t.Error("it did not wait")
				case <-time.After(2 * managerCheck):
				}
				report("d")
			}
			<-returned
		})
	}
}
