// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// tasklist lists processes: /fo table|csv|list, /nh, and /fi "imagename eq x"
// or "pid eq n".
func tasklist(ctx context.Context, env *Env) int {
	format, header, filters := "table", true, []func(host.ProcessInfo) bool(nil)
	for i := 0; i < len(env.Args); i++ {
		o := strings.ToLower(strings.TrimLeft(env.Args[i], "/-"))
		value := ""
		if o == "fo" || o == "fi" {
			i++
			if i >= len(env.Args) {
				env.errorf("ERROR: Invalid syntax. Value expected for '%s'.\nType \"TASKLIST /?\" for usage.\n",
					env.Args[i-1])
				return 1
			}
			value = env.Args[i]
		}
		switch o {
		case "fo":
			format = strings.ToLower(value)
		case "nh":
			header = false
		case "fi":
			f, ok := taskFilter(value)
			if !ok {
				env.errorf("ERROR: The search filter cannot be recognized.\n")
				return 1
			}
			filters = append(filters, f)
		default:
			env.errorf("ERROR: Invalid argument/option - '%s'.\nType \"TASKLIST /?\" for usage.\n", env.Args[i])
			return 1
		}
	}
	all, err := env.Host.System.Processes(ctx)
	if err != nil {
		env.errorf("ERROR: %v\n", err)
		return 1
	}
	var shown []host.ProcessInfo
	for _, p := range all {
		ok := true
		for _, f := range filters {
			ok = ok && f(p)
		}
		if ok {
			shown = append(shown, p)
		}
	}
	if len(shown) == 0 {
		env.printf("INFO: No tasks are running which match the specified criteria.\n")
		return 0
	}
	env.printf("%s", taskTable(shown, format, header))
	return 0
}

func taskFilter(s string) (func(host.ProcessInfo) bool, bool) {
	f := strings.Fields(s)
	if len(f) != 3 {
		return nil, false
	}
	want := strings.Trim(f[2], `"`)
	equal := strings.EqualFold(f[1], "eq")
	if !equal && !strings.EqualFold(f[1], "ne") {
		return nil, false
	}
	switch strings.ToLower(f[0]) {
	case "imagename":
		return func(p host.ProcessInfo) bool {
			match := strings.EqualFold(p.File, want)
			if head, ok := strings.CutSuffix(want, "*"); ok {
				match = len(p.File) >= len(head) && strings.EqualFold(p.File[:len(head)], head)
			}
			return match == equal
		}, true
	case "pid":
		n, err := strconv.Atoi(want)
		return func(p host.ProcessInfo) bool { return (p.ID == n) == equal }, err == nil
	}
	return nil, false
}

func taskTable(list []host.ProcessInfo, format string, header bool) string {
	var b strings.Builder
	switch format {
	case "csv":
		if header {
			b.WriteString(`"Image Name","PID","Session Name","Session#","Mem Usage"` + "\n")
		}
		for _, p := range list {
			fmt.Fprintf(&b, "%q,\"%d\",\"Services\",\"%d\",%q\n", p.File, p.ID, 0, kilobytes(p.WorkingSet))
		}
	case "list":
		for _, p := range list {
			fmt.Fprintf(&b, "\nImage Name:   %s\nPID:          %d\nSession Name: Services\nSession#:     %d\n"+
				"Mem Usage:    %s\n", p.File, p.ID, 0, kilobytes(p.WorkingSet))
		}
	default:
		if header {
			b.WriteString("\nImage Name                     PID Session Name        Session#    Mem Usage\n" +
				"========================= ======== ================ =========== ============\n")
		}
		for _, p := range list {
			fmt.Fprintf(&b, "%-25.25s %8d %-16s %11d %12s\n", p.File, p.ID, "Services", 0, kilobytes(p.WorkingSet))
		}
	}
	return b.String()
}

// kilobytes prints "12,345 K".
func kilobytes(bytes int64) string {
	s := strconv.FormatInt(bytes>>10, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s + " K"
}
