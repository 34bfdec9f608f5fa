// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package scm

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/windows"
)

// config reads a service's configuration with the one call that every version
// of Windows has. mgr.Service.Config also queries levels of QueryServiceConfig2
// that are not needed here, and fails as a whole if one of them is not known.
func config(h windows.Handle) (stored, error) {
	for size := uint32(1024); ; {
		buf := make([]byte, size)
		c := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buf[0]))
		err := windows.QueryServiceConfig(h, c, size, &size)
		if errors.Is(err, windows.ERROR_INSUFFICIENT_BUFFER) && size > uint32(len(buf)) {
			continue
		}
		if err != nil {
			return stored{}, err
		}
		return stored{
			commandLine: windows.UTF16PtrToString(c.BinaryPathName),
			displayName: windows.UTF16PtrToString(c.DisplayName),
			startType:   c.StartType,
		}, nil
	}
}
