// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"cmp"
	"slices"
	"testing"
)

func TestFindAccount(t *testing.T) {
	for name, want := range map[string]string{
		"ContainerUser": `User Manager\ContainerUser`, "containeruser": `User Manager\ContainerUser`,
		`user manager\CONTAINERADMINISTRATOR`: `User Manager\ContainerAdministrator`,
		"SYSTEM":                              `NT AUTHORITY\SYSTEM`, `NT Authority\system`: `NT AUTHORITY\SYSTEM`,
		`NT AUTHORITY\NetworkService`:  `NT AUTHORITY\NETWORK SERVICE`,
		`nt authority\network service`: `NT AUTHORITY\NETWORK SERVICE`,
		`NT AUTHORITY\Local service`:   `NT AUTHORITY\LOCAL SERVICE`,
		"Administrator":                `web\Administrator`, `.\administrator`: `web\Administrator`,
		`WEB\Administrator`: `web\Administrator`,
		"FooLish":           "", "": "", `\`: "", `DOMAIN\x`: "", `DOMAIN\ContainerUser`: "",
		`NT AUTHORITY\ContainerUser`: "", `other\Administrator`: "", `a\b\SYSTEM`: "",
	} {
		a, ok := FindAccount(name, "web")
		if got := cmp.Or(a.Domain, "web") + `\` + a.Name; ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v; want %q", name, got, ok, want)
		}
	}
}

// TestAccountNumbers: the group names the account, the user says what it may
// write.
func TestAccountNumbers(t *testing.T) {
	groups := map[uint32]string{}
	for _, a := range Accounts() {
		if other := groups[a.GID]; other != "" {
			t.Errorf("%s and %s have one group", a.Name, other)
		}
		groups[a.GID] = a.Name
		administrator := slices.Contains([]string{"ContainerAdministrator", "SYSTEM", "Administrator"}, a.Name)
		if (a.UID == ContainerUID) != administrator {
			t.Errorf("%s is user %d", a.Name, a.UID)
		}
		if a.UID < 60000 || a.UID >= 65534 || a.GID < 60000 || a.GID >= 65534 {
			t.Errorf("%s: %d:%d is in a range of the machine's", a.Name, a.UID, a.GID)
		}
	}
}

func TestAccountEnvironment(t *testing.T) {
	for name, want := range map[string][]string{
		"ContainerUser": {
			"USERNAME=ContainerUser", "USERDOMAIN=User Manager", `USERPROFILE=C:\Users\ContainerUser`,
			`APPDATA=C:\Users\ContainerUser\AppData\Roaming`,
			`LOCALAPPDATA=C:\Users\ContainerUser\AppData\Local`, `TEMP=C:\Users\ContainerUser\AppData\Local\Temp`,
			`TMP=C:\Users\ContainerUser\AppData\Local\Temp`,
		},
		"SYSTEM": {
			"USERNAME=WEB-1$", "USERDOMAIN=WORKGROUP", `USERPROFILE=C:\Windows\system32\config\systemprofile`,
			`APPDATA=C:\Windows\system32\config\systemprofile\AppData\Roaming`,
			`LOCALAPPDATA=C:\Windows\system32\config\systemprofile\AppData\Local`, `TEMP=C:\Windows\TEMP`,
			`TMP=C:\Windows\TEMP`,
		},
	} {
		a, _ := FindAccount(name, "")
		if got := a.environment("web-1"); !slices.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestGroupsOf(t *testing.T) {
	for sid, want := range map[string][]uint32{
		"S-1-5-93-2-2": {userID}, "S-1-5-93-2": {ContainerGID, userID}, "S-1-5-18": {systemGID}, "S-1-5-32-556": nil,
	} {
		if got := GroupsOf(sid); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", sid, got, want)
		}
	}
}
