// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// checkPrograms looks at the program of everything that a container starts.
func checkPrograms(p *pod, c container, r reporter) {
	host := p.hostProcess(c)
	// A volume may bring a program to any place.
	certain := baseImage(c.Image) && c.Find("volumeMounts").Len() == 0
	for _, line := range c.commandLines() {
		checkProgram(c, line.items, certain && !line.later, host, r)
	}
}

// commandLine is a program that a container starts, with its arguments.
type commandLine struct {
	items []tree.Value
	main  bool // what the container is there for
	later bool // a hook or a probe, without which the container starts, too
}

// commandLines returns all that a container starts, as far as the object names it.
func (c container) commandLines() []commandLine {
	args := c.Find("args").Items()
	start := slices.Concat(c.Find("command").Items(), args)
	// The base images have no entry point, nor have those that are given a shell.
	if !c.Find("command").Set() && !baseImage(c.Image) && (len(args) == 0 || !interpreter(args[0].Str())) {
		start = nil
	}
	out := []commandLine{
		{items: start, main: true},
		{items: c.Find("lifecycle", "postStart", "exec", "command").Items()},
		{items: c.Find("lifecycle", "preStop", "exec", "command").Items(), later: true},
		{items: c.Find("livenessProbe", "exec", "command").Items(), later: true},
		{items: c.Find("readinessProbe", "exec", "command").Items(), later: true},
		{items: c.Find("startupProbe", "exec", "command").Items(), later: true},
	}
	return slices.DeleteFunc(out, func(l commandLine) bool { return len(l.items) == 0 })
}

// checkProgram looks at the program of a command line. It is an error only if
// the container certainly does not start.
func checkProgram(c container, items []tree.Value, certain, host bool, r reporter) {
	severity := Warning
	if certain {
		severity = Error
	}
	at := items[0]
	name := at.Str()
	if words := strings.Fields(name); len(words) > 1 && interpreter(words[0]) {
		r.as(Warning, at, "container %s: Windows looks for a program that is named %q as a whole", c.Name, name).
			Fix = "write each argument as an item of its own: [" + strings.Join(words[:2], ", ") + ", …]"
		return
	}
	if i, inner := ranByCmd(items); inner != "" { // cmd itself starts
		severity, at, name = Warning, items[i], inner
	}
	program := lowerSlashed(name)
	base := baseImage(c.Image)
	switch {
	case linuxPath(program), linuxShell(program) && !strings.Contains(c.Image, "busybox"), base && linuxTool(program):
		r.as(severity, at, "container %s: %s is not part of Windows images", c.Name, name)
	case !host && lacks(c.Image, program):
		r.as(severity, at, "container %s: the image %s does not have %s", c.Name, c.Image, name)
	case !host && nanoServer(c.Image) && slices.Contains([]string{"cscript", "msiexec", "wmic", "wscript"},
		programName(program)):
		r.as(Warning, at, "container %s: Nano Server, which %s is, does not have %s", c.Name, c.Image, name)
	}
}

// interpreter reports whether a program is a shell of Windows.
func interpreter(program string) bool {
	return slices.Contains([]string{"cmd", "powershell", "pwsh"}, programName(lowerSlashed(program)))
}

// ranByCmd returns the program that a command line has cmd.exe run, and the item that
// names it; "" if there is none.
func ranByCmd(items []tree.Value) (item int, program string) {
	if programName(lowerSlashed(items[0].Str())) != "cmd" {
		return 0, ""
	}
	for i, v := range items[1:] {
		option := strings.ToLower(v.Str())
		if !strings.HasPrefix(option, "/") {
			return 0, ""
		}
		if (option == "/c" || option == "/k") && i+2 < len(items) {
			words := strings.FieldsFunc(items[i+2].Str(), func(r rune) bool {
				return strings.ContainsRune(" \"@&|<>()", r)
			})
			if len(words) == 0 {
				return 0, ""
			}
			return i + 2, words[0]
		}
	}
	return 0, ""
}

// lowerSlashed returns a path of Windows in lower case and with slashes, for comparisons.
func lowerSlashed(s string) string { return strings.ToLower(strings.ReplaceAll(s, `\`, "/")) }

// programName returns the name of a program without its folder and .exe.
func programName(program string) string { return strings.TrimSuffix(path.Base(program), ".exe") }

// linuxPath reports whether a program is named by a path that only a Linux
// system has.
func linuxPath(program string) bool {
	return slices.ContainsFunc([]string{"/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/"},
		func(dir string) bool { return strings.HasPrefix(program, dir) })
}

func linuxShell(program string) bool {
	return slices.Contains([]string{"sh", "bash", "ash", "dash"}, program)
}

// linuxTool reports whether a program is an everyday tool of Linux that Windows
// does not have under that name.
func linuxTool(program string) bool {
	return slices.Contains([]string{
		"apk", "apt-get", "awk", "cat", "chmod", "chown", "cp", "dumb-init", "env", "false", "grep", "head",
		"kill", "ls", "mv", "nc", "pgrep", "rm", "sed", "sleep", "tail", "test", "tini", "touch", "true", "wget",
	}, program)
}

// lacks reports whether an image does not have a program, by the base image that
// its name reveals. Server Core has Windows PowerShell and the .NET Framework,
// Nano Server neither; PowerShell 7 comes with no base image.
func lacks(image, program string) bool {
	name := programName(program)
	if baseImage(image) && name == "pwsh" {
		return true
	}
	return nanoServer(image) && (name == "powershell" || strings.Contains(program, "/microsoft.net/framework"))
}

func nanoServer(image string) bool { return strings.Contains(strings.ToLower(image), "nanoserver") }
