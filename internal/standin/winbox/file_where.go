// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// where looks for programs in the current directory and in PATH.
func where(_ context.Context, env *Env) int {
	quiet, patterns := false, []string(nil)
	for _, a := range env.Args {
		if strings.EqualFold(a, "/q") {
			quiet = true
			continue
		}
		if strings.HasPrefix(a, "/") {
			env.errorf("ERROR: Invalid argument or option - '%s'.\nType \"WHERE /?\" for usage.\n", a)
			return 2
		}
		patterns = append(patterns, a)
	}
	if len(patterns) == 0 {
		env.errorf("The syntax of this command is:\n\nWHERE [/Q] pattern...\n")
		return 2
	}
	cwd, err := os.Getwd()
	if err != nil {
		env.errorf("ERROR: %v\n", err)
		return 2
	}
	dirs := append([]string{cwd}, filepath.SplitList(env.Getenv("PATH"))...)
	exts := strings.Split(env.Getenv("PATHEXT"), ";")
	code := 1
	for _, p := range patterns {
		found := whereIs(p, dirs, exts)
		if len(found) > 0 {
			code = 0
		}
		if quiet {
			continue
		}
		for _, f := range found {
			env.printf("%s\n", f)
		}
		if len(found) == 0 {
			env.errorf("INFO: Could not find files for the given pattern(s).\n")
		}
	}
	return code
}

// whereIs lists the files that match a pattern, with each extension of PATHEXT
// if the pattern has no extension.
func whereIs(pattern string, dirs, exts []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, d := range dirs {
		if seen[d] {
			continue // the current directory may be in PATH too
		}
		seen[d] = true
		entries, err := os.ReadDir(d)
		if err != nil {
			continue // PATH may name directories that do not exist
		}
		for _, e := range entries {
			if !e.IsDir() && whereMatches(pattern, e.Name(), exts) {
				out = append(out, filepath.Join(d, e.Name()))
			}
		}
	}
	return out
}

func whereMatches(pattern, name string, exts []string) bool {
	pattern, name = strings.ToLower(pattern), strings.ToLower(name)
	match := func(p string) bool {
		ok, err := filepath.Match(p, name)
		return err == nil && ok
	}
	return match(pattern) || slices.ContainsFunc(exts, func(e string) bool {
		return e != "" && match(pattern+strings.ToLower(e))
	})
}
