// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Security reads the security descriptor of a file.
func (system) Security(path string) (Security, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Security{}, err
	}
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return Security{}, err
	}
	control, _, err := sd.Control()
	if err != nil {
		return Security{}, err
	}
	s := Security{Dir: info.IsDir(), Protected: control&windows.SE_DACL_PROTECTED != 0}
	dacl, _, err := sd.DACL()
	if err != nil || dacl == nil {
		return s, err
	}
	for i := range uint32(dacl.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(dacl, i, &ace); err != nil {
			return Security{}, err
		}
		sid := (*windows.SID)(unsafe.Pointer(&ace.SidStart))
		e := Entry{
			SID:   sid.String(),
			Deny:  ace.Header.AceType == windows.ACCESS_DENIED_ACE_TYPE,
			Flags: ace.Header.AceFlags,
			Mask:  uint32(ace.Mask),
		}
		if name, domain, _, err := sid.LookupAccount(""); err == nil {
			e.Name = strings.TrimPrefix(domain+`\`+name, `\`)
		}
		s.Entries = append(s.Entries, e)
	}
	return s, nil
}

// SetSecurity gives a file the entries that are not inherited.
func (system) SetSecurity(path string, s Security) error {
	text := "D:"
	for _, e := range s.Entries {
		if e.Flags&inherited == 0 {
			text += e.sddl()
		}
	}
	sd, err := windows.SecurityDescriptorFromString(text)
	if err != nil {
		return err
	}
	dacl, _, err := sd.DACL()
	if err != nil {
		return err
	}
	var what windows.SECURITY_INFORMATION = windows.DACL_SECURITY_INFORMATION |
		windows.UNPROTECTED_DACL_SECURITY_INFORMATION
	if s.Protected {
		what = windows.DACL_SECURITY_INFORMATION | windows.PROTECTED_DACL_SECURITY_INFORMATION
	}
	return windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, what, nil, nil, dacl, nil)
}

// sddl returns the entry in the language of security descriptors.
func (e Entry) sddl() string {
	kind, flags := "A", ""
	if e.Deny {
		kind = "D"
	}
	for _, f := range []struct {
		bit  uint8
		text string
	}{{objectInherit, "OI"}, {containerInherit, "CI"}, {noPropagate, "NP"}, {inheritOnly, "IO"}} {
		if e.Flags&f.bit != 0 {
			flags += f.text
		}
	}
	return fmt.Sprintf("(%s;%s;%#x;;;%s)", kind, flags, e.Mask, e.SID)
}

// SetOwner changes a file's owner.
func (system) SetOwner(path, sid string) error {
	owner, err := windows.StringToSid(sid)
	if err != nil {
		return err
	}
	return windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION,
		owner, nil, nil, nil)
}

// LookupSID returns the security identifier of an account.
func (system) LookupSID(name string) (string, error) {
	sid, _, _, err := windows.LookupSID("", name)
	if err != nil {
		return "", err
	}
	return sid.String(), nil
}
