// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package standin

import (
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// entry is one repository that has a stand-in.
type entry struct {
	repo   string
	flavor string

	// builds lists tags with a fixed build that the tag itself doesn't contain.
	builds map[string]int
	// fromTag accepts tags that name a build (see winver.FromTag); prefix must
	// come before the name of the build.
	fromTag bool
	prefix  string
	// since and until bound the builds of fromTag and anyBuild, inclusive; zero is
	// no bound.
	since, until int
	// anyBuild accepts these tags, and "*" any, for whatever build the host
	// has: the originals are indexes with a manifest for each build, or are gone
	// (see hub).
	anyBuild []string

	// preload are the tags that Install records. "{all}" stands for the tags of
	// every build that the host runs.
	preload []string
}

// Microsoft's repositories. The docker.io names came first; their tags were
// frozen when the images moved to mcr.microsoft.com in 2018/2019, and have since
// been removed. While they existed, latest was Windows Server 2016. Guides still
// name it although the original is not available; here it follows the host, so
// that the guides work on today's hosts.
const (
	mcr = "mcr.microsoft.com/"
	hub = "docker.io/microsoft/"
)

// catalogue lists all names, in the order in which they are looked up. Which
// tags existed: the repositories' tag lists on mcr.microsoft.com and Docker
// Hub, by way of Microsoft's announcements and the guides that name them.
func catalogue() []entry {
	list := []entry{
		{repo: mcr + "windows/servercore", flavor: "servercore", fromTag: true, preload: []string{"{all}"}},
		{repo: mcr + "windows/server", flavor: "servercore", fromTag: true},
		{repo: mcr + "windows", flavor: "servercore", fromTag: true},
		{repo: hub + "windowsservercore", flavor: "servercore", fromTag: true, until: 17763,
			preload: []string{"{all}"}},
		{repo: hub + "windowsservercore", flavor: "servercore", anyBuild: []string{"latest"},
			preload: []string{"latest"}},

		{repo: mcr + "windows/nanoserver", flavor: "nanoserver2016", builds: map[string]int{"sac2016": 14393},
			preload: []string{"sac2016"}},
		{repo: mcr + "windows/nanoserver", flavor: "nanoserver", fromTag: true, since: 16299,
			preload: []string{"{all}"}},
		{repo: hub + "nanoserver", flavor: "nanoserver2016",
			builds: map[string]int{"sac2016": 14393, "10.0.14393": 14393}, anyBuild: []string{"latest"}, until: 14393,
			preload: []string{"latest", "sac2016"}},
		{repo: hub + "nanoserver", flavor: "nanoserver", fromTag: true, since: 16299, until: 17763,
			preload: []string{"{all}"}},
		{repo: hub + "nanoserver", flavor: "nanoserver", anyBuild: []string{"latest"}, since: 16299,
			preload: []string{"latest"}},

		{repo: mcr + "windows/servercore/iis", flavor: "iis", fromTag: true, anyBuild: []string{"latest"},
			preload: []string{"latest", "windowsservercore-{all}"}},
		{repo: hub + "iis", flavor: "iis", fromTag: true, until: 17763, preload: []string{"windowsservercore-{all}"}},
		{repo: hub + "iis", flavor: "iis", anyBuild: []string{"latest", "windowsservercore"},
			preload: []string{"latest", "windowsservercore"}},

		{repo: mcr + "powershell", flavor: "powershell", fromTag: true, since: 17134, prefix: "nanoserver-",
			preload: []string{"lts-nanoserver-{all}"}},
		{repo: mcr + "powershell", flavor: "servercore", fromTag: true, prefix: "windowsservercore-"},

		{repo: mcr + "oss/kubernetes/windows-host-process-containers-base-image", flavor: "hostprocess",
			anyBuild: []string{"*"}, preload: []string{"v1.0.0"}},

		{repo: "docker.io/library/redis", flavor: "redis", builds: map[string]int{"3.0-nanoserver": 14393},
			preload: []string{"3.0-nanoserver"}},
	}
	for _, repo := range []string{"registry.k8s.io/pause", "k8s.gcr.io/pause", mcr + "oss/kubernetes/pause",
		mcr + "oss/v2/kubernetes/pause"} {
		list = append(list, entry{repo: repo, flavor: "pause", anyBuild: []string{"*"}})
	}
	// The kubeadm default of this Kubernetes, which nodes have pulled at the start.
	list[len(list)-4].preload = []string{"3.10.2"}
	return list
}

// build returns the build of the image that a reference names.
func (e entry) build(ref image.Reference, host winver.Build) (winver.Build, bool) {
	if ref.Digest != "" {
		return winver.Build{}, false // it names the original's content
	}
	if n, ok := e.builds[ref.Tag]; ok {
		return winver.Find(n)
	}
	if slices.Contains(e.anyBuild, "*") || slices.Contains(e.anyBuild, ref.Tag) {
		b := imageBuild(host)
		return b, e.bounds(b)
	}
	if !e.fromTag {
		return winver.Build{}, false
	}
	b, ok := winver.FromTag(ref.Name + ":" + ref.Tag)
	if !ok || !e.bounds(b) {
		return winver.Build{}, false
	}
	return b, strings.Contains(ref.Tag, e.prefix)
}

// bounds reports whether b is within since and until.
func (e entry) bounds(b winver.Build) bool {
	return b.Number >= e.since && (e.until == 0 || b.Number <= e.until)
}

// imageBuild returns the build of images that suit a host best: its own or, if
// Microsoft makes no images of it, the newest that it runs.
func imageBuild(host winver.Build) winver.Build {
	best := host
	for _, b := range winver.All() {
		if !b.HostOnly && winver.Compatible(host, b) {
			best = b
		}
	}
	return best
}

// tags expands the placeholders of a preloaded tag.
func (e entry) tags(tag string, host winver.Build) []string {
	prefix, ok := strings.CutSuffix(tag, "{all}")
	if !ok {
		return []string{tag}
	}
	var out []string
	for _, b := range winver.All() {
		if !winver.Compatible(host, b) {
			continue
		}
		for _, t := range b.Tags {
			out = append(out, prefix+t)
		}
	}
	return out
}
