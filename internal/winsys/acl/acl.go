// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package acl sets who may use the directories of a node.
//
// On Windows a mode like 0700 means nothing: a directory below C:\ inherits
// rights for ordinary users, which has made users SYSTEM on Kubernetes nodes
// (advisory GHSA-x7xj-jvwp-97rv, RKE2, 2024-10). So directories get their
// access control list explicitly, and before anything is written into them.
package acl

import (
	"errors"
	"fmt"
	"path/filepath"
)

// errOpen is returned for a directory that others than SYSTEM, administrators
// and the running user can use.
var errOpen = errors.New("others have access to it")

// MakePrivate makes a directory (and those above it) and closes it to everyone
// but SYSTEM and the administrators. One that exists is closed too; if that
// cannot be done, or if it is a link, the error says so and the directory must
// not be used.
func MakePrivate(dir string) error {
	if err := makeParents(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("make directory %s: %w", dir, err)
	}
	if err := makePrivate(dir); err != nil {
		return fmt.Errorf("make private directory %s: %w", dir, err)
	}
	if err := Verify(dir); err != nil {
		return err
	}
	return nil
}

// MakeShared makes a directory (and those above it) that ordinary users may read and
// make files and directories in, as in C:\ itself, and that takes nothing over from
// the directories above. Volumes of pods need it: programs in containers reach them
// with their container's account, and are members of Users at best.
func MakeShared(dir string) error {
	if err := makeParents(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("make directory %s: %w", dir, err)
	}
	if err := makeShared(dir); err != nil {
		return fmt.Errorf("make shared directory %s: %w", dir, err)
	}
	return nil
}

// Verify checks that a directory is as MakePrivate leaves it.
func Verify(dir string) error {
	if err := verify(dir); err != nil {
		return fmt.Errorf("directory %s: %w", dir, err)
	}
	return nil
}
