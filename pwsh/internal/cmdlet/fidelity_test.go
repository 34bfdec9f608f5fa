// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/pwsh/internal/dotnet"
	"github.com/mullion-k8s/mullion/pwsh/internal/golden"
)

const begin = "<!-- generated from the tables of pwsh/ by `make gen` -->\n"

// lists writes the generated part of the page.
func lists() string {
	var b strings.Builder
	b.WriteString(begin + "\n## Cmdlets\n\n")
	all := table()
	sort.Slice(all, func(i, j int) bool { return lower(all[i].Name) < lower(all[j].Name) })
	fmt.Fprintf(&b, "%d cmdlets. All other parameters are refused. Parameters in italics have no effect.\n\n"+
		"| cmdlet | aliases | parameters | differs |\n|---|---|---|---|\n", len(all))
	for _, c := range all {
		var params []string
		for w := range strings.FieldsSeq(c.Params) {
			name, _, _ := strings.Cut(w, "|")
			if i := strings.IndexAny(name, "?:[@!<.*=~"); i >= 0 {
				name = name[:i]
			}
			if strings.HasSuffix(w, "~") {
				continue // refused by name
			}
			if strings.HasSuffix(w, "=") {
				name = "*" + name + "*"
			}
			params = append(params, name)
		}
		aliases := ""
		if len(c.Aliases) > 0 {
			aliases = "`" + strings.Join(c.Aliases, "` `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Name, aliases, strings.Join(params, " "), c.Fidelity)
	}
	classes := dotnet.Table()
	sort.Slice(classes, func(i, j int) bool { return classes[i].Name < classes[j].Name })
	fmt.Fprintf(&b, "\n## .NET types\n\n%d types. `Get-Member` lists the members of a value, and\n"+
		"`[TYPE] | Get-Member -Static` the static ones. All other members are refused.\n\n", len(classes))
	for i, k := range classes {
		if i > 0 {
			b.WriteString(",\n")
		}
		name, _, _ := strings.Cut(k.Name, "`") // List`1 is generic
		b.WriteString("`" + name + "`")
	}
	b.WriteString(".\n")
	return b.String()
}

// TestFidelityPage checks that the lists of docs/fidelity/pwsh.md agree with the
// tables. The page is the repository's, so that it stands beside those of the
// other emulated parts.
func TestFidelityPage(t *testing.T) {
	golden.Tail(t, "../../../docs/fidelity/pwsh.md", begin, lists())
}

// TestTable checks the table itself: names and aliases are unique, and every
// cmdlet does something.
func TestTable(t *testing.T) {
	seen := map[string]string{}
	for _, c := range table() {
		if c.Begin == nil && c.Process == nil && c.End == nil {
			t.Errorf("%s does nothing", c.Name)
		}
		for _, n := range append([]string{c.Name}, c.Aliases...) {
			if other, dup := seen[lower(n)]; dup {
				t.Errorf("%s is the name of %s and of %s", n, other, c.Name)
			}
			seen[lower(n)] = c.Name
		}
	}
}
