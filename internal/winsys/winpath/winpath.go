// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package winpath handles paths as Windows writes them, on any operating
// system: filepath follows the rules of the machine it runs on, which is the
// wrong machine for a path that a Windows client sent.
//
// The functions of this file are pure. Resolve looks up a Windows path in a
// directory that represents a Windows drive.
//
// Sources: "File path formats on Windows systems" and "Naming Files, Paths, and
// Namespaces" on learn.microsoft.com (read 2026-08).
package winpath

import (
	"errors"
	"fmt"
	"strings"
)

// Kind is how a path is anchored.
type Kind int

// The kinds of Windows paths.
const (
	Relative      Kind = iota // a\b
	Rooted                    // \a\b: on the current drive
	DriveRelative             // C:a\b: below the drive's current directory
	Drive                     // C:\a\b
	UNC                       // \\server\share\a, \\?\UNC\server\share\a
	Device                    // \\.\pipe\x, \\?\Volume{…}\a
)

// errInvalid is wrapped by every error that refuses a path.
var errInvalid = errors.New("invalid Windows path")

func isSep(c byte) bool { return c == '\\' || c == '/' }

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// split takes a path apart: its kind, its volume as it is written in clean
// form ("C:", `\\server\share`, `\\.\pipe`), and the rest after the volume.
func split(p string) (kind Kind, volume, rest string) {
	// The prefix \\?\ before a drive changes how Win32 parses the path, not its
	// target.
	if n := strings.ReplaceAll(p, "/", `\`); strings.HasPrefix(n, `\\?\`) || strings.HasPrefix(n, `\??\`) {
		if len(p) >= 6 && isLetter(p[4]) && p[5] == ':' {
			p = p[4:]
		} else if len(p) >= 8 && strings.EqualFold(n[4:8], `UNC\`) {
			p = `\\` + p[8:]
		} else {
			p = `\\?\` + p[4:]
		}
	}
	switch {
	case len(p) >= 2 && isLetter(p[0]) && p[1] == ':':
		volume = strings.ToUpper(p[:1]) + ":"
		if len(p) > 2 && isSep(p[2]) {
			return Drive, volume, p[2:]
		}
		return DriveRelative, volume, p[2:]
	case len(p) >= 2 && isSep(p[0]) && isSep(p[1]):
		first, after := component(p[2:])
		name := strings.TrimLeft(after, `\/`)
		if first == "?" && after != "" {
			name = after[1:] // Win32 leaves these as they are: \\?\\C: is not \\?\C:
		}
		second, rest := component(name)
		if first == "." || first == "?" {
			return Device, `\\` + first + `\` + second, rest
		}
		if second == "" {
			return UNC, `\\` + first, ""
		}
		return UNC, `\\` + first + `\` + second, rest
	case len(p) >= 1 && isSep(p[0]):
		return Rooted, "", p
	}
	return Relative, "", p
}

func component(p string) (first, rest string) {
	if i := strings.IndexAny(p, `\/`); i >= 0 {
		return p[:i], p[i:]
	}
	return p, ""
}

// KindOf returns how a path is anchored.
func KindOf(p string) Kind {
	kind, _, _ := split(p)
	return kind
}

// Clean returns the shortest spelling of a path: backslashes only, the drive in
// upper case, no empty and no "." elements, ".." resolved as text, as Win32 does
// before it calls the file system. No path climbs above the root. The empty path
// becomes ".".
func Clean(p string) string {
	kind, volume, rest := split(p)
	elems := elements(rest, kind == Relative || kind == DriveRelative)
	body := strings.Join(elems, `\`)
	// The result must not have another meaning, as in Go's filepath.
	switch {
	case kind == Relative && len(body) >= 2 && isLetter(body[0]) && body[1] == ':':
		return `.\` + body
	case kind == Rooted && strings.HasPrefix(body+`\`, `??\`):
		return `\.\` + body
	}
	switch kind {
	case Rooted, Drive:
		return volume + `\` + body
	case UNC, Device:
		if body == "" {
			return volume
		}
		return volume + `\` + body
	case DriveRelative:
		return volume + body
	}
	if body == "" {
		return "."
	}
	return body
}

// elements splits at both separators and resolves "." and "..". Where climbing
// is allowed, leading ".." stay.
func elements(p string, climb bool) []string {
	var out []string
	for _, e := range strings.FieldsFunc(p, func(r rune) bool { return r == '\\' || r == '/' }) {
		switch {
		case e == ".":
		case e != "..":
			out = append(out, e)
		case len(out) > 0 && out[len(out)-1] != "..":
			out = out[:len(out)-1]
		case climb:
			out = append(out, e)
		}
	}
	return out
}

// Join puts paths together, each below the one before, and cleans the result.
// The root or drive of an element is ignored.
func Join(elem ...string) string {
	var out string
	for _, e := range elem {
		switch {
		case e == "":
		case out == "":
			out = e
		default:
			_, _, rest := split(e)
			out += `\` + rest
		}
	}
	if out == "" {
		return ""
	}
	return Clean(out)
}

// splitElements returns the names below the root of the system drive that a path leads
// through. Rooted, relative and drive-relative paths are read as lying on that
// drive, from its root: a service, unlike a shell, has no other current
// directory.
func splitElements(p string) ([]string, error) {
	kind, volume, rest := split(p)
	switch {
	case kind == UNC || kind == Device:
		return nil, fmt.Errorf("%w: %q is not on a drive", errInvalid, p)
	case volume != "" && volume != SystemDrive:
		return nil, fmt.Errorf("%w: %q: the host has no drive %s", errInvalid, p, volume)
	}
	elems := elements(rest, false)
	for _, e := range elems {
		// A NUL ends a name early for some readers; a colon opens an alternate
		// data stream, which no file system of Linux has.
		if strings.ContainsAny(e, "\x00:") {
			return nil, fmt.Errorf("%w: %q", errInvalid, p)
		}
	}
	return elems, nil
}

// SystemDrive is the only drive of an emulated host and of a container.
const SystemDrive = "C:"
