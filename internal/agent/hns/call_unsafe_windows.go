// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hns

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Local is the machine's own HNS.
func Local() Client {
	call := windows.NewLazySystemDLL("vmcompute.dll").NewProc("HNSCall")
	return Client{Call: func(method, path, request string) (string, error) {
		if err := call.Find(); err != nil {
			return "", fmt.Errorf("find the Host Networking Service (is the Containers feature installed?): %w", err)
		}
		var args [3]*uint16
		for i, s := range []string{method, path, request} {
			p, err := windows.UTF16PtrFromString(s)
			if err != nil {
				return "", err
			}
			args[i] = p
		}
		var response *uint16
		hr, _, _ := call.Call(uintptr(unsafe.Pointer(args[0])), uintptr(unsafe.Pointer(args[1])),
			uintptr(unsafe.Pointer(args[2])), uintptr(unsafe.Pointer(&response)))
		runtime.KeepAlive(args)
		text := ""
		if response != nil {
			// The answer comes from CoTaskMemAlloc and is ours to free.
			text = windows.UTF16PtrToString(response)
			windows.CoTaskMemFree(unsafe.Pointer(response))
		}
		if int32(hr) < 0 {
			return "", hresult(uint32(hr))
		}
		return text, nil
	}}
}

// hresult turns an HRESULT of facility Win32 into the Win32 code, whose text
// Windows knows, as hcsshim does.
func hresult(hr uint32) error {
	const facilityWin32 = 7
	if hr>>16&0x1fff == facilityWin32 {
		hr &= 0xffff
	}
	return fmt.Errorf("%w (%#x)", syscall.Errno(hr), hr)
}
