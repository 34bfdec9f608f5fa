// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package checkout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// pattern is a line of a .gitignore file.
// https://git-scm.com/docs/gitignore#_pattern_format
type pattern struct {
	glob    string // of the whole path below the folder of the file
	again   bool   // "!": includes files again that an earlier pattern excludes
	folders bool   // "/" at the end: matches folders only
}

// maxPattern bounds a pattern, because matching one takes time that grows with
// its asterisks. Paths are not longer either (PATH_MAX).
const maxPattern = 4096

// dialect rewrites what doublestar reads differently from git: braces, which are
// letters for git, and the classes of POSIX, for the letters of ASCII.
var dialect = struct{ rewrite *strings.Replacer }{strings.NewReplacer("{", `\{`, "}", `\}`,
	"[:alnum:]", "a-zA-Z0-9", "[:alpha:]", "a-zA-Z", "[:digit:]", "0-9", "[:lower:]", "a-z", "[:upper:]", "A-Z",
	"[:space:]", " \t\n\v\f\r", "[:xdigit:]", "0-9a-fA-F")}

// parsePattern reads a line. A comment and an empty line have no pattern.
func parsePattern(line string) (p pattern, ok bool, err error) {
	glob := strings.TrimSuffix(line, "\r")
	for strings.HasSuffix(glob, " ") && !strings.HasSuffix(glob, `\ `) {
		glob = glob[:len(glob)-1]
	}
	if glob == "" || strings.HasPrefix(glob, "#") {
		return p, false, nil
	}
	glob, p.again = strings.CutPrefix(glob, "!")
	glob, p.folders = strings.CutSuffix(glob, "/")
	if strings.Contains(glob, "/") {
		glob = strings.TrimPrefix(glob, "/")
	} else {
		glob = "**/" + glob // in any folder
	}
	if strings.HasSuffix(glob, "/**") {
		glob += "/*" // the folder's content, not the folder
	}
	p.glob = dialect.rewrite.Replace(glob)
	if len(glob) > maxPattern || !doublestar.ValidatePattern(p.glob) {
		return p, false, fmt.Errorf("%.100q is not a pattern as in .gitignore files", line)
	}
	return p, true, nil
}

// parsePatterns reads lines, and skips lines that are not patterns, as git
// does.
func parsePatterns(text string) []pattern {
	var out []pattern
	for line := range strings.SplitSeq(text, "\n") {
		if p, ok, err := parsePattern(line); ok && err == nil {
			out = append(out, p)
		}
	}
	return out
}

// match returns the decision of the last matching pattern about a path with
// slashes, relative to the folder of the patterns.
func match(patterns []pattern, path string, folder bool) (excluded, decided bool) {
	for _, p := range slices.Backward(patterns) {
		if p.folders && !folder {
			continue
		}
		if ok, err := doublestar.Match(p.glob, path); ok && err == nil {
			return !p.again, true
		}
	}
	return false, false
}
