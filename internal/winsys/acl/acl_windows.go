// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package acl

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/windows"
)

func makeParents(dir string) error { return os.MkdirAll(dir, 0o755) }

func makeDir(dir string, l List) error {
	sd, err := windows.SecurityDescriptorFromString(l.String())
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return err
	}
	err = windows.CreateDirectory(name, attributes(sd))
	if err == nil || !errors.Is(err, windows.ERROR_ALREADY_EXISTS) {
		return err
	}
	// It exists: it may have been made by someone who keeps rights to it.
	if err := refuseLink(dir); err != nil {
		return err
	}
	if has(dir, sd) {
		return nil
	}
	return set(dir, name, l, sd)
}

// set gives an existing directory a list.
func set(dir string, name *uint16, l List, sd *windows.SECURITY_DESCRIPTOR) error {
	dacl, _, err := sd.DACL()
	if err != nil {
		return err
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return err
	}
	const what = windows.OWNER_SECURITY_INFORMATION | windows.DACL_SECURITY_INFORMATION |
		windows.PROTECTED_DACL_SECURITY_INFORMATION
	// This also changes the existing content of the directory.
	if err := windows.SetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT, what, owner, nil, dacl, nil); err != nil {
		return err
	}
	if verify(dir, l) == nil {
		return nil
	}
	// It merges in the inheritable entries of the directory above, protected or
	// not, where the file system cannot remember protection. Setting the descriptor
	// of the open directory does not.
	h, err := windows.CreateFile(name, windows.WRITE_DAC|windows.WRITE_OWNER,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	return windows.SetKernelObjectSecurity(h, what, sd)
}

// has reports whether a directory has the owner and the list of sd already. To
// set a list takes long where many files inherit it.
func has(dir string, sd *windows.SECURITY_DESCRIPTOR) bool {
	now, err := windows.GetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return false // setting it reports the reason
	}
	control, _, err := now.Control()
	if err != nil || control&windows.SE_DACL_PROTECTED == 0 {
		return false
	}
	owner, entries := parts(now)
	wantOwner, want := parts(sd)
	return owner == wantOwner && entries == want
}

// parts returns the owner and the entries of a descriptor, without the flags of
// its list: they also record the list's origin.
func parts(sd *windows.SECURITY_DESCRIPTOR) (owner, entries string) {
	owner, list, _ := strings.Cut(sd.String(), "D:")
	_, entries, _ = strings.Cut(list, "(")
	return owner, entries
}

// refuseLink refuses reparse points: writes through one land elsewhere.
func refuseLink(dir string) error {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return err
	}
	attrs, err := windows.GetFileAttributes(name)
	switch {
	case err != nil:
		return err
	case attrs&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0:
		return errors.New("it is a link")
	case attrs&windows.FILE_ATTRIBUTE_DIRECTORY == 0:
		return errors.New("it is not a directory")
	}
	return nil
}

func verify(dir string, l List) error {
	if err := refuseLink(dir); err != nil {
		return err
	}
	sd, err := windows.GetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return err
	}
	trusted, err := trusted()
	if err != nil {
		return err
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return err
	}
	if !trusted(owner) {
		return fmt.Errorf("%w: it belongs to %s", errOpen, owner)
	}
	dacl, _, err := sd.DACL()
	if err != nil {
		return err
	}
	if dacl == nil {
		return fmt.Errorf("%w: it has no access control list", errOpen)
	}
	for i := range uint32(dacl.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(dacl, i, &ace); err != nil {
			return err
		}
		// Deny entries and empty masks grant no rights.
		if ace.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE || ace.Mask == 0 {
			continue
		}
		if sid := sidOf(ace); !trusted(sid) && uint32(ace.Mask)&^l.ofUsers() != 0 {
			return fmt.Errorf("%w: %s may use it (mask %#x)", errOpen, sid, ace.Mask)
		}
	}
	return nil
}

// trusted returns a test for the identities that may have access: SYSTEM, the
// administrators, the owner as such, and the user we run as.
func trusted() (func(*windows.SID) bool, error) {
	var sids []*windows.SID
	for _, known := range []windows.WELL_KNOWN_SID_TYPE{
		windows.WinLocalSystemSid, windows.WinBuiltinAdministratorsSid, windows.WinCreatorOwnerSid,
		windows.WinCreatorOwnerRightsSid,
	} {
		sid, err := windows.CreateWellKnownSid(known)
		if err != nil {
			return nil, fmt.Errorf("make SID: %w", err)
		}
		sids = append(sids, sid)
	}
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, fmt.Errorf("get own SID: %w", err)
	}
	sids = append(sids, user.User.Sid)
	return func(s *windows.SID) bool { return s != nil && slices.ContainsFunc(sids, s.Equals) }, nil
}
