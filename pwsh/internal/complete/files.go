// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package complete

import (
	"io/fs"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
)

// files completes the name of a file.
func files(r *interp.Runner, w word, directories bool) []string {
	if r.Handlers().Files == nil || w.quote == 0 && w.place != redirected && strings.HasPrefix(w.text, "$") {
		return nil
	}
	base, leaf := "", w.text
	if i := strings.LastIndexAny(w.text, `/\:`); i >= 0 {
		base, leaf = w.text[:i+1], w.text[i+1:]
	}
	at := "."
	if base != "" {
		at = base
	}
	full := r.Path(at)
	entries, err := r.Handlers().Files.ReadDir(full)
	if err != nil {
		return nil // Tab has no words for errors
	}
	var names []string
	for _, e := range entries {
		if !directories || isDirectory(r, full, e) {
			names = append(names, e.Name())
		}
	}
	shown := shownDirectory(r, base, full)
	var list []string
	for _, name := range matching(names, leaf) {
		literal := w.place == command // of which no pattern is made
		name, quotes := escape(name, literal, w.quote)
		path := shown + name
		if quotes || w.quote != 0 || needsQuotes(path) {
			path = quoted(path, w)
		}
		list = append(list, path)
	}
	return list
}

// isDirectory reports whether an entry is a directory or a link to one.
func isDirectory(r *interp.Runner, dir string, e fs.DirEntry) bool {
	if e.Type()&(fs.ModeSymlink|fs.ModeIrregular) == 0 {
		return e.IsDir()
	}
	fi, err := r.Handlers().Files.Stat(r.JoinPath(dir, e.Name()))
	return err == nil && fi.IsDir()
}

// shownDirectory returns the directory, with a separator at its end, as a
// completion shows it: relative to the location if it was written so.
func shownDirectory(r *interp.Runner, base, full string) string {
	sep := r.Separator()
	full = strings.TrimSuffix(full, sep) + sep
	if isAbsolute(base) {
		return strings.ToUpper(full[:1]) + full[1:] // a drive
	}
	up := ""
	for dir := r.Location; ; {
		from := strings.TrimSuffix(dir, sep) + sep
		if len(full) >= len(from) && strings.EqualFold(full[:len(from)], from) {
			if up == "" {
				up = "." + sep
			}
			return up + full[len(from):]
		}
		parent := r.ParentPath(dir)
		if parent == "" || parent == dir {
			return full // another drive
		}
		dir, up = parent, up+".."+sep
	}
}

func isAbsolute(base string) bool {
	return base != "" && (base[0] == '/' || base[0] == '\\' || base[0] == '~' || strings.Contains(base, ":"))
}

// escape escapes the special characters of a file's name.
func escape(name string, literal bool, quote byte) (text string, quotes bool) {
	if literal || !strings.ContainsAny(name, "[]") {
		return name, false
	}
	tick := "`"
	if quote == '"' {
		tick = "``"
	}
	return strings.NewReplacer("[", tick+"[", "]", tick+"]").Replace(name), true
}

// needsQuotes reports whether a path has characters that would end a word.
func needsQuotes(path string) bool {
	return strings.ContainsAny(path, " ,;(){}|&'\"`$<>") || path != "" && strings.IndexByte("#-@", path[0]) >= 0
}

// quoted puts a path into the quotes of a word, or into single ones. Quotes make a
// string of a command's name: & calls it.
func quoted(path string, w word) string {
	if w.quote == '"' {
		return `"` + strings.ReplaceAll(path, "$", "`$") + `"`
	}
	text := "'" + strings.ReplaceAll(path, "'", "''") + "'"
	if w.place == command && w.quote == 0 && !w.called {
		return "& " + text
	}
	return text
}
