// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mount

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The form of an access control list in an extended attribute: posix_acl_xattr.h of Linux.
const (
	defaultACL = "system.posix_acl_default"
	aclVersion = 2
	aclUser    = 0x01 // the owner
	aclGroup   = 0x04 // the owning group
	aclOther   = 0x20
	aclAll     = 7 // read, write, execute
	aclNoID    = ^uint32(0)
)

// InheritToAll lets all users write files that are made in a directory, and in the directories in
// it, whatever the umask of the program that makes it. A program that requests private files gets
// them. A file system without access control lists stays as it is.
func InheritToAll(dir *os.File) error {
	var acl bytes.Buffer
	// Writing to a buffer does not fail.
	_ = binary.Write(&acl, binary.LittleEndian, uint32(aclVersion))
	for _, tag := range []uint16{aclUser, aclGroup, aclOther} {
		_ = binary.Write(&acl, binary.LittleEndian, struct {
			Tag, Perm uint16
			ID        uint32
		}{tag, aclAll, aclNoID})
	}
	err := unix.Setxattr(Handle(dir), defaultACL, acl.Bytes(), 0)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("let all users write: %w", err)
	}
	return nil
}
