// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// blockAlarm blocks SIGALRM on this thread and so in the programs that it starts: a wineserver
// among them never gives up a thread that it has begun to trace.
//
// wineserver traces a thread that goes on after SuspendThread and GetThreadContext, by which the
// runtimes of Go and .NET interrupt their own threads (server/thread.c, select, and
// server/ptrace.c, suspend_for_ptrace). It waits 3 s for the thread to stop. On a busy machine
// SIGALRM ends the wait before. wineserver then takes the thread for dead, and passes the SIGSTOP,
// when it comes, on to the whole program, which stands still forever. The alarm is the only one that
// wineserver sets, and neither it nor Wine's loader changes the mask before.
func blockAlarm() error {
	var set unix.Sigset_t
	set.Val[0] = 1 << (unix.SIGALRM - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil); err != nil {
		return fmt.Errorf("block SIGALRM: %w", err)
	}
	return nil
}
