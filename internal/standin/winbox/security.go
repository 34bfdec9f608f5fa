// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

// Security holds the parts of a security descriptor that icacls shows and changes.
type Security struct {
	Dir       bool
	Protected bool // inherits nothing
	Entries   []Entry
}

// Entry is an access control entry.
type Entry struct {
	SID   string
	Name  string // empty if the account is unknown
	Deny  bool
	Flags uint8 // of ACE_HEADER, winnt.h
	Mask  uint32
}

// Flags of an entry, winnt.h.
const (
	objectInherit    = 0x01
	containerInherit = 0x02
	noPropagate      = 0x04
	inheritOnly      = 0x08
	inherited        = 0x10
)
