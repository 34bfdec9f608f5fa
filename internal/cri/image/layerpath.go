// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// verdict is the handling of a layer's entry.
type verdict int

const (
	keep    verdict = iota // unpack it at the mapped path
	ignore                 // legal, but of no use here (hives, utility VM, the folder Files itself)
	leaveTo                // legal on NTFS, but no Win32 program can open it by that name: left out and noted
)

// shape is how a layer's tar lays out the file system.
type shape int

const (
	// shapeWindows has Files/, Hives/ and, in base images, UtilityVM/ at its top,
	// as Windows itself and BuildKit write it. Source:
	// github.com/microsoft/hcsshim/pkg/ociwclayer.
	shapeWindows shape = iota
	// shapePlain is a tree that stands for C:\ directly, as tools without support
	// for Windows write it.
	shapePlain
)

func (s shape) String() string {
	if s == shapeWindows {
		return "windows"
	}
	return "plain"
}

// Whiteout names of the OCI layer specification, "Representing Changes".
const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
)

// mapped is where an entry goes.
type mapped struct {
	verdict  verdict
	reason   string   // for ignore and leaveTo
	parts    []string // path below C:\, not yet folded onto existing spelling; empty for C:\ itself
	whiteout bool     // remove the entry at parts in the layers below
	opaque   bool     // hide the content of the directory parts in the layers below
}

// maxPathBytes bounds a mapped path: PATH_MAX of Linux. Windows' own bound is
// 32,767 UTF-16 units, which no Linux call could open.
const maxPathBytes = 4096

// maxNameBytes bounds one name: NAME_MAX of Linux. NTFS has 255 UTF-16 units.
const maxNameBytes = 255

// maxDepth bounds the components of a mapped path: no path of MAX_PATH = 260
// characters, with the drive in front and the final zero, has more. Windows itself
// accepts deeper ones that begin with \\?\, but no layer that was seen has them.
const maxDepth = 128

// detectShape decides by a layer's first entry. See also errMixed.
func detectShape(name string) shape {
	first, _, _ := strings.Cut(strings.TrimPrefix(slashed(name), "./"), "/")
	switch first {
	case "Files", "Hives", "UtilityVM":
		return shapeWindows
	}
	return shapePlain
}

// mapEntry maps an entry's name. It is pure: names are judged by their text
// alone, without a look at the file system. An error means that the layer is
// refused as a whole; errMixed, that the layer is not of the given shape.
func mapEntry(sh shape, name string) (mapped, error) {
	parts, err := split(name)
	if err != nil {
		return mapped{}, err
	}
	if sh == shapeWindows {
		if len(parts) == 0 {
			return mapped{verdict: ignore}, nil
		}
		switch parts[0] {
		case "Files":
			parts = parts[1:]
		case "Hives":
			return mapped{verdict: ignore, reason: reasonHive}, nil
		case "UtilityVM":
			return mapped{verdict: ignore, reason: reasonUtilityVM}, nil
		default:
			return mapped{}, fmt.Errorf("%w: entry %q", errMixed, name)
		}
	}
	m := mapped{parts: parts}
	if len(parts) == 0 {
		return m, nil
	}
	last := parts[len(parts)-1]
	switch {
	case last == opaqueName:
		m.opaque, m.parts = true, parts[:len(parts)-1]
	case strings.HasPrefix(last, whiteoutPrefix):
		target := strings.TrimPrefix(last, whiteoutPrefix)
		// ".wh..wh.plnk" and friends are aufs' own bookkeeping.
		if strings.HasPrefix(target, whiteoutPrefix) {
			return mapped{verdict: ignore}, nil
		}
		if target == "" || target == "." || target == ".." {
			return mapped{}, refuse(name, "whiteout of %q", target)
		}
		m.whiteout, m.parts = true, append(parts[:len(parts)-1:len(parts)-1], target)
	}
	return checkName(name, m)
}

