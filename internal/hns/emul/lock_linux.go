// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// lockStore takes the store for this process; the kernel lets go of it when the
// file is closed or the process ends, however it ends.
func lockStore(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return errors.New("in use by another process")
		}
		return fmt.Errorf("lock: %w", err)
	}
	return nil
}

// writeCode is the Windows code of an error of writing.
func writeCode(err error) hresult.Code {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return hresult.DiskFull
	}
	return hresult.Fail
}
