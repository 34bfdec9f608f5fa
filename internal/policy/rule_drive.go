// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

func driveRules() []Rule {
	return []Rule{
		{
			Code:     "WIN234",
			Title:    "a path that is not on drive C",
			Severity: Warning,
			Field:    "containers[*].volumeMounts[*].mountPath, workingDir, volumes[*].hostPath",
			Why: "A container has drive C and no other, and no share of the network: what is mounted elsewhere, or " +
				"starts there, fails. A hostPath on another drive needs a node that has it.",
			Fix:     `use a path on drive C, such as C:\data`,
			Sources: []string{srcPersistentStorage, srcContainerdSpec},
			pod:     checkDrives,
		},
		{
			Code:     "WIN235",
			Title:    "a volume over Windows' own files",
			Severity: Error,
			Field:    "containers[*].volumeMounts[*].mountPath",
			Why: `The volume hides C:\Windows or C:\Windows\System32 of the image, cmd.exe and the loader of all ` +
				"programs among it: the container does not start.",
			Fix:     `mount below C:\ in a folder of the application's own`,
			Sources: []string{srcPersistentStorage},
			Proof:   provenOnCluster,
			pod:     eachMount(checkMountOverWindows),
		},
	}
}

func checkDrives(p *pod, r reporter) {
	if !p.windows() {
		return
	}
	for _, v := range p.Spec.Find("volumes").Items() {
		if at := v.Find("hostPath", "path"); elsewhere(at) == "drive" {
			r.at(at, "hostPath %s: nodes need a drive %s", at.Str(), strings.ToUpper(at.Str()[:2]))
		}
	}
	if p.HostProcess {
		return // it sees the host's drives
	}
	for _, c := range p.Containers {
		places := []tree.Value{c.Find("workingDir"), c.Find("terminationMessagePath")}
		for _, m := range c.Find("volumeMounts").Items() {
			places = append(places, m.Find("mountPath"))
		}
		for _, at := range places {
			if what := elsewhere(at); what != "" {
				r.at(at, "container %s: %s %s is %s", c.Name, at.Key(), at.Str(), map[string]string{
					"drive": fmt.Sprintf("on drive %s, which containers do not have", strings.ToUpper(at.Str()[:2])),
					"share": "on a share, and not on drive C",
				}[what])
			}
		}
	}
}

// elsewhere says where a path is that is not on drive C: on another drive, or on a
// share of the network.
func elsewhere(at tree.Value) string {
	s := at.Str()
	switch {
	case drivePath(s) && s[0]|0x20 != 'c':
		return "drive"
	case strings.HasPrefix(s, `\\`) && !pipe(s) && !strings.HasPrefix(s, `\\.\`) && !strings.HasPrefix(s, `\\?\`):
		return "share"
	}
	return ""
}

func checkMountOverWindows(p *pod, c container, m tree.Value, r reporter) {
	at := m.Get("mountPath")
	s := lowerSlashed(at.Str())
	s = path.Clean("/" + strings.TrimPrefix(s, "c:"))
	if slices.Contains([]string{"/windows", "/windows/system32"}, s) && !p.HostProcess {
		r.at(at, "container %s: the volume at %s hides Windows' own files", c.Name, at.Str())
	}
}
