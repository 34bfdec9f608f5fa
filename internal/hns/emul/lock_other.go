// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build !linux

package emul

import (
	"os"

	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// lockStore does nothing: the emulator runs on Linux; elsewhere only its tests
// do.
func lockStore(*os.File) error { return nil }

func writeCode(error) hresult.Code { return hresult.Fail }
