// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build !linux

package durable

import (
	"errors"
	"os"
)

// All that locks files runs on Linux.

func setLock(*os.File, Mode) (bool, error) { return false, errors.ErrUnsupported }
func getLock(*os.File) (int, error)        { return 0, errors.ErrUnsupported }
