// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// accounts are the local users and groups that `net` shows and changes. They
// are kept in a file of the container: no other program here uses them.
type accounts struct {
	Users  []string            `json:"users"`
	Groups map[string][]string `json:"groups"`
}

// newAccounts returns the accounts of a new container.
func newAccounts() accounts {
	return accounts{
		Users: []string{"Administrator", "DefaultAccount", "Guest", "WDAGUtilityAccount"},
		Groups: map[string][]string{
			"Administrators": {"Administrator"}, "Backup Operators": {}, "Guests": {"Guest"},
			"Hyper-V Administrators": {}, "IIS_IUSRS": {}, "Network Configuration Operators": {},
			"Performance Log Users": {}, "Performance Monitor Users": {}, "Remote Desktop Users": {}, "Users": {},
		},
	}
}

// netCommand is net.exe: user and localgroup. Services belong to sc.exe here.
func netCommand(_ context.Context, env *Env) int {
	if len(env.Args) == 0 {
		env.printf("The syntax of this command is:\n\nNET\n    [ LOCALGROUP | USER ]\n")
		return 1
	}
	file := filepath.Join(env.Getenv("ProgramData"), "mullion", "accounts.json")
	a, err := loadAccounts(file)
	if err != nil {
		env.errorf("System error: %v\n", err)
		return 2
	}
	n := &netState{env: env, accounts: a}
	var code int
	switch strings.ToLower(env.Args[0]) {
	case "user", "users":
		code = n.user(env.Args[1:])
	case "localgroup":
		code = n.group(env.Args[1:])
	default:
		env.errorf("net %s: not in this stand-in; it has USER and LOCALGROUP (for services, use sc.exe)\n",
			strings.ToLower(env.Args[0]))
		return 1
	}
	if code == 0 && n.changed {
		if err := n.accounts.save(file); err != nil {
			env.errorf("System error 5 has occurred.\n\n%v\n", err)
			return 2
		}
	}
	return code
}

type netState struct {
	env      *Env
	accounts accounts
	changed  bool
}

const netDone = "The command completed successfully.\n\n"

// splitNet separates names from options such as /ADD.
func splitNet(args []string) (names []string, options []string) {
	for _, a := range args {
		if strings.HasPrefix(a, "/") {
			options = append(options, strings.ToLower(a))
			continue
		}
		names = append(names, a)
	}
	return names, options
}

func (n *netState) user(args []string) int {
	names, options := splitNet(args)
	if len(names) == 0 {
		n.env.printf("\nUser accounts for \\\\%s\n\n%s\n%s%s", strings.ToUpper(n.env.Host.System.Hostname()),
			strings.Repeat("-", 79),
			columns(n.accounts.Users), netDone)
		return 0
	}
	i := slices.IndexFunc(n.accounts.Users, func(u string) bool { return strings.EqualFold(u, names[0]) })
	switch {
	case slices.Contains(options, "/add"):
		if i >= 0 {
			return n.fail(2224, "The account already exists.")
		}
		n.accounts.Users, n.changed = append(n.accounts.Users, names[0]), true
		n.accounts.Groups["Users"] = append(n.accounts.Groups["Users"], names[0])
		n.env.printf("%s", netDone)
		return 0
	case i < 0:
		return n.fail(2221, "The user name could not be found.")
	case slices.Contains(options, "/delete"):
		n.accounts.Users, n.changed = slices.Delete(n.accounts.Users, i, i+1), true
		for g, members := range n.accounts.Groups {
			n.accounts.Groups[g] = slices.DeleteFunc(members, func(m string) bool {
				return strings.EqualFold(m, names[0])
			})
		}
		n.env.printf("%s", netDone)
		return 0
	}
	var in []string
	for g, members := range n.accounts.Groups {
		if slices.ContainsFunc(members, func(m string) bool { return strings.EqualFold(m, names[0]) }) {
			in = append(in, "*"+g)
		}
	}
	slices.Sort(in)
	n.env.printf("User name                    %s\nAccount active               Yes\n"+
		"Local Group Memberships      %s\n%s", n.accounts.Users[i], strings.Join(in, " "), netDone)
	return 0
}

func (n *netState) group(args []string) int {
	names, options := splitNet(args)
	if len(names) == 0 {
		var list []string
		for g := range n.accounts.Groups {
			list = append(list, "*"+g)
		}
		slices.Sort(list)
		n.env.printf("\nAliases for \\\\%s\n\n%s\n%s\n%s", strings.ToUpper(n.env.Host.System.Hostname()),
			strings.Repeat("-", 79),
			strings.Join(list, "\n"), netDone)
		return 0
	}
	group, found := "", false
	for g := range n.accounts.Groups {
		if strings.EqualFold(g, names[0]) {
			group, found = g, true
		}
	}
	add, remove := slices.Contains(options, "/add"), slices.Contains(options, "/delete")
	switch {
	case len(names) == 1 && add:
		if found {
			return n.fail(1379, "The specified local group already exists.")
		}
		n.accounts.Groups[names[0]], n.changed = []string{}, true
	case !found:
		return n.fail(1376, "The specified local group does not exist.")
	case len(names) == 1 && remove:
		delete(n.accounts.Groups, group)
		n.changed = true
	case add || remove:
		return n.members(group, names[1:], add)
	default:
		n.env.printf("Alias name     %s\nComment\n\nMembers\n\n%s\n%s\n%s", group, strings.Repeat("-", 79),
			strings.Join(n.accounts.Groups[group], "\n"), netDone)
		return 0
	}
	n.env.printf("%s", netDone)
	return 0
}

func (n *netState) members(group string, names []string, add bool) int {
	for _, name := range names {
		list := n.accounts.Groups[group]
		i := slices.IndexFunc(list, func(m string) bool { return strings.EqualFold(m, name) })
		switch {
		case add && i >= 0:
			return n.fail(1378, "The specified account name is already a member of the group.")
		case add:
			n.accounts.Groups[group] = append(list, name)
		case i < 0:
			return n.fail(1377, "The specified account name is not a member of the group.")
		default:
			n.accounts.Groups[group] = slices.Delete(list, i, i+1)
		}
		n.changed = true
	}
	n.env.printf("%s", netDone)
	return 0
}

// fail prints a Windows error; net.exe exits with 2 on each.
func (n *netState) fail(code int, text string) int {
	n.env.errorf("System error %d has occurred.\n\n%s\n\n", code, text)
	return 2
}

// columns sets names in three columns of 25.
func columns(names []string) string {
	var b strings.Builder
	for i, name := range names {
		fmt.Fprintf(&b, "%-25s", name)
		if i%3 == 2 || i == len(names)-1 {
			b.WriteString("\n")
		}
	}
	return b.String()
}

func loadAccounts(file string) (accounts, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return newAccounts(), nil
	}
	if err != nil {
		return accounts{}, err
	}
	var a accounts
	if err := json.Unmarshal(data, &a); err != nil || a.Groups == nil {
		return accounts{}, fmt.Errorf("%s is damaged", file)
	}
	return a, nil
}

func (a accounts) save(file string) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
