// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"strings"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
)

type system struct{}

// NewSystem returns the System of the Windows that the program runs on.
func NewSystem() System { return system{} }

// configSearchList is DnsConfigSearchList of windns.h. Windows doesn't support it,
// and has the list in the registry; Wine returns the list of its resolver.
const configSearchList = 7

// SearchList queries the resolver.
func (system) SearchList() []string {
	query := windows.NewLazySystemDLL("dnsapi.dll").NewProc("DnsQueryConfig")
	list := make([]uint16, 4096) // Linux keeps at most 1024 bytes of them
	size := uint32(2 * len(list))
	status, _, _ := query.Call(configSearchList, 0, 0, 0,
		uintptr(unsafe.Pointer(&list[0])), uintptr(unsafe.Pointer(&size)))
	if status != 0 {
		return nil
	}
	list = list[:min(int(size)/2, len(list))]
	return strings.FieldsFunc(string(utf16.Decode(list)), func(r rune) bool { return r == 0 })
}
