// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package acl

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// private is the security descriptor of a directory for SYSTEM (SY) and the
// built-in administrators (BA): owner BA; P: nothing is inherited from above;
// OICI: files and directories below inherit it; FA: full access.
// Language: learn.microsoft.com/windows/win32/secauthz/security-descriptor-string-format.
const private = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"

// shared repeats what directories in C:\ inherit, for one that inherits nothing: Users (BU) read
// and execute (0x1200a9), make directories (LC) and, in these, files (DC); who makes
// one (CO) may do everything with it.
const shared = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;BU)(A;CI;LC;;;BU)(A;CIIO;DC;;;BU)" +
	"(A;OICIIO;GA;;;CO)"

func makeParents(dir string) error { return os.MkdirAll(dir, 0o755) }

func makePrivate(dir string) error {
	sd, err := windows.SecurityDescriptorFromString(private)
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
	if verify(dir) == nil {
		return nil
	}
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
	// This also reaches what lies in the directory already.
	if err := windows.SetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT, what, owner, nil, dacl, nil); err != nil {
		return err
	}
	if verify(dir) == nil {
		return nil
	}
	// It merges in what the directory above passes on, protected or not, where
	// the file system cannot remember protection. Setting the descriptor of the
	// open directory does not.
	h, err := windows.CreateFile(name, windows.WRITE_DAC|windows.WRITE_OWNER,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	return windows.SetKernelObjectSecurity(h, what, sd)
}

func makeShared(dir string) error {
	sd, err := windows.SecurityDescriptorFromString(shared)
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
	if err := refuseLink(dir); err != nil {
		return err
	}
	dacl, _, err := sd.DACL()
	if err != nil {
		return err
	}
	return windows.SetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT,
		windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, dacl, nil)
}

// refuseLink refuses reparse points: what is written through one lands
// elsewhere.
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

func verify(dir string) error {
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
		// Deny entries and empty masks grant nothing.
		if ace.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE || ace.Mask == 0 {
			continue
		}
		if sid := sidOf(ace); !trusted(sid) {
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
	return func(s *windows.SID) bool {
		for _, t := range sids {
			if s != nil && s.Equals(t) {
				return true
			}
		}
		return false
	}, nil
}
