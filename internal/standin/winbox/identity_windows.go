// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Identity reads the process's own token.
func (system) Identity() (Identity, error) {
	token := windows.GetCurrentProcessToken()
	user, err := token.GetTokenUser()
	if err != nil {
		return Identity{}, fmt.Errorf("read token: %w", err)
	}
	id := Identity{SID: user.User.Sid.String()}
	id.Name, _ = accountName(user.User.Sid)
	groups, err := token.GetTokenGroups()
	if err != nil {
		return Identity{}, fmt.Errorf("read token: %w", err)
	}
	for _, g := range groups.AllGroups() {
		name, kind := accountName(g.Sid)
		id.Groups = append(id.Groups, Group{Name: name, Type: kind, SID: g.Sid.String(), Attributes: g.Attributes})
	}
	id.Privileges, err = privileges(token)
	return id, err
}

// sidTypes are SID_NAME_USE of winnt.h in whoami.exe's words.
func sidTypes() map[uint32]string {
	return map[uint32]string{
		windows.SidTypeUser: "User", windows.SidTypeGroup: "Group", windows.SidTypeAlias: "Alias",
		windows.SidTypeWellKnownGroup: "Well-known group", windows.SidTypeLabel: "Label",
	}
}

func accountName(sid *windows.SID) (name, kind string) {
	account, domain, use, err := sid.LookupAccount("")
	if err != nil {
		return " ", "Unknown SID type" // whoami.exe shows a blank
	}
	if domain != "" {
		account = domain + `\` + account
	}
	kind, ok := sidTypes()[use]
	if !ok {
		kind = "Unknown SID type"
	}
	return account, kind
}

// tokenPrivileges is TOKEN_INFORMATION_CLASS.TokenPrivileges of winnt.h.
const tokenPrivileges = 3

func privileges(token windows.Token) ([]Privilege, error) {
	buf := make([]byte, 4096) // 36 privileges of 12 bytes
	var n uint32
	if err := windows.GetTokenInformation(token, tokenPrivileges, &buf[0], uint32(len(buf)), &n); err != nil {
		return nil, fmt.Errorf("read token: %w", err)
	}
	advapi := windows.NewLazySystemDLL("advapi32.dll")
	lookup := func(proc string, arg, more uintptr) string {
		text := make([]uint16, 256)
		size := uint32(len(text))
		args := []uintptr{0, arg, uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&size))}
		if more != 0 {
			args = append(args, more)
		}
		if ok, _, _ := advapi.NewProc(proc).Call(args...); ok == 0 {
			return ""
		}
		return windows.UTF16ToString(text)
	}
	var out []Privilege
	for _, p := range (*windows.Tokenprivileges)(unsafe.Pointer(&buf[0])).AllPrivileges() {
		var language uint32
		name := lookup("LookupPrivilegeNameW", uintptr(unsafe.Pointer(&p.Luid)), 0)
		if name == "" {
			continue
		}
		wide, err := windows.UTF16PtrFromString(name)
		if err != nil {
			continue // impossible: it comes from Windows
		}
		description := lookup("LookupPrivilegeDisplayNameW", uintptr(unsafe.Pointer(wide)),
			uintptr(unsafe.Pointer(&language)))
		if description == "" {
			description = describePrivilege(name) // Wine's knows none
		}
		out = append(out, Privilege{Name: name, Enabled: p.Attributes&windows.SE_PRIVILEGE_ENABLED != 0,
			Description: description})
	}
	return out, nil
}
