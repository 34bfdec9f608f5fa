// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// streamsVariable gives native/winemend the number of the descriptor on which it reports about the
// program's output. Standard streams that are pipes become named pipes of Windows, which threads of
// the service manager copy from and to the Unix pipes (native/winemend/streams.c). So output can be on
// its way when the program has ended.
const streamsVariable = "MULLION_STREAMS"

// streamsDescriptor is that descriptor in the program.
const streamsDescriptor = 3

// Reports about the output.
const (
	outputBegun  = 's' // there is output to copy
	outputCopied = 'd' // the program has ended, and its output has been copied
)

// streams reads the reports about a program's output.
type streams struct {
	read, write int
}

func openStreams() (streams, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return streams{}, fmt.Errorf("make pipe: %w", err)
	}
	return streams{read: p[0], write: p[1]}, nil
}

// environ returns the environment with the number of the descriptor.
func (streams) environ(env []string) []string {
	return append(env, streamsVariable+"="+strconv.Itoa(streamsDescriptor))
}

// managerCheck is how often await looks for the service manager.
const managerCheck = 100 * time.Millisecond

// await waits, after the end of the program, until its output has been copied. It returns at once if
// the program had no output to copy, and if the service manager has ended, with which output is lost.
func (s streams) await(managerLives func() bool) {
	_ = unix.Close(s.write)
	defer func() { _ = unix.Close(s.read) }() // only read
	begun := false
	for {
		var report [1]byte
		n, err := unix.Read(s.read, report[:])
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			if !begun || !managerLives() {
				return
			}
			// An interruption is as good as an event: the loop reads again.
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(s.read), Events: unix.POLLIN}}, int(managerCheck.Milliseconds()))
		case n == 0 || err != nil || report[0] == outputCopied:
			return
		default:
			begun = report[0] == outputBegun
		}
	}
}
