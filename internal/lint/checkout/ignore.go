// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package checkout

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxIgnoreBytes bounds a .gitignore file; the rest of a longer one is not read.
const maxIgnoreBytes = 1 << 20

// Matcher matches files against exclusion patterns.
type Matcher struct {
	root     string               // files outside of it are never excluded
	patterns map[string][]pattern // by the folder that they are relative to
	read     bool                 // patterns are in the .gitignore files below root
	folders  map[string]bool      // whether folders are excluded, once known
}

// New returns a matcher of patterns that are relative to a folder, which has no
// symbolic links in its path.
func New(folder string, patterns []string) (*Matcher, error) {
	m := &Matcher{root: folder, patterns: map[string][]pattern{}, folders: map[string]bool{}}
	for _, line := range patterns {
		p, ok, err := parsePattern(line)
		if err != nil {
			return nil, err
		}
		if ok {
			m.patterns[folder] = append(m.patterns[folder], p)
		}
	}
	return m, nil
}

// Ignored returns a matcher of the files that git would ignore in a checkout if
// no file were tracked: by the .gitignore files in it and by .git/info/exclude,
// not by the user's own settings.
func Ignored(root string) *Matcher {
	m := &Matcher{root: root, patterns: map[string][]pattern{}, read: true, folders: map[string]bool{}}
	m.patterns[root] = append(readPatterns(filepath.Join(root, ".git", "info", "exclude")),
		readPatterns(filepath.Join(root, ".gitignore"))...)
	return m
}

// readPatterns returns the patterns of a file, or nil if it cannot be read.
func readPatterns(file string) []pattern {
	r, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxIgnoreBytes))
	if err != nil {
		return nil
	}
	return parsePatterns(string(text))
}

// Excludes reports whether patterns exclude an absolute path, or a folder around
// it. It is not safe for concurrent use.
func (m *Matcher) Excludes(path string, folder bool) bool {
	if m == nil || path == m.root || !strings.HasPrefix(path, strings.TrimSuffix(m.root, "/")+"/") {
		return false
	}
	if folder {
		if known, ok := m.folders[path]; ok {
			return known
		}
	}
	out := m.Excludes(filepath.Dir(path), true) || m.matches(path, folder)
	if folder {
		m.folders[path] = out
	}
	return out
}

// matches reports whether patterns exclude the path itself: the patterns of the
// closest folder count first.
func (m *Matcher) matches(path string, folder bool) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		patterns, known := m.patterns[dir]
		if !known && m.read {
			patterns = readPatterns(filepath.Join(dir, ".gitignore"))
			m.patterns[dir] = patterns
		}
		if below, err := filepath.Rel(dir, path); err == nil && len(patterns) > 0 {
			if excluded, decided := match(patterns, filepath.ToSlash(below), folder); decided {
				return excluded
			}
		}
		if dir == m.root || dir == filepath.Dir(dir) {
			return false
		}
	}
}
