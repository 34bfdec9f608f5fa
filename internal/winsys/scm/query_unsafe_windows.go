// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package scm

import (
	"errors"
	"unicode/utf16"
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
			dependsOn:   split(doubleTerminated(c.Dependencies)),
		}, nil
	}
}

// doubleTerminated copies a list of strings that two NULs end.
func doubleTerminated(p *uint16) string {
	if p == nil {
		return ""
	}
	var list []uint16
	for ; *p != 0 || (len(list) > 0 && list[len(list)-1] != 0); p = (*uint16)(unsafe.Add(unsafe.Pointer(p), 2)) {
		list = append(list, *p)
	}
	return string(utf16.Decode(list))
}
