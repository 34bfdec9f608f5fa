// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"slices"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

func commandLineRules() []Rule {
	return []Rule{{
		Code:     "WIN238",
		Title:    "a command line that ends at once on Windows",
		Severity: Warning,
		Field:    "containers[*].command",
		Why: "timeout.exe wants to read keys: without a console it prints \"Input redirection is not supported\" " +
			"and ends with 1 at once. Options of cmd.exe begin with a slash: with -c it ignores the command.",
		Fix: "wait with ping -n 6 127.0.0.1 or powershell Start-Sleep 5; write cmd /c",
		Sources: []string{
			"https://learn.microsoft.com/windows-server/administration/windows-commands/timeout",
			"https://learn.microsoft.com/windows-server/administration/windows-commands/cmd",
		},
		pod: eachContainer(checkCommandLines),
	}}
}

func checkCommandLines(_ *pod, c container, r reporter) {
	for _, path := range slices.Concat(startCommands(), laterCommands()) {
		console := path[0] == "command" && c.Find("tty").True()
		checkCommandLine(c, c.Find(path...).Items(), console, r)
	}
}

func checkCommandLine(c container, items []tree.Value, console bool, r reporter) {
	if len(items) == 0 {
		return
	}
	at, program := items[0], items[0].Str()
	if i, inner := ranByCmd(items); inner != "" {
		at, program = items[i], inner
	}
	switch name := programName(lowerSlashed(program)); {
	case name == "timeout" && !console:
		r.at(at, "container %s: timeout does not wait without a console", c.Name).
			Fix = "wait with ping -n 6 127.0.0.1, or with powershell Start-Sleep 5"
	case name == "cmd" && len(items) > 1 && (items[1].Str() == "-c" || items[1].Str() == "-k"):
		r.at(items[1], "container %s: cmd has no option %s: it ignores the command", c.Name, items[1].Str()).
			Fix = "write /" + items[1].Str()[1:]
	}
}
