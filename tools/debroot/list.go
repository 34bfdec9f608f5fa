// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxPackage limits the size of a package in bytes: the largest, libwine, has 111 MB.
const maxPackage = 1 << 30

// pkg is one binary package of Debian's archive.
type pkg struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	arch    string
	path    string // below the mirror's address
	size    int64  // in bytes
}

func (p pkg) String() string {
	return fmt.Sprintf("%s %s %s %s %d %s", p.Name, p.Version, p.arch, p.path, p.size, p.SHA256)
}

var (
	// See the Debian Policy Manual, 5.6.1 and 5.6.12.
	nameForm    = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	versionForm = regexp.MustCompile(`^[0-9][A-Za-z0-9.+:~-]*$`)
)

// check returns an error if a field cannot be that of a package.
func (p pkg) check() error {
	sum, err := hex.DecodeString(p.SHA256)
	switch {
	case !nameForm.MatchString(p.Name):
		return fmt.Errorf("%q is not a name of a package", p.Name)
	case !versionForm.MatchString(p.Version):
		return fmt.Errorf("%s: %q is not a version", p.Name, p.Version)
	case p.arch != "amd64" && p.arch != "all":
		return fmt.Errorf("%s: the architecture is %q, not amd64 or all", p.Name, p.arch)
	case !filepath.IsLocal(p.path) || path.Clean(p.path) != p.path || path.Ext(p.path) != ".deb":
		return fmt.Errorf("%s: %q is not the path of a package in the archive", p.Name, p.path)
	case p.size <= 0 || p.size > maxPackage:
		return fmt.Errorf("%s: a size of %d bytes, not 1 to %d", p.Name, p.size, maxPackage)
	case err != nil || len(sum) != 32 || strings.ToLower(p.SHA256) != p.SHA256:
		return fmt.Errorf("%s: %q is not a SHA-256 checksum in lower case", p.Name, p.SHA256)
	}
	return nil
}

// list is the content of a file of packages: the comment at its head, and the packages by name.
type list struct {
	comment  string
	packages []pkg
}

// readList reads a file of packages, one in a line. With namesOnly the name suffices.
func readList(name string, namesOnly bool) (list, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return list{}, fmt.Errorf("read the list: %w", err)
	}
	l, err := parseList(string(text), namesOnly)
	if err != nil {
		return list{}, fmt.Errorf("read the list %s: %w", name, err)
	}
	return l, nil
}

func parseList(text string, namesOnly bool) (list, error) {
	var l list
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			if len(l.packages) == 0 {
				l.comment += line
			}
			continue
		}
		p := pkg{Name: fields[0]}
		if !namesOnly {
			if len(fields) != 6 {
				return list{}, fmt.Errorf("line %d: %d fields, not 6: debroot -list FILE -update completes it",
					number, len(fields))
			}
			size, err := strconv.ParseInt(fields[4], 10, 64)
			if err != nil {
				return list{}, fmt.Errorf("line %d: the size: %w", number, err)
			}
			p = pkg{Name: p.Name, Version: fields[1], arch: fields[2], path: fields[3], size: size, SHA256: fields[5]}
			if err := p.check(); err != nil {
				return list{}, fmt.Errorf("line %d: %w", number, err)
			}
		}
		l.packages = append(l.packages, p)
	}
	if len(l.packages) == 0 {
		return list{}, errors.New("no packages")
	}
	slices.SortFunc(l.packages, func(a, b pkg) int { return cmp.Compare(a.Name, b.Name) })
	for i, p := range l.packages[1:] {
		if p.Name == l.packages[i].Name {
			return list{}, fmt.Errorf("%s stands there twice", p.Name)
		}
	}
	return l, nil
}

// write replaces the file of packages.
func (l list) write(name string) error {
	text := []byte(l.comment)
	for _, p := range l.packages {
		text = fmt.Appendln(text, p)
	}
	if err := os.WriteFile(name+".new", text, 0o644); err != nil {
		return fmt.Errorf("write the list: %w", err)
	}
	return os.Rename(name+".new", name)
}
