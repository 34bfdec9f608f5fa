// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"slices"
	"strings"
)

// Account is a Windows account that programs can run as.
//
// Its Unix user determines its write access, its Unix group identifies the account:
// administrator accounts share a user, because each may write the others' files.
// winemend.dll reads the group and makes Windows' functions return the account's
// name, security identifier and groups (native/winemend/identity.c has the same
// table).
type Account struct {
	Name   string // in Windows' spelling
	Domain string // the authority before the backslash; empty is the computer
	SID    string // security identifier
	UID    uint32
	GID    uint32
	// Profile is the directory that USERPROFILE names.
	Profile string
	// Temp is the directory that TEMP and TMP name.
	Temp string
	// Computer means that USERNAME is the computer's name with a dollar sign and
	// USERDOMAIN its workgroup, as Windows has it for accounts that appear as the
	// computer on the network.
	Computer bool
	aliases  []string // further names, in lower case
}

// The Unix IDs of the accounts. They do not belong to accounts of the machine:
// they are above the ranges for system accounts and users (1000-60000) and below
// 65534, in the range that Debian's policy (9.2.2) leaves to local use by
// arrangement. The last two digits of the service accounts match their security
// identifiers (S-1-5-18 and so on).
const (
	// ContainerUID and ContainerGID own a container's files: they are
	// ContainerAdministrator's.
	ContainerUID = 64000
	ContainerGID = 64000

	userID           = 64001
	systemGID        = 64018
	localServiceID   = 64019
	networkServiceID = 64020
	administratorGID = 64050
	// Ephemeral users of HostProcess containers, members of Users alone or of
	// Administrators.
	localUserGID          = 64060
	localAdministratorGID = 64061
)

// LocalUser returns an account that the container runtime makes for one host process
// container, as a member of a local group.
func LocalUser(name string, administrator bool) Account {
	a := Account{Name: name, UID: ContainerUID, GID: localUserGID, Profile: `C:\Users\` + name, Temp: `C:\Windows\TEMP`}
	if administrator {
		a.GID = localAdministratorGID
	}
	return a
}

// Accounts lists the accounts that every container has. Names, authorities and
// identifiers: learn.microsoft.com/virtualization/windowscontainers/manage-containers/container-security
// and "Well-known SIDs" of the same site.
func Accounts() []Account {
	const containers, system = "User Manager", "NT AUTHORITY"
	return []Account{
		{
			Name: "ContainerAdministrator", Domain: containers, SID: "S-1-5-93-2-1",
			UID: ContainerUID, GID: ContainerGID,
			Profile: `C:\Users\ContainerAdministrator`, Temp: `C:\Users\ContainerAdministrator\AppData\Local\Temp`,
		},
		{
			Name: "ContainerUser", Domain: containers, SID: "S-1-5-93-2-2", UID: userID, GID: userID,
			Profile: `C:\Users\ContainerUser`, Temp: `C:\Users\ContainerUser\AppData\Local\Temp`,
		},
		{
			Name: "SYSTEM", Domain: system, SID: "S-1-5-18", UID: ContainerUID, GID: systemGID, Computer: true,
			aliases: []string{"local system", "localsystem"},
			Profile: `C:\Windows\system32\config\systemprofile`, Temp: `C:\Windows\TEMP`,
		},
		{
			Name: "LOCAL SERVICE", Domain: system, SID: "S-1-5-19", UID: localServiceID, GID: localServiceID,
			aliases: []string{"localservice"},
			Profile: `C:\Windows\ServiceProfiles\LocalService`,
			Temp:    `C:\Windows\ServiceProfiles\LocalService\AppData\Local\Temp`,
		},
		{
			Name: "NETWORK SERVICE", Domain: system, SID: "S-1-5-20",
			UID: networkServiceID, GID: networkServiceID, Computer: true,
			aliases: []string{"networkservice"},
			Profile: `C:\Windows\ServiceProfiles\NetworkService`,
			Temp:    `C:\Windows\ServiceProfiles\NetworkService\AppData\Local\Temp`,
		},
		{
			Name: "Administrator", SID: "S-1-5-21-0-0-0-500", UID: ContainerUID, GID: administratorGID,
			Profile: `C:\Users\Administrator`, Temp: `C:\Users\Administrator\AppData\Local\Temp`,
		},
	}
}

// GroupsOf returns the Unix groups of the accounts whose security identifiers begin with sid.
func GroupsOf(sid string) []uint32 {
	var groups []uint32
	for _, a := range Accounts() {
		if strings.HasPrefix(a.SID, sid) {
			groups = append(groups, a.GID)
		}
	}
	return groups
}

// FindAccount finds an account by the name that an image or a pod gives it:
// NAME or DOMAIN\NAME, in any case. The computer's own name, given as computer,
// and "." stand for an account of no other authority.
func FindAccount(name, computer string) (Account, bool) {
	domain, user, qualified := strings.Cut(name, `\`)
	if !qualified {
		domain, user = "", name
	}
	for _, a := range Accounts() {
		if !strings.EqualFold(a.Name, user) && !slices.Contains(a.aliases, strings.ToLower(user)) {
			continue
		}
		switch {
		case !qualified, strings.EqualFold(domain, a.Domain):
			return a, true
		case a.Domain == "" && (domain == "." || strings.EqualFold(domain, computer)):
			return a, true
		}
	}
	return Account{}, false
}

// environment returns the variables that Windows adds to an account's
// environment, given the computer's name.
func (a Account) environment(computer string) []string {
	computer = strings.ToUpper(computer)
	name, domain := a.Name, a.Domain
	switch {
	case a.Computer:
		name, domain = computer+"$", "WORKGROUP"
	case domain == "":
		domain = computer
	}
	return []string{
		"USERNAME=" + name,
		"USERDOMAIN=" + domain,
		"USERPROFILE=" + a.Profile,
		"APPDATA=" + a.Profile + `\AppData\Roaming`,
		"LOCALAPPDATA=" + a.Profile + `\AppData\Local`,
		"TEMP=" + a.Temp,
		"TMP=" + a.Temp,
	}
}
