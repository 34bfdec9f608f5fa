// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package standin

import (
	"embed"
	"io/fs"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image"
)

//go:embed content
var content embed.FS

// flavor is one kind of stand-in: a directory of files, on top of others.
type flavor struct {
	name   string
	stack  []string // directories, lowest first; the last is its own, if it has one
	files  func(p Programs) map[string]file
	config v1.Config
}

// ownDir reports whether the flavor has its own files.
func (f flavor) ownDir() bool { return f.stack[len(f.stack)-1] == f.name }

// file is a hard link to a program, text, an empty directory or a whiteout.
type file struct {
	link     string
	text     []byte
	dir      bool
	whiteout bool
}

// Directories of Windows, in the spelling that Wine's prefix has on disk:
// overlayfs compares names byte by byte.
const (
	system32 = "windows/system32/"
	// windowsPowerShell is the path of Windows PowerShell 5.1, and of Wine's stub.
	windowsPowerShell = system32 + "WindowsPowerShell/v1.0/"
	// powerShell7 is where Microsoft's images have PowerShell 7.
	powerShell7 = "Program Files/PowerShell/"
)

const cmdExe = `c:\windows\system32\cmd.exe`

// flavors lists all kinds; a stack refers to earlier ones only.
func flavors() []flavor {
	return []flavor{
		{
			name: "servercore", stack: []string{"servercore"},
			files:  serverCoreFiles,
			config: v1.Config{Cmd: []string{cmdExe}},
		},
		{
			name: "nanoserver", stack: []string{"nanoserver"},
			files:  nanoServerFiles,
			config: v1.Config{Cmd: []string{cmdExe}, User: "ContainerUser"},
		},
		{
			// Nano Server of 2016 had a PowerShell and ran as administrator.
			name: "nanoserver2016", stack: []string{"nanoserver2016"},
			files:  serverCoreFiles,
			config: v1.Config{Cmd: []string{cmdExe}},
		},
		{
			name: "iis", stack: []string{"servercore", "iis"},
			files: iisFiles,
			config: v1.Config{
				Entrypoint:   []string{`C:\ServiceMonitor.exe`, "w3svc"},
				ExposedPorts: map[string]struct{}{"80/tcp": {}},
			},
		},
		{
			name: "powershell", stack: []string{"nanoserver", "powershell"},
			files: powerShellFiles,
			config: v1.Config{
				Cmd: []string{"pwsh.exe"}, User: "ContainerUser",
				Env: []string{`ProgramFiles=C:\Program Files`,
					`PATH=C:\Windows\system32;C:\Windows;C:\Program Files\PowerShell`},
			},
		},
		{
			name: "pause", stack: []string{"nanoserver", "pause"},
			files:  func(p Programs) map[string]file { return map[string]file{"pause.exe": {link: p.Winbox}} },
			config: v1.Config{Entrypoint: []string{"/pause.exe"}, User: "ContainerUser"},
		},
		{
			// Empty: its programs are the host's. The original is a scratch
			// image too (github.com/microsoft/windows-host-process-containers-base-image).
			name: "hostprocess", stack: []string{"hostprocess"},
			files: func(Programs) map[string]file {
				return map[string]file{"License.txt": {text: embedded("License.txt")}}
			},
			config: v1.Config{},
		},
		{
			name: "redis", stack: []string{"nanoserver2016", "redis"},
			files: func(p Programs) map[string]file {
				return map[string]file{"Program Files/Redis/redis-server.exe": {link: p.Winbox},
					"Program Files/Redis/redis-cli.exe": {link: p.Winbox}}
			},
			config: v1.Config{
				Cmd: []string{"redis-server.exe"}, WorkingDir: `C:\Program Files\Redis`,
				Env:          []string{`PATH=C:\Windows\system32;C:\Windows;C:\Program Files\Redis`},
				ExposedPorts: map[string]struct{}{"6379/tcp": {}},
			},
		},
	}
}

// Config returns the configuration that an image inherits from the stand-in of a kind, as
// with FROM in a Dockerfile.
func Config(kind image.BaseKind) v1.Config {
	f, _ := flavorNamed(string(kind)) // each kind has a flavor
	return *f.config.DeepCopy()
}

func flavorNamed(name string) (flavor, bool) {
	i := slices.IndexFunc(flavors(), func(f flavor) bool { return f.name == name })
	if i < 0 {
		return flavor{}, false
	}
	return flavors()[i], true
}

// Tools returns the programs of System32 that winbox provides, without ".exe".
func Tools() []string { return serverCoreTools() }

func serverCoreTools() []string {
	return []string{
		"curl", "find", "findstr", "hostname", "icacls", "ipconfig", "net", "net1", "netsh", "nltest", "nslookup",
		"ping", "route", "systeminfo", "tar", "tasklist", "timeout", "where", "whoami",
	}
}

// nanoServerTools returns the tools of a current Nano Server, which lacks the
// domain tools.
func nanoServerTools() []string {
	return []string{"curl", "find", "findstr", "hostname", "icacls", "ipconfig", "net", "net1", "nslookup", "ping",
		"systeminfo", "tar", "tasklist", "timeout", "where", "whoami"}
}

func tools(p Programs, names []string) map[string]file {
	m := map[string]file{}
	for _, n := range names {
		m[system32+n+".exe"] = file{link: p.Winbox}
	}
	return m
}

func serverCoreFiles(p Programs) map[string]file {
	m := tools(p, serverCoreTools())
	m[windowsPowerShell+"powershell.exe"] = file{link: p.PowerShell}
	m["License.txt"] = file{text: embedded("License.txt")}
	return m
}

// nanoServerFiles hides Wine's powershell.exe: Nano Server doesn't have one since
// 1709, and Wine's is a stub that succeeds at once with any arguments.
func nanoServerFiles(p Programs) map[string]file {
	m := tools(p, nanoServerTools())
	m[system32+"WindowsPowerShell"] = file{whiteout: true}
	m["License.txt"] = file{text: embedded("License.txt")}
	return m
}

func iisFiles(p Programs) map[string]file {
	return map[string]file{
		"ServiceMonitor.exe":               {link: p.Winbox},
		"inetpub/wwwroot/iisstart.htm":     {text: embedded("iisstart.htm")},
		"inetpub/logs/LogFiles":            {dir: true},
		"inetpub/temp":                     {dir: true},
		system32 + "inetsrv/w3wp.exe":      {link: p.Winbox},
		system32 + "inetsrv/config/schema": {dir: true},
	}
}

func powerShellFiles(p Programs) map[string]file {
	return map[string]file{powerShell7 + "pwsh.exe": {link: p.PowerShell}}
}

// embedded is one of the texts that this package brings; a missing one is a
// mistake of the programmer.
func embedded(name string) []byte {
	data, err := fs.ReadFile(content, "content/"+name)
	if err != nil {
		panic(err)
	}
	return data
}
