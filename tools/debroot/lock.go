// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// lockEvery is the time between two attempts to lock: flock itself cannot be canceled.
const lockEvery = 100 * time.Millisecond

// lock locks a directory against other runs of this program, and waits for them. The kernel unlocks it when the file is
// closed or the process ends, however it does.
func lock(ctx context.Context, dir string, out io.Writer) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for told := false; ; told = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
		}
		if !told {
			fmt.Fprintf(out, "debroot: another run is unpacking packages in %s; waiting for its end\n", dir)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for another run in %s: %w", dir, ctx.Err()), f.Close())
		case <-time.After(lockEvery):
		}
	}
}
