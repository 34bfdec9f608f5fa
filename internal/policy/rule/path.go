// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"fmt"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
)

func pathRules() []Rule {
	return []Rule{{
		Code:     "WIN233",
		Title:    "a character that paths of Windows cannot have",
		Severity: policy.Error,
		Field:    "containers[*].volumeMounts[*].mountPath, command, args, workingDir",
		Why: "File names cannot contain < > : \" | ? * or control characters. Within double quotes, YAML reads " +
			`\t, \r, \n, \a and others as control characters: "C:\temp" is C:, a tab, and emp.`,
		Fix:     `write the path without quotes or within single quotes ('C:\temp'), or with \\`,
		Sources: []string{"https://learn.microsoft.com/windows/win32/fileio/naming-a-file", "YAML 1.2.2, 5.7"},
		Proof:   provenOnCluster,
		pod:     eachContainer(checkPaths),
	}}
}

// checkPaths reports the paths of a container.
func checkPaths(p *policy.Pod, c policy.Container, r reporter) {
	for _, m := range c.Find("volumeMounts").Items() {
		at := m.Get("mountPath")
		if bad := oddInPath(at.Str()); bad == ":" {
			r.at(at, "container %s: the path %q has a colon after the drive", c.Name, at.Str())
		} else if bad != "" {
			r.as(policy.Warning, at, "container %s: the path %q has %s in it", c.Name, at.Str(), bad)
		}
	}
	at := c.Get("workingDir")
	dir := at.Str()
	if p.IsHostProcess(c) { // hcsshim internal/jobcontainers: path.go, replaceWithMountPoint
		dir = strings.TrimPrefix(dir, "$env:CONTAINER_SANDBOX_MOUNT_POINT")
	}
	if odd := oddInPath(dir); odd != "" {
		r.as(policy.Warning, at, "container %s: the path %q has %s in it", c.Name, at.Str(), odd)
	}
	for _, list := range []string{"command", "args"} {
		for i, at := range c.Get(list).Items() {
			if !drivePath(at.Str()) || !strings.ContainsFunc(at.Str(), control) {
				continue
			}
			severity := policy.Warning
			if list == "command" && i == 0 {
				severity = policy.Error // the program
			}
			r.as(severity, at, "container %s: %q has %s in it", c.Name, at.Str(), oddInPath(at.Str()))
		}
	}
}

// drivePath reports whether a text begins with a drive, followed by any text.
func drivePath(s string) bool {
	return len(s) >= 2 && s[1] == ':' && ('a' <= s[0]|0x20 && s[0]|0x20 <= 'z')
}

func control(r rune) bool { return r < ' ' }

// oddInPath names the part of a path that Windows does not allow, or returns "". It
// does not handle named pipes.
func oddInPath(s string) string {
	if pipe(s) {
		return ""
	}
	if drivePath(s) {
		s = s[2:]
	}
	for _, c := range s {
		switch {
		case control(c):
			return fmt.Sprintf("the control character %q", c)
		case strings.ContainsRune(`<>"|?*`, c):
			return fmt.Sprintf("the character %c", c)
		case c == ':':
			return ":"
		}
	}
	return ""
}
