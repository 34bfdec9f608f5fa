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
	starts := [][]string{{"command"}, {"lifecycle", "postStart", "exec", "command"}}
	base := baseImage(c.Image)
	if !c.Find("command").Set() && base { // the base images have no entry point
		starts = append(starts, []string{"args"})
	}
	host := p.hostProcess(c)
	// A volume may bring a program to any place.
	certain := base && c.Find("volumeMounts").Len() == 0
	for _, path := range starts {
		checkProgram(c, c.Find(path...), certain, host, r)
	}
	for _, path := range [][]string{
		{"lifecycle", "preStop", "exec", "command"},
		{"livenessProbe", "exec", "command"},
		{"readinessProbe", "exec", "command"},
		{"startupProbe", "exec", "command"},
	} {
		checkProgram(c, c.Find(path...), false, host, r)
	}
}

// checkProgram looks at the program of a command line. It is an error only if
// the container certainly does not start.
func checkProgram(c container, argv tree.Value, certain, host bool, r reporter) {
	items := argv.Items()
	if len(items) == 0 {
		return
	}
	severity := Warning
	if certain {
		severity = Error
	}
	at := items[0]
	program := strings.ToLower(strings.ReplaceAll(at.Str(), `\`, "/"))
	base := baseImage(c.Image)
	switch {
	case linuxPath(program), linuxShell(program) && !strings.Contains(c.Image, "busybox"), base && linuxTool(program):
		r.as(severity, at, "container %s: %s is not part of Windows images", c.Name, at.Str())
	case !host && lacks(c.Image, program):
		r.as(severity, at, "container %s: the image %s does not have %s", c.Name, c.Image, at.Str())
	}
}

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
	name := strings.TrimSuffix(path.Base(program), ".exe")
	if baseImage(image) && name == "pwsh" {
		return true
	}
	return strings.Contains(strings.ToLower(image), "nanoserver") &&
		(name == "powershell" || strings.Contains(program, "/microsoft.net/framework"))
}
