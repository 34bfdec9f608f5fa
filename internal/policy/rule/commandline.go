// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

const srcCmd = "https://learn.microsoft.com/windows-server/administration/windows-commands/cmd"

func commandLineRules() []Rule {
	return []Rule{
		{
			Code:     "WIN238",
			Title:    "a command line that ends at once on Windows",
			Severity: policy.Warning,
			Field:    "containers[*].command",
			Why: "timeout.exe reads keys: without a console it prints \"Input redirection is not supported\" and " +
				"exits with 1 at once. Options of cmd.exe begin with a slash: with -c it ignores the command.",
			Fix: "wait with ping -n 6 127.0.0.1 or powershell Start-Sleep 5; write cmd /c",
			Sources: []string{
				"https://learn.microsoft.com/windows-server/administration/windows-commands/timeout",
				srcCmd,
			},
			pod: eachContainer(checkCommandLines),
		},
		{
			Code:     "WIN342",
			Title:    "a variable in the syntax of a Linux shell",
			Severity: policy.Warning,
			Field:    "containers[*].command",
			Why: "cmd.exe expands %NAME% and leaves $NAME and ${NAME} as they are. In command and args, Kubernetes " +
				"itself expands $(NAME).",
			Fix:     "write %NAME%",
			Sources: []string{srcCmd},
			pod:     eachContainer(checkShellVariables),
		},
	}
}

func checkCommandLines(_ *policy.Pod, c policy.Container, r reporter) {
	for _, line := range commandLines(c) {
		checkCommandLine(c, line.items, line.main && c.Find("tty").True(), r)
	}
}

func checkCommandLine(c policy.Container, items []tree.Value, console bool, r reporter) {
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

// shellPatterns find $env:NAME, $NAME and ${NAME}, but not within a word, and programs
// that expand them, or to which a dollar sign means something else.
var shellPatterns = sync.OnceValue(func() (p struct{ variable, others *regexp.Regexp }) {
	p.variable = regexp.MustCompile(`(?i)(?:^|[^\w$\\^])\$(?:env:([a-z_]\w*)|([a-z_]\w*)|\{([a-z_]\w*)\})`)
	p.others = regexp.MustCompile(`(?i)\b(powershell|pwsh|bash|sh|perl|ruby|node|python\d?|php|make|prompt|findstr|` +
		`sed|awk)\b`)
	return p
})

func checkShellVariables(_ *policy.Pod, c policy.Container, r reporter) {
	for _, line := range commandLines(c) {
		if programName(lowerSlashed(line.items[0].Str())) != "cmd" {
			continue
		}
		other := func(v tree.Value) bool { return shellPatterns().others.MatchString(v.Str()) }
		if slices.ContainsFunc(line.items, other) {
			continue
		}
		for _, v := range line.items[1:] {
			if name, text := shellVariable(c, v.Str()); name != "" {
				r.at(v, "container %s: cmd does not expand %s", c.Name, text).Fix = "write %" + name + "%"
				break
			}
		}
	}
}

// shellVariable finds a variable of the environment in the syntax of a shell of
// Linux. Programs that fill templates in, such as Flux, use the same syntax, mostly
// with braces: they replace names that the container does not set.
func shellVariable(c policy.Container, command string) (name, text string) {
	usual := []string{"HOME", "HOSTNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"}
	for _, m := range shellPatterns().variable.FindAllStringSubmatch(command, -1) {
		ofPowerShell, plain, braced := m[1], m[2], m[3]
		name := ofPowerShell + plain + braced
		set := func(e tree.Value) bool { return strings.EqualFold(e.Find("name").Str(), name) }
		ours := slices.ContainsFunc(c.Find("env").Items(), set) || slices.Contains(usual, name)
		switch {
		case ofPowerShell != "":
			return name, "$env:" + name
		case plain != "" && (ours || plain == strings.ToUpper(plain)):
			return name, "$" + name
		case braced != "" && (ours || c.Find("envFrom").Len() > 0):
			return name, "${" + name + "}"
		}
	}
	return "", ""
}
