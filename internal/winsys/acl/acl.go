// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package acl sets the access rights of the directories of a node.
//
// On Windows a mode like 0700 has no effect: a directory below C:\ inherits rights
// for ordinary users, which has made users SYSTEM on Kubernetes nodes (advisory
// GHSA-x7xj-jvwp-97rv, RKE2, 2024-10). So directories get their access control list
// explicitly, and before anything is written into them.
package acl

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// errOpen is returned for a directory that others can use for more than its list
// gives them.
var errOpen = errors.New("others have access to it")

// List has the access rights of a directory and of its content. It inherits no
// rights from the directories above.
type List []Entry

// Entry gives rights to an account or a group.
type Entry struct {
	Who  string // as in SDDL: SY, BA, BU, CO
	May  uint32 // an access mask
	Over Scope
}

// Scope is the part of a tree to which an entry applies.
type Scope uint8

// The flags of an entry (ACE_HEADER).
const (
	FilesBelow       Scope = 1 << iota // OBJECT_INHERIT_ACE
	DirectoriesBelow                   // CONTAINER_INHERIT_ACE
	_                                  // NO_PROPAGATE_INHERIT_ACE
	NotItself                          // INHERIT_ONLY_ACE

	everythingBelow = FilesBelow | DirectoriesBelow
)

// The identities in lists, as SDDL has them.
const (
	System         = "SY"
	Administrators = "BA"
	Users          = "BU"
	Creator        = "CO" // of new content
)

// Access masks.
const (
	FullAccess   uint32 = 0x1f01ff
	ReadExecute  uint32 = 0x1200a9
	AddFile      uint32 = 0x2
	AddDirectory uint32 = 0x4
	everyRight   uint32 = 0x10000000 // GENERIC_ALL, which becomes FullAccess where it is inherited
)

// Private lets in SYSTEM and the administrators only.
func Private() List {
	return List{
		{System, FullAccess, everythingBelow},
		{Administrators, FullAccess, everythingBelow},
	}
}

// Volumes gives ordinary users the same rights as C:\: they read and execute, make
// directories, make files in these, and have full access to the files that they
// have made. Volumes of pods need it: programs in containers reach them with their
// container's account, which is a member of Users at best. The way to a file is not
// checked on Windows (bypass traverse checking), so it does not matter that the
// directory above is private.
func Volumes() List {
	return append(Private(),
		Entry{Users, ReadExecute, everythingBelow},
		Entry{Users, AddDirectory, DirectoriesBelow},
		Entry{Users, AddFile, DirectoriesBelow | NotItself},
		Entry{Creator, everyRight, everythingBelow | NotItself})
}

// String returns the list as a security descriptor that belongs to the
// administrators. Language:
// learn.microsoft.com/windows/win32/secauthz/security-descriptor-string-format.
func (l List) String() string {
	var b strings.Builder
	b.WriteString("O:BAD:P")
	for _, e := range l {
		b.WriteString("(A;")
		for i, flag := range []string{"OI", "CI", "NP", "IO"} {
			if e.Over&(1<<i) != 0 {
				b.WriteString(flag)
			}
		}
		fmt.Fprintf(&b, ";%#x;;;%s)", e.May, e.Who)
	}
	return b.String()
}

// ofUsers returns all that ordinary users may do, there or below.
func (l List) ofUsers() uint32 {
	var may uint32
	for _, e := range l {
		if e.Who == Users {
			may |= e.May
		}
	}
	return may
}

// Make makes a directory (and its parents) with a list. An existing directory gets
// the list, too; if that fails, or if it is a link, Make returns an error and the
// directory must not be used.
func Make(dir string, l List) error {
	if err := makeParents(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("make directory %s: %w", dir, err)
	}
	if err := makeDir(dir, l); err != nil {
		return fmt.Errorf("make directory %s with its access control list: %w", dir, err)
	}
	return Verify(dir, l)
}

// Verify checks that no account may do more with a directory than a list says.
func Verify(dir string, l List) error {
	if err := verify(dir, l); err != nil {
		return fmt.Errorf("directory %s: %w", dir, err)
	}
	return nil
}
