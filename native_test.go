// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mullion

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Of C files that are formatted as those of native/ are.
var (
	cComment  = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"`)
	cFunction = regexp.MustCompile(`(?m)^[A-Za-z_][\w \*]*?\b(\w+)\([^;{]*\)\s*\{`)
	cVariable = regexp.MustCompile(
		`(?m)^[A-Za-z_][\w \*]*(?:\([A-Z ]*\*(\w+)\)\(.*\)|\b(\w+)(?:\[.*\])?(?: = [^;]*)?);`)
	cWord = regexp.MustCompile(`\w+`)
)

// TestNativeCycles reads which file of a DLL uses functions and variables of
// which others. Files that use each other can only be understood together.
func TestNativeCycles(t *testing.T) {
	dirs, err := filepath.Glob("native/*")
	if err != nil {
		t.Fatal(err)
	}
	edges := 0
	for _, dir := range dirs {
		uses := nativeUses(t, dir)
		for _, u := range uses {
			edges += len(u)
		}
		if c := cycle(uses); c != nil {
			t.Errorf("%s: files use each other: %s", filepath.ToSlash(dir), strings.Join(c, " → "))
		}
	}
	if edges < 30 {
		t.Errorf("found %d uses between files: this test no longer recognizes them", edges)
	}
}

// nativeUses returns for each C file of a directory the others that it uses.
func nativeUses(t *testing.T, dir string) map[string]map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.c"))
	if err != nil {
		t.Fatal(err)
	}
	texts, home := map[string]string{}, map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name, text := path.Base(filepath.ToSlash(f)), cComment.ReplaceAllString(string(b), "")
		texts[name] = text
		found := append(cFunction.FindAllStringSubmatch(text, -1), cVariable.FindAllStringSubmatch(text, -1)...)
		for _, m := range found {
			if word, _, _ := strings.Cut(m[0], " "); !slices.Contains([]string{"static", "extern", "typedef"}, word) {
				home[strings.Join(m[1:], "")] = name
			}
		}
	}
	uses := map[string]map[string]bool{}
	for name, text := range texts {
		uses[name] = map[string]bool{}
		for _, w := range cWord.FindAllString(text, -1) {
			if home[w] != "" && home[w] != name {
				uses[name][home[w]] = true
			}
		}
	}
	return uses
}

// cycle returns a path that ends where it begins; nil if there is none.
func cycle(uses map[string]map[string]bool) []string {
	done := map[string]bool{}
	var visit func(name string, way []string) []string
	visit = func(name string, way []string) []string {
		if i := slices.Index(way, name); i >= 0 {
			return append(way[i:], name)
		}
		if done[name] {
			return nil
		}
		for _, next := range slices.Sorted(maps.Keys(uses[name])) {
			if c := visit(next, append(way, name)); c != nil {
				return c
			}
		}
		done[name] = true
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		if c := visit(name, nil); c != nil {
			return c
		}
	}
	return nil
}