// NameKey returns the key under which Windows considers the paths of two files equal. The
// path is below C:\ and has slashes. It is an error if a layer cannot have the file, or
// if no program could open it by that name.
func NameKey(name string) (string, error) {
	m, err := mapEntry(shapePlain, name)
	var r *refusal
	switch {
	case errors.As(err, &r):
		return "", errors.New(r.why)
	case err != nil:
		return "", err
	case m.verdict != keep:
		return "", errors.New(m.reason)
	case strings.Contains(name, `\`):
		return "", errors.New(`\ separates directories there`)
	case m.whiteout || m.opaque:
		return "", fmt.Errorf("layers use the prefix %s for removed files", whiteoutPrefix)
	}
	return fold(name), nil
}

// Reasons for entries without effect, as they appear in Image.Notes.
const (
	reasonHive      = "registry hives are not applied"
	reasonUtilityVM = "files of the utility VM (Hyper-V isolation) are ignored"
	reasonStream    = "alternate data streams are left out"
	reasonDevice    = "files with reserved device names are left out"
	reasonTrailing  = "files whose names end in a dot or a blank are left out"
)

// split turns a tar name into clean components. Backslashes separate, because on
// Windows they can have no other meaning.
func split(name string) ([]string, error) {
	if !utf8.ValidString(name) {
		return nil, refuse(name, "not UTF-8")
	}
	if len(name) > maxPathBytes {
		return nil, refuse(name, "longer than %d bytes", maxPathBytes)
	}
	name = slashed(name)
	if strings.HasPrefix(name, "/") {
		return nil, refuse(name, "absolute path")
	}
	var parts []string
	for p := range strings.SplitSeq(name, "/") {
		switch p {
		case "", ".":
			continue
		case "..":
			return nil, refuse(name, "leaves the layer")
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// checkName applies the rules of NTFS and Win32 to every component.
func checkName(name string, m mapped) (mapped, error) {
	if len(m.parts) > maxDepth {
		return mapped{}, refuse(name, "%d directories deep, at most %d are allowed", len(m.parts), maxDepth)
	}
	for i, p := range m.parts {
		if len(p) > maxNameBytes {
			return mapped{}, refuse(name, "a name longer than %d bytes", maxNameBytes)
		}
		// A whiteout-like name in the middle of a path would become one.
		if strings.HasPrefix(p, whiteoutPrefix) {
			return mapped{}, refuse(name, "a path through %q", p)
		}
		base, stream, isStream := strings.Cut(p, ":")
		if isStream {
			// "C:" or "C:x" at the front names a drive; a stream belongs to a last component.
			if base == "" || stream == "" || i < len(m.parts)-1 || i == 0 && len(base) == 1 ||
				strings.ContainsAny(stream, `/\`) {
				return mapped{}, refuse(name, "%q is not a file name", p)
			}
			m.verdict, m.reason = leaveTo, reasonStream
			p = base
		}
		for _, r := range p {
			// The characters that NTFS refuses through every interface.
			if unicode.IsControl(r) || strings.ContainsRune(`<>"|?*`, r) {
				return mapped{}, refuse(name, "the character %q", r)
			}
		}
		if m.verdict == keep {
			switch {
			case strings.HasSuffix(p, ".") || strings.HasSuffix(p, " "):
				m.verdict, m.reason = leaveTo, reasonTrailing
			case reserved(p):
				m.verdict, m.reason = leaveTo, reasonDevice
			}
		}
	}
	return m, nil
}

// reserved reports whether Win32 treats a name as a device, whatever its
// extension: learn.microsoft.com/windows/win32/fileio/naming-a-file.
func reserved(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	if rest, ok := strings.CutPrefix(base, "COM"); ok {
		return isDeviceDigit(rest)
	}
	if rest, ok := strings.CutPrefix(base, "LPT"); ok {
		return isDeviceDigit(rest)
	}
	return false
}

// isDeviceDigit accepts 1 to 9 and the superscripts that Windows also takes.
func isDeviceDigit(s string) bool {
	return len(s) == 1 && s[0] >= '1' && s[0] <= '9' || s == "¹" || s == "²" || s == "³"
}

func slashed(name string) string { return strings.ReplaceAll(name, `\`, "/") }

// refusal is the error for an entry that no layer may have.
type refusal struct{ name, why string }

func (r *refusal) Error() string {
	return fmt.Sprintf("%v: layer entry %q: %s", ErrInvalid, r.name, r.why)
}
func (r *refusal) Unwrap() error { return ErrInvalid }

// shownName is how much of an entry's name an error shows, in bytes.
const shownName = 200

func refuse(name, format string, args ...any) error {
	if len(name) > shownName {
		name = strings.ToValidUTF8(name[:shownName], "") + "…"
	}
	return &refusal{name, fmt.Sprintf(format, args...)}
}

// fold returns the key under which Windows considers two names equal: each rune in
// upper case, by the simple mapping that NTFS' $UpCase table uses too. That
// table leaves the dotless i and the long s alone, which Unicode maps to ASCII
// letters.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r == 'ı' || r == 'ſ' {
			return r
		}
		return unicode.ToUpper(r)
	}, name)
}
