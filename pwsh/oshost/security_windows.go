// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package oshost

import (
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

type security struct{}

func newSecurity() host.FileSecurity { return security{} }

func account(sid *windows.SID) host.Account {
	if sid == nil {
		return host.Account{}
	}
	a := host.Account{SID: sid.String()}
	if name, domain, _, err := sid.LookupAccount(""); err == nil {
		a.Name = strings.TrimPrefix(domain+`\`+name, `\`)
	}
	return a
}

// Security reads owner, group and access control list.
func (security) Security(name string) (host.Security, error) {
	sd, err := windows.GetNamedSecurityInfo(name, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.GROUP_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return host.Security{}, fmt.Errorf("read security of %s: %w", name, err)
	}
	var s host.Security
	if owner, _, err := sd.Owner(); err == nil {
		s.Owner = account(owner)
	}
	if group, _, err := sd.Group(); err == nil {
		s.Group = account(group)
	}
	if control, _, err := sd.Control(); err == nil {
		s.Protected = control&windows.SE_DACL_PROTECTED != 0
	}
	dacl, _, err := sd.DACL()
	if err != nil || dacl == nil {
		return s, nil //nolint:nilerr // no list
	}
	for i := range uint32(dacl.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(dacl, i, &ace); err != nil {
			return s, fmt.Errorf("read security of %s: %w", name, err)
		}
		flags := ace.Header.AceFlags
		s.Rules = append(s.Rules, host.AccessRule{
			Account: account((*windows.SID)(unsafe.Pointer(&ace.SidStart))),
			Deny:    ace.Header.AceType == windows.ACCESS_DENIED_ACE_TYPE,
			Rights:  uint32(ace.Mask),
			// ACE_HEADER counts files first, .NET directories.
			Inheritance: int(flags&windows.CONTAINER_INHERIT_ACE)>>1 | int(flags&windows.OBJECT_INHERIT_ACE)<<1,
			Propagation: int(flags>>2) & 3,
			Inherited:   flags&windows.INHERITED_ACCESS_ENTRY != 0,
		})
	}
	return s, nil
}

// SetSecurity writes the rules that are not inherited, and the owner.
func (security) SetSecurity(name string, s host.Security) error {
	text := "D:"
	for _, r := range s.Rules {
		if !r.Inherited {
			text += sddlRule(r)
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
	var owner *windows.SID
	if s.Owner.SID != "" {
		if owner, err = windows.StringToSid(s.Owner.SID); err != nil {
			return err
		}
		what |= windows.OWNER_SECURITY_INFORMATION
	}
	return windows.SetNamedSecurityInfo(name, windows.SE_FILE_OBJECT, what, owner, nil, dacl, nil)
}

// sddlRule returns a rule in the language of security descriptors.
func sddlRule(r host.AccessRule) string {
	kind, flags := "A", ""
	if r.Deny {
		kind = "D"
	}
	for _, f := range []struct {
		has  bool
		text string
	}{
		{r.Inheritance&2 != 0, "OI"}, {r.Inheritance&1 != 0, "CI"},
		{r.Propagation&1 != 0, "NP"}, {r.Propagation&2 != 0, "IO"},
	} {
		if f.has {
			flags += f.text
		}
	}
	return fmt.Sprintf("(%s;%s;%#x;;;%s)", kind, flags, r.Rights, r.SID)
}

// FindAccount looks up the account in Windows.
func (security) FindAccount(name string) (host.Account, error) {
	if strings.HasPrefix(name, "S-1-") {
		sid, err := windows.StringToSid(name)
		if err != nil {
			return host.Account{}, err
		}
		return account(sid), nil
	}
	sid, _, _, err := windows.LookupSID("", name)
	if err != nil {
		return host.Account{}, err
	}
	return account(sid), nil
}
