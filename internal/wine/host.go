// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"path/filepath"
)

// Host says where an emulated host has its Wine and its prefix, both as its
// processes see them.
type Host struct {
	Runtime string // (*Runtime).Dir, wherever it is mounted
	Prefix  string // an overlay of (*Runtime).HostPrefix, or a copy
}

// Env is the environment of the host's Windows programs. They see more: Wine
// adds what the registry says (Path, ComSpec, ProgramFiles …). Append to it
// what a program is to see besides; the last of two equal names counts.
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

// Argv is the command line that runs a Windows program. exe is a Windows path,
// or a name to look for in Path.
func (h Host) Argv(exe string, args ...string) []string {
	return append([]string{filepath.Join(h.Runtime, loaderPath), exe}, args...)
}
