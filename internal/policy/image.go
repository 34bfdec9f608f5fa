// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// RegistryOS returns the operating system of an image if all its platforms
// share one.
func RegistryOS(i Image) (string, bool) {
	os := ""
	for _, p := range i.Platforms {
		if os != "" && p.OS != os {
			return "", false
		}
		os = p.OS
	}
	return os, os != ""
}

// WindowsImage reports whether an image is a Windows image by its name:
// Microsoft's base images, and derived ones that name their base in the tag.
func WindowsImage(ref string) bool {
	name := strings.ToLower(ref)
	name, _, _ = strings.Cut(name, "@")
	repo, tag := name, ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		repo, tag = name[:i], name[i+1:]
	}
	repo = strings.TrimPrefix(strings.TrimPrefix(repo, "docker.io/"), "index.docker.io/")
	if strings.HasPrefix(repo, "mcr.microsoft.com/windows") ||
		strings.HasPrefix(repo, "mcr.microsoft.com/dotnet/framework/") ||
		strings.Contains(repo, "windows-host-process-containers-base-image") {
		return true
	}
	if rest, ok := strings.CutPrefix(repo, "microsoft/"); ok {
		for _, n := range []string{"windowsservercore", "nanoserver", "windows", "iis", "aspnet", "dotnet-framework",
			"wcf", "mssql-server-windows"} {
			if strings.HasPrefix(rest, n) {
				return true
			}
		}
	}
	for _, word := range []string{"nanoserver", "servercore", "ltsc2016", "ltsc2019", "ltsc2022", "ltsc2025"} {
		if strings.Contains(tag, word) {
			return true
		}
	}
	// "1.0-windows", "windows-1809", "v2-windows-amd64", "1.2-windows2022"
	words := strings.FieldsFunc(tag, func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	return slices.ContainsFunc(words, func(w string) bool {
		return w == "windows" || strings.HasPrefix(w, "windows20") && len(w) == len("windows2022")
	})
}

// BaseImage reports whether an image is one of Microsoft's base images, whose
// contents are known, by its repository.
func BaseImage(ref string) bool {
	name, _, _ := strings.Cut(strings.ToLower(ref), "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	repo, ok := strings.CutPrefix(name, "mcr.microsoft.com/")
	return ok &&
		slices.Contains([]string{"windows", "windows/server", "windows/servercore", "windows/nanoserver"}, repo)
}

// imageBuild returns the build that the name of a Windows image reveals.
func imageBuild(ref string) (winver.Build, bool) {
	if !WindowsImage(ref) {
		return winver.Build{}, false
	}
	if b, ok := winver.FromTag(ref); ok {
		return b, true
	}
	// Microsoft left the Docker Hub when latest was still Windows Server 2016,
	// and has not moved it since.
	name := strings.TrimPrefix(strings.TrimPrefix(ref, "index."), "docker.io/")
	for _, repo := range []string{"microsoft/windowsservercore", "microsoft/nanoserver", "microsoft/iis"} {
		if tag, ok := strings.CutPrefix(name, repo); ok &&
			(tag == "" || tag == ":latest" || tag == ":windowsservercore") {
			return winver.Find(14393)
		}
	}
	return winver.Build{}, false
}

// WindowsPath matches C:\x, C:/x and \\.\pipe\x.
func WindowsPath(s string) bool {
	return len(s) >= 2 && s[1] == ':' && (s[0]|0x20) >= 'a' && (s[0]|0x20) <= 'z' &&
		(len(s) == 2 || s[2] == '\\' || s[2] == '/') || strings.HasPrefix(s, `\\.\pipe\`)
}

// windowsProgram finds fields that only a Windows container has: a Windows
// shell as the command, mounts below a drive.
func windowsProgram(c Container) tree.Value {
	command := c.Find("command").Items()
	if len(command) > 0 {
		switch name := strings.ToLower(command[0].Str()); {
		case WindowsPath(name), name == "powershell.exe", name == "powershell", name == "cmd.exe", name == "pwsh.exe",
			name == "cmd" && len(command) > 1 && strings.HasPrefix(command[1].Str(), "/"):
			return command[0]
		}
	}
	for _, m := range c.Find("volumeMounts").Items() {
		if at := m.Get("mountPath"); WindowsPath(at.Str()) {
			return at
		}
	}
	return tree.Value{}
}

// windowsContents finds hints at a Windows container: a Windows shell as the
// first argument, arguments that are paths with a drive.
func windowsContents(c Container) tree.Value {
	for _, list := range []string{"command", "args"} {
		for i, a := range c.Find(list).Items() {
			if WindowsPath(a.Str()) || i == 0 && windowsShell(a.Str()) {
				return a
			}
		}
	}
	return tree.Value{}
}

func windowsShell(s string) bool {
	switch strings.ToLower(s) {
	case "powershell.exe", "powershell", "cmd", "cmd.exe", "pwsh.exe":
		return true
	}
	return false
}

// Image is a registry's description of an image.
type Image struct {
	Index     bool // several platforms behind one name
	Platforms []Platform
	User      string // of the image's configuration
}

// Platform is one entry of an index, or the platform of a single image.
type Platform struct{ OS, Arch, OSVersion string }

// Plausible reports whether the strings of p, which come from outside, can
// describe a platform: short words, with a non-empty operating system.
// Platforms are stored, and shown to users.
func (p Platform) Plausible() bool {
	return p.OS != "" && plain(p.OS, 32) && plain(p.Arch, 32) && plain(p.OSVersion, 64)
}

// plain reports whether s has at most limit bytes and only characters that
// occur in names of platforms.
func plain(s string, limit int) bool {
	odd := func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune("._-+~", r)
	}
	return len(s) <= limit && !strings.ContainsFunc(s, odd)
}

// HasOS reports whether an image is for an operating system, by its registry.
func HasOS(i Image, os string) bool {
	return slices.ContainsFunc(i.Platforms, func(p Platform) bool { return p.OS == os })
}

// PulledByBuild reports whether only hosts of the build that an image's name
// reveals can use it. A HostProcess container runs on every host, but the pull
// chooses by build from an index, and the tags of Microsoft's base images are
// indexes.
func (p *Pod) PulledByBuild(c *Container) bool {
	return BaseImage(c.Image) || !p.HostProcess
}
