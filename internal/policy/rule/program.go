// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"path"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// checkPrograms checks the program of each command line of a container.
func checkPrograms(p *policy.Pod, c policy.Container, r reporter) {
	host := p.IsHostProcess(c)
	// A volume may bring a program to any place.
	certain := policy.BaseImage(c.Image) && c.Find("volumeMounts").Len() == 0
	for _, line := range commandLines(c) {
		checkProgram(c, line.items, certain && !line.later, host, r)
	}
}

// commandLine is a program that a container starts, with its arguments.
type commandLine struct {
	items []tree.Value
	main  bool // the container's main program
	later bool // a hook or a probe, without which the container starts, too
}

// commandLines returns all that a container starts, as far as the object names it.
func commandLines(c policy.Container) []commandLine {
	args := c.Find("args").Items()
	start := slices.Concat(c.Find("command").Items(), args)
	// The base images have no entry point, nor do images that are given a shell.
	if !c.Find("command").Set() && !policy.BaseImage(c.Image) && (len(args) == 0 || !interpreter(args[0].Str())) {
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

// checkProgram checks the program of a command line. It is an error only if the
// container certainly does not start.
func checkProgram(c policy.Container, items []tree.Value, certain, host bool, r reporter) {
	severity := policy.Warning
	if certain {
		severity = policy.Error
	}
	at := items[0]
	name := at.Str()
	if words := strings.Fields(name); len(words) > 1 && interpreter(words[0]) {
		r.as(policy.Warning, at, "container %s: Windows looks for a program with the whole name %q", c.Name, name).
			Fix = "write each argument as a separate item: [" + strings.Join(words[:2], ", ") + ", …]"
		return
	}
	if i, inner := ranByCmd(items); inner != "" { // cmd itself starts
		severity, at, name = policy.Warning, items[i], inner
	}
	program := lowerSlashed(name)
	base := policy.BaseImage(c.Image)
	switch {
	case linuxPath(program), linuxShell(program) && !strings.Contains(c.Image, "busybox"), base && linuxTool(program):
		r.as(severity, at, "container %s: %s is not part of Windows images", c.Name, name)
	case !host && lacks(c.Image, program):
		r.as(severity, at, "container %s: the image %s does not have %s", c.Name, c.Image, name)
	case !host && nanoServer(c.Image) && slices.Contains([]string{"cscript", "msiexec", "wmic", "wscript"},
		programName(program)):
		r.as(policy.Warning, at, "container %s: Nano Server, which %s is, does not have %s", c.Name, c.Image, name)
	}
}

// interpreter reports whether a program is a shell of Windows.
func interpreter(program string) bool {
	return slices.Contains([]string{"cmd", "powershell", "pwsh"}, programName(lowerSlashed(program)))
}

// ranByCmd returns the program that a command line has cmd.exe run, and the item that
// names it, or "" if there is no such program.
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
	return name == "pwsh" && policy.BaseImage(image) ||
		nanoServer(image) && (name == "powershell" || strings.Contains(program, "/microsoft.net/framework"))
}

func nanoServer(image string) bool { return strings.Contains(strings.ToLower(image), "nanoserver") }
