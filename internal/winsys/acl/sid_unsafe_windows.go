// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package acl

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// sidOf finds the SID that follows an entry's mask.
func sidOf(ace *windows.ACCESS_ALLOWED_ACE) *windows.SID {
	return (*windows.SID)(unsafe.Pointer(&ace.SidStart))
}

// attributes makes the parameter of CreateDirectory.
func attributes(sd *windows.SECURITY_DESCRIPTOR) *windows.SecurityAttributes {
	sa := &windows.SecurityAttributes{SecurityDescriptor: sd}
	sa.Length = uint32(unsafe.Sizeof(*sa))
	return sa
}
