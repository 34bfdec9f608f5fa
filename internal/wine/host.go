// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"path/filepath"
	"strings"
)

// Host holds the paths of an emulated host's Wine and prefix, both as its
// processes see them.
type Host struct {
	Runtime string // (*Runtime).Dir, wherever it is mounted
	Prefix  string // an overlay of (*Runtime).HostPrefix, or a copy
}

// Env returns the environment of the host's Windows programs. They see more: Wine
// adds the registry's (Path, ComSpec, ProgramFiles …). Append further variables for
// a program; the last of two equal names takes effect.
func (h Host) Env() []string {
	return []string{
		"WINEPREFIX=" + h.Prefix,
		"WINELOADER=" + filepath.Join(h.Runtime, loaderPath),
		"WINESERVER=" + filepath.Join(h.Runtime, filepath.Dir(serverPath), "wineserver"),
		"WINEDEBUG=-all", // Wine's own messages would end up in the programs' output
		"USER=" + hostUser,
		"HOME=/nonexistent",
		"LC_ALL=C.UTF-8", // file names are UTF-8
	}
}

// Argv returns the command line that runs a Windows program. exe is a Windows path,
// or a name to look for in Path.
func (h Host) Argv(exe string, args ...string) []string {
	return append([]string{filepath.Join(h.Runtime, loaderPath), exe}, args...)
}

// Process returns the argv, environment and working directory of the Linux
// process that runs p as a HostProcess container. Its user is root, because
// Wine serves only the prefix's owner; its group is the account's.
func (h Host) Process(p Process) (argv, env []string, cwd string) {
	argv = append([]string{filepath.Join(h.Runtime, InitPath), "-host", "-root", filepath.Join(h.Prefix, "drive_c"),
		"-loader", filepath.Join(h.Runtime, loaderPath)},
		p.flags()...)
	own := h.Env()
	for i, e := range own {
		if strings.HasPrefix(e, "USER=") {
			own[i] = "USER=" + p.Account.Name
		}
	}
	if p.Account.GID == localUserGID || p.Account.GID == localAdministratorGID {
		own = append(own, "MULLION_USER="+p.Account.Name) // for winemend.dll
	}
	return append(append(argv, "--"), p.Args...), programEnv(own, p.Account.environment(p.Computer), p.Env), "/"
}

// Confined returns the command line that runs argv with no more rights than the
// programs of an emulated host may have; see launch.Confine.
func (h Host) Confined(argv []string) []string {
	return append([]string{filepath.Join(h.Runtime, InitPath), "-confine", "--"}, argv...)
}

// Module returns the place of a DLL or program of Wine's own. A program that lies
// there wins over one of the same name in System32.
func (h Host) Module(name string) string { return filepath.Join(h.Runtime, pePath, name) }
