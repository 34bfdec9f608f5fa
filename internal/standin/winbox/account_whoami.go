// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// attributes spells the attributes as whoami.exe does, which shows no attributes
// of an integrity label.
func attributes(g host.IdentityGroup) string {
	if g.Type == "Label" {
		return ""
	}
	var out []string
	for _, a := range []struct {
		bit  uint32
		text string
	}{{1, "Mandatory group"}, {2, "Enabled by default"}, {4, "Enabled group"}, {8, "Group owner"},
		{0x10, "Group used for deny only"}} {
		if g.Attributes&a.bit != 0 {
			out = append(out, a.text)
		}
	}
	return strings.Join(out, ", ")
}

// whoamiHelp is the original's message about a wrong argument.
const whoamiHelp = "Type \"WHOAMI /?\" for usage.\n"

// whoami prints the account, in lower case as Windows does, and the content of
// its token.
func whoami(_ context.Context, env *Env) int {
	id, err := env.Host.System.Identity()
	if err != nil {
		env.errorf("ERROR: %v\n", err)
		return 1
	}
	id.Name = strings.ToLower(id.Name)
	if len(env.Args) == 0 {
		env.printf("%s\n", id.Name)
		return 0
	}
	var show []string
	format, header := "table", true
	for i := 0; i < len(env.Args); i++ {
		switch o := strings.ToLower(strings.TrimLeft(env.Args[i], "/-")); o {
		case "user", "groups", "priv", "upn", "fqdn", "logonid":
			show = append(show, o)
		case "all":
			show = append(show, "user", "groups", "priv")
		case "nh":
			header = false
		case "fo":
			if i++; i < len(env.Args) {
				format = strings.ToLower(env.Args[i])
			}
		default:
			env.errorf("ERROR: Invalid argument/option - '%s'.\n"+whoamiHelp, env.Args[i])
			return 1
		}
	}
	if !slices.Contains([]string{"table", "list", "csv"}, format) || len(show) == 0 || format == "list" && !header {
		env.errorf("ERROR: Invalid syntax.\n" + whoamiHelp)
		return 1
	}
	for _, s := range show {
		t, ok := identityTable(id, s)
		if !ok {
			env.errorf("ERROR: Unable to get %s as the current logged-on user\n       is not a domain user.\n",
				map[string]string{
					"upn": "User Principal Name (UPN)", "fqdn": "Fully Qualified Distinguished Name (FQDN)",
					"logonid": "the logon ID",
				}[s])
			return 1
		}
		env.printf("%s", t.text(format, header))
	}
	return 0
}

// report is one block of whoami's output.
type report struct {
	title string
	head  []string
	rows  [][]string
}

func identityTable(id host.Identity, what string) (report, bool) {
	switch what {
	case "user":
		return report{"USER INFORMATION", []string{"User Name", "SID"}, [][]string{{id.Name, id.SID}}}, true
	case "groups":
		t := report{title: "GROUP INFORMATION", head: []string{"Group Name", "Type", "SID", "Attributes"}}
		for _, g := range id.Groups {
			t.rows = append(t.rows, []string{cmp.Or(g.Name, " "), cmp.Or(g.Type, "Unknown SID type"), g.SID,
				attributes(g)})
		}
		return t, true
	case "priv":
		t := report{title: "PRIVILEGES INFORMATION", head: []string{"Privilege Name", "Description", "State"}}
		for _, p := range id.Privileges {
			state := "Disabled"
			if p.Enabled {
				state = "Enabled"
			}
			t.rows = append(t.rows, []string{p.Name, describePrivilege(p.Name), state})
		}
		return t, true
	}
	return report{}, false
}

// text formats a block; csv has neither a title nor blanks around it.
func (t report) text(format string, header bool) string {
	var b strings.Builder
	if format == "csv" {
		rows := t.rows
		if header {
			rows = append([][]string{t.head}, rows...)
		}
		for _, r := range rows {
			fmt.Fprintf(&b, "\"%s\"\n", strings.Join(r, `","`))
		}
		return b.String()
	}
	fmt.Fprintf(&b, "\n%s\n%s\n\n", t.title, strings.Repeat("-", len(t.title)))
	if format == "list" {
		width := len(slices.MaxFunc(t.head, func(a, b string) int { return len(a) - len(b) })) + 1
		for _, r := range t.rows {
			for i, cell := range r {
				fmt.Fprintf(&b, "%-*s %s\n", width, t.head[i]+":", cell)
			}
			b.WriteString("\n")
		}
		return b.String()
	}
	widths := make([]int, len(t.head))
	for _, r := range append([][]string{t.head}, t.rows...) {
		for i, cell := range r {
			widths[i] = max(widths[i], len(cell))
		}
	}
	line := func(cells []string) {
		for i, w := range widths {
			if i > 0 {
				b.WriteString(" ")
			}
			fmt.Fprintf(&b, "%-*s", w, cells[i])
		}
		b.WriteString("\n")
	}
	if header {
		line(t.head)
		var rules []string
		for _, w := range widths {
			rules = append(rules, strings.Repeat("=", w))
		}
		line(rules)
	}
	for _, r := range t.rows {
		line(r)
	}
	return b.String()
}

// describePrivilege returns the text of LookupPrivilegeDisplayName:
// learn.microsoft.com/windows/win32/secauthz/privilege-constants, "User Right".
func describePrivilege(name string) string {
	return map[string]string{
		"SeAssignPrimaryTokenPrivilege":   "Replace a process level token",
		"SeAuditPrivilege":                "Generate security audits",
		"SeBackupPrivilege":               "Back up files and directories",
		"SeChangeNotifyPrivilege":         "Bypass traverse checking",
		"SeCreateGlobalPrivilege":         "Create global objects",
		"SeCreatePagefilePrivilege":       "Create a pagefile",
		"SeDebugPrivilege":                "Debug programs",
		"SeImpersonatePrivilege":          "Impersonate a client after authentication",
		"SeIncreaseBasePriorityPrivilege": "Increase scheduling priority",
		"SeIncreaseQuotaPrivilege":        "Adjust memory quotas for a process",
		"SeLoadDriverPrivilege":           "Load and unload device drivers",
		"SeManageVolumePrivilege":         "Perform volume maintenance tasks",
		"SeProfileSingleProcessPrivilege": "Profile single process",
		"SeRemoteShutdownPrivilege":       "Force shutdown from a remote system",
		"SeRestorePrivilege":              "Restore files and directories",
		"SeSecurityPrivilege":             "Manage auditing and security log",
		"SeShutdownPrivilege":             "Shut down the system",
		"SeSystemEnvironmentPrivilege":    "Modify firmware environment values",
		"SeSystemProfilePrivilege":        "Profile system performance",
		"SeSystemtimePrivilege":           "Change the system time",
		"SeTakeOwnershipPrivilege":        "Take ownership of files or other objects",
		"SeUndockPrivilege":               "Remove computer from docking station",
	}[name]
}
