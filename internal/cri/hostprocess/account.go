// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hostprocess

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/cri/engine"
	"github.com/mullion-k8s/mullion/internal/wine"
)

// userNameLimit is winapi.UserNameCharLimit.
const userNameLimit = 20

// errNoUser has the words of hcsshim's logon.go.
var errNoUser = errors.New("failed to create user process token: empty username or group name passed")

// LogOn returns hcsshim's error if a container cannot log on as the user.
func (h *Host) LogOn(user, container string) error {
	_, err := account(user, container, h.groups())
	return err
}

// account finds the account that a container logs on as; see processToken of
// hcsshim. groups are the local groups of the host.
func account(user, id string, groups []string) (wine.Account, error) {
	if user == "" {
		return wine.Account{}, errNoUser
	}
	if i := slices.IndexFunc(groups, func(g string) bool { return strings.EqualFold(g, user) }); i >= 0 {
		return wine.LocalUser(id[:min(userNameLimit, len(id))], strings.EqualFold(groups[i], "Administrators")), nil
	}
	parts := strings.Split(user, `\`)
	if len(parts) > 2 {
		return wine.Account{}, fmt.Errorf("failed to create user process token: invalid user string `%s`", user)
	}
	// hcsshim compares the authority as it is written to choose the logon of a
	// service; anything else is an interactive logon, for which it has no password.
	if len(parts) == 2 && parts[0] == "NT AUTHORITY" {
		if a, ok := wine.FindAccount(user, ""); ok {
			return a, nil
		}
	}
	return wine.Account{}, fmt.Errorf("failed to create user process token: failed to logon user: %w", engine.ErrLogon)
}

// builtinGroups returns the local groups of every Windows Server:
// learn.microsoft.com, "Local accounts".
func builtinGroups() []string {
	return []string{
		"Administrators", "Backup Operators", "Distributed COM Users", "Event Log Readers", "Guests",
		"Hyper-V Administrators", "Network Configuration Operators", "Performance Log Users",
		"Performance Monitor Users", "Power Users", "Remote Desktop Users", "Remote Management Users",
		"Replicator", "Users",
	}
}

// accountsFile is where the stand-ins' net.exe keeps accounts.
const accountsFile = "ProgramData/mullion/accounts.json"

// maxAccountsBytes is far above the size of net.exe's output.
const maxAccountsBytes = 1 << 20

// groups returns the local groups of the host. A container can write anything to
// the file of net.exe.
func (h *Host) groups() []string {
	groups := builtinGroups()
	root, err := os.OpenRoot(h.Drive)
	if err != nil {
		return groups
	}
	defer func() { _ = root.Close() }() // opened for look-ups
	f, err := root.Open(accountsFile)
	if err != nil {
		return groups // no group was created
	}
	defer func() { _ = f.Close() }() // opened for reading
	var accounts struct {
		Groups map[string][]string `json:"groups"`
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return groups
	}
	if err := json.NewDecoder(io.LimitReader(f, maxAccountsBytes)).Decode(&accounts); err != nil {
		return groups
	}
	return slices.AppendSeq(groups, maps.Keys(accounts.Groups))
}
