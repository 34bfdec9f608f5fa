// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf16"

	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// Separator returns the path separator.
func (r *Runner) Separator() string {
	if r.cfg.Windows {
		return `\`
	}
	return "/"
}

// Path returns an absolute path of the file system, in the operating system's
// spelling, of one that a script wrote.
func (r *Runner) Path(p string) string {
	p = strings.TrimPrefix(p, "Microsoft.PowerShell.Core\\FileSystem::")
	if cut, ok := strings.CutPrefix(p, "FileSystem::"); ok {
		p = cut
	}
	if p == "~" || strings.HasPrefix(p, "~/") || strings.HasPrefix(p, `~\`) {
		home := ""
		if r.h.System != nil {
			home = r.h.System.HomeDir()
		}
		p = home + p[1:]
	}
	if !r.cfg.Windows {
		p = strings.ReplaceAll(p, `\`, "/")
		if !strings.HasPrefix(p, "/") {
			p = r.Location + "/" + p
		}
		return cleanSlash(p)
	}
	p = strings.ReplaceAll(p, "/", `\`)
	switch {
	case strings.HasPrefix(p, `\\`):
		return p
	case len(p) >= 2 && p[1] == ':':
		if len(p) == 2 || p[2] != '\\' {
			p = p[:2] + `\` + p[2:]
		}
	case strings.HasPrefix(p, `\`):
		p = drive(r.Location) + p
	default:
		p = strings.TrimSuffix(r.Location, `\`) + `\` + p
	}
	return p[:2] + strings.ReplaceAll(cleanSlash(strings.ReplaceAll(p[2:], `\`, "/")), "/", `\`)
}

func drive(p string) string {
	if len(p) >= 2 && p[1] == ':' {
		return p[:2]
	}
	return "C:"
}

// cleanSlash resolves . and .. of an absolute path with slashes.
func cleanSlash(p string) string {
	var parts []string
	for s := range strings.SplitSeq(p, "/") {
		switch s {
		case "", ".":
		case "..":
			if len(parts) > 0 {
				parts = parts[:len(parts)-1]
			}
		default:
			parts = append(parts, s)
		}
	}
	return "/" + strings.Join(parts, "/")
}

// JoinPath puts two parts together.
func (r *Runner) JoinPath(a, b string) string {
	sep := r.Separator()
	if !r.cfg.Windows {
		a, b = strings.ReplaceAll(a, `\`, "/"), strings.ReplaceAll(b, `\`, "/")
	} else {
		a, b = strings.ReplaceAll(a, "/", `\`), strings.ReplaceAll(b, "/", `\`)
	}
	if a == "" {
		return b
	}
	return strings.TrimRight(a, sep) + sep + strings.TrimLeft(b, sep)
}

// ParentPath returns the directory part of a path, without touching its spelling.
func (r *Runner) ParentPath(p string) string {
	i := strings.LastIndexAny(p, `/\`)
	switch {
	case i < 0:
		return ""
	case i == 0:
		if len(p) == 1 {
			return ""
		}
		return p[:1]
	case i == 2 && p[1] == ':':
		if len(p) == 3 {
			return ""
		}
		return p[:3]
	}
	return p[:i]
}

// LeafPath returns the last part of a path.
func LeafPath(p string) string {
	t := strings.TrimRight(p, `/\`)
	if i := strings.LastIndexAny(t, `/\`); i >= 0 {
		return t[i+1:]
	}
	return t
}

// Exists reports whether a file or directory exists.
func (r *Runner) Exists(p string) bool {
	if r.h.Files == nil {
		return false
	}
	_, err := r.h.Files.Stat(p)
	return err == nil
}

// searchPath lists the directories of PATH.
func (r *Runner) searchPath() []string {
	p, _ := r.getenv("PATH")
	sep := ":"
	if r.cfg.Windows {
		sep = ";"
	}
	return strings.Split(p, sep)
}

// PathInfo returns the result of Get-Location.
func (r *Runner) PathInfo(p string) *value.Object {
	o := value.NewObject("System.Management.Automation.PathInfo", "Drive",
		value.NewObject("System.Management.Automation.PSDriveInfo", "Name", strings.TrimSuffix(drive(p), ":")),
		"Provider", "Microsoft.PowerShell.Core\\FileSystem", "ProviderPath", p, "Path", p)
	o.Str, o.Show = p, []string{"Path"}
	return o
}

// PushLocation and PopLocation keep a stack of locations.
func (r *Runner) PushLocation() { r.stack = append(r.stack, r.Location) }

// PopLocation returns to the last pushed location; it reports false if the stack is empty.
func (r *Runner) PopLocation() bool {
	if len(r.stack) == 0 {
		return false
	}
	r.Location = r.stack[len(r.stack)-1]
	r.stack = r.stack[:len(r.stack)-1]
	return true
}

// FileError words an error of the file system as PowerShell does.
func (r *Runner) FileError(err error, p string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if parent := r.ParentPath(p); parent != "" && !r.Exists(parent) {
			return &Exception{
				Type:     "System.IO.DirectoryNotFoundException",
				Message:  "Could not find a part of the path '" + p + "'.",
				ID:       "PathNotFound",
				Category: "ObjectNotFound",
				Target:   p,
				cause:    err,
			}
		}
		return &Exception{
			Type:     "System.Management.Automation.ItemNotFoundException",
			Message:  "Cannot find path '" + p + "' because it does not exist.",
			ID:       "PathNotFound",
			Category: "ObjectNotFound",
			Target:   p,
			cause:    err,
		}
	case errors.Is(err, fs.ErrPermission):
		return &Exception{
			Type:     "System.UnauthorizedAccessException",
			Message:  "Access to the path '" + p + "' is denied.",
			ID:       "UnauthorizedAccess",
			Category: "PermissionDenied",
			Target:   p,
			cause:    err,
		}
	case errors.Is(err, fs.ErrExist):
		return &Exception{
			Type:     "System.IO.IOException",
			Message:  "An item with the specified name " + p + " already exists.",
			ID:       "AlreadyExists",
			Category: "ResourceExists",
			Target:   p,
			cause:    err,
		}
	}
	msg := err.Error()
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		msg = strings.TrimSuffix(pe.Err.Error(), ".")
	}
	return &Exception{
		Type:     "System.IO.IOException",
		Message:  "The process cannot access the file '" + p + "': " + msg + ".",
		ID:       "IOError",
		Category: "WriteError",
		Target:   p,
		cause:    err,
	}
}

// maxFile bounds the size of a file that is read into memory. Bytes.
const maxFile = 1 << 28

// ReadFile reads a whole file.
func (r *Runner) ReadFile(name string) ([]byte, error) {
	if r.h.Files == nil {
		return nil, NotImplemented("the file system")
	}
	p := r.Path(name)
	f, err := r.h.Files.OpenFile(p, os.O_RDONLY, 0)
	if err != nil {
		return nil, r.FileError(err, p)
	}
	defer f.Close() // read only
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, r.FileError(err, p)
	}
	if len(b) > maxFile {
		return nil, r.fail("System.OutOfMemoryException", "OutOfMemory", "ResourceUnavailable", p,
			"The file '%s' is too large to read at once.", p)
	}
	return b, nil
}

// ReadText reads a whole file as text.
func (r *Runner) ReadText(name string) (string, error) {
	b, err := r.ReadFile(name)
	return DecodeText(b), err
}

// DecodeText removes a byte order mark: UTF-8, UTF-16 little or big endian.
func DecodeText(b []byte) string {
	switch {
	case len(b) >= 3 && b[0] == 0xef && b[1] == 0xbb && b[2] == 0xbf:
		return string(b[3:])
	case len(b) >= 2 && b[0] == 0xff && b[1] == 0xfe:
		return DecodeUTF16(b[2:], false)
	case len(b) >= 2 && b[0] == 0xfe && b[1] == 0xff:
		return DecodeUTF16(b[2:], true)
	}
	return string(b)
}

// DecodeUTF16 reads UTF-16.
func DecodeUTF16(b []byte, big bool) string {
	u := make([]uint16, len(b)/2)
	for i := range u {
		lo, hi := b[2*i], b[2*i+1]
		if big {
			lo, hi = hi, lo
		}
		u[i] = uint16(lo) | uint16(hi)<<8
	}
	return string(utf16.Decode(u))
}

// EncodeUTF16 writes UTF-16.
func EncodeUTF16(s string, big bool) []byte {
	u := utf16.Encode([]rune(s))
	b := make([]byte, 2*len(u))
	for i, c := range u {
		lo, hi := byte(c), byte(c>>8)
		if big {
			lo, hi = hi, lo
		}
		b[2*i], b[2*i+1] = lo, hi
	}
	return b
}
