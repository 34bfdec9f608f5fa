// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// podText returns the text of an error as pods and events show it: a path of the machine is
// the one of drive C that it means, or left out. The host's log has the whole error.
func (s *Server) podText(err error) string {
	text := err.Error()
	var paths []string
	for _, p := range errorPaths(err) {
		if filepath.IsAbs(p) {
			paths = append(paths, regexp.QuoteMeta(p))
		}
	}
	// runc and conmon give only text.
	for _, dir := range s.machineDirs() {
		paths = append(paths, regexp.QuoteMeta(dir)+`\b(?:/[^\s"',;:=]*)?`)
	}
	// The longest first: an alternative ends the search.
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return regexp.MustCompile(strings.Join(paths, "|")).ReplaceAllStringFunc(text, s.podPath)
}

// machineDirs returns the directories of the machine that errors may name.
func (s *Server) machineDirs() []string {
	dirs := []string{s.cfg.StateDir, s.cfg.RunDir, s.cfg.Drive}
	if drive := s.cfg.Engine.Drive(); drive != "/" {
		dirs = append(dirs, drive)
	}
	return dirs
}

// podPath returns the path of drive C that a path of the machine means, if there is one.
func (s *Server) podPath(p string) string {
	drives := []string{s.cfg.Drive}
	if drive := s.cfg.Engine.Drive(); drive != "/" {
		drives = append(drives, drive)
	}
	for _, drive := range drives {
		if rest, ok := strings.CutPrefix(p, drive); ok && (rest == "" || rest[0] == '/') {
			return `C:\` + strings.ReplaceAll(strings.Trim(rest, "/"), "/", `\`)
		}
	}
	return "…"
}

// errorPaths returns the paths that package os has put into an error.
func errorPaths(err error) []string {
	var paths []string
	switch e := err.(type) { //nolint:errorlint // each error of the tree is looked at
	case *fs.PathError:
		paths = append(paths, e.Path)
	case *os.LinkError:
		paths = append(paths, e.Old, e.New)
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range all.Unwrap() {
			paths = append(paths, errorPaths(e)...)
		}
	} else if e := errors.Unwrap(err); e != nil {
		paths = append(paths, errorPaths(e)...)
	}
	return paths
}
