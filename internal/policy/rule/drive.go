// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

func driveRules() []Rule {
	return []Rule{
		{
			Code:     "WIN234",
			Title:    "a path that is not on drive C",
			Severity: policy.Warning,
			Field:    "containers[*].volumeMounts[*].mountPath, workingDir, volumes[*].hostPath",
			Why: "A container has only drive C and no network shares: mounts and programs in other places fail. A " +
				"hostPath on another drive needs a node with that drive.",
			Fix:     `use a path on drive C, such as C:\data`,
			Sources: []string{srcPersistentStorage, srcContainerdSpec},
			pod:     checkDrives,
		},
		{
			Code:     "WIN235",
			Title:    "a volume over Windows' own files",
			Severity: policy.Error,
			Field:    "containers[*].volumeMounts[*].mountPath",
			Why: `The volume hides C:\Windows or C:\Windows\System32 of the image, with cmd.exe and the loader of ` +
				"all programs: the container does not start.",
			Fix:     `mount below C:\ in a folder of the application`,
			Sources: []string{srcPersistentStorage},
			Proof:   provenOnCluster,
			pod:     eachMount(checkMountOverWindows),
		},
	}
}

func checkDrives(p *policy.Pod, r reporter) {
	if !p.Windows() {
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

// elsewhere returns the location of a path that is not on drive C: on another
// drive, or on a network share.
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

func checkMountOverWindows(p *policy.Pod, c policy.Container, m tree.Value, r reporter) {
	at := m.Get("mountPath")
	s := lowerSlashed(at.Str())
	s = path.Clean("/" + strings.TrimPrefix(s, "c:"))
	if slices.Contains([]string{"/windows", "/windows/system32"}, s) && !p.HostProcess {
		r.at(at, "container %s: the volume at %s hides Windows' own files", c.Name, at.Str())
	}
}
