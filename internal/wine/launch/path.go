// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The search path and extensions where the environment lacks them, from the
// registry of a container (HKLM\SYSTEM\CurrentControlSet\Control\Session
// Manager\Environment).
const (
	defaultPath = `C:\windows\system32;C:\windows;C:\windows\system32\wbem;C:\windows\system32\WindowsPowerShell\v1.0`
	defaultExt  = ".COM;.EXE;.BAT;.CMD"
)

// EnvPrefix stands before the name of each variable that is meant for the
// Windows program, in the environment of init (see wine.ContainerProcess).
const EnvPrefix = "MULLION_ENV_"

// searchPath is where a program is looked for. The system's directories are
// searched regardless of Path, as CreateProcess does.
func searchPath(env []string) []string {
	return append(split(lookup(env, EnvPrefix+"PATH")), split(defaultPath)...)
}

// searchExt keeps the extensions that can be started at all. PATHEXT may name
// script types that would need an interpreter.
func searchExt(env []string) []string {
	startable := split(strings.ToLower(defaultExt))
	ext := slices.DeleteFunc(split(strings.ToLower(lookup(env, EnvPrefix+"PATHEXT"))), func(e string) bool {
		return !slices.Contains(startable, e)
	})
	if len(ext) == 0 {
		return startable
	}
	return ext
}

func split(list string) []string {
	var out []string
	for part := range strings.SplitSeq(list, ";") {
		if part = strings.Trim(part, `" `); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func lookup(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if n, v, ok := strings.Cut(e, "="); ok && strings.EqualFold(n, name) {
			return v
		}
	}
	return ""
}

// findProgram works like CreateProcess and the shells: a path is taken as it is, a
// name is looked for in the working directory and the search path, each also with
// the extensions.
func findProgram(root, dir, name string, path, ext []string) (string, error) {
	names := []string{name}
	// A name without extension is never the file of just that name, except where no
	// other file exists.
	for _, e := range ext {
		names = append(names, name+e)
	}
	if !strings.Contains(lastPart(name), ".") {
		names = append(names[1:], name)
	}
	if strings.ContainsAny(name, `\/`) || strings.Contains(name, ":") {
		for _, n := range names {
			if f, err := resolveFrom(root, dir, n); err == nil && isFile(f) {
				return f, nil
			}
		}
		return "", errNotFound
	}
	for _, d := range append([]string{toWindows(root, dir)}, path...) {
		for _, n := range names {
			if f, err := resolve(root, d+`\`+n); err == nil && isFile(f) {
				return f, nil
			}
		}
	}
	return "", errNotFound
}

func lastPart(name string) string {
	return name[strings.LastIndexAny(name, `\/`)+1:]
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// resolveFrom is resolve for a path that may be relative to the directory dir
// (a Unix path).
func resolveFrom(root, dir, name string) (string, error) {
	if strings.Contains(name, ":") || strings.HasPrefix(name, `\`) || strings.HasPrefix(name, "/") {
		return resolve(root, name)
	}
	return resolve(root, toWindows(root, dir)+`\`+name)
}

// resolve finds the Unix path of a Windows path on drive C:, without regard to
// case where the exact name does not exist. ".." never leads above the root.
func resolve(root, name string) (string, error) {
	for _, prefix := range []string{`\\?\`, `\\.\`, `\??\`} {
		name = strings.TrimPrefix(name, prefix)
	}
	if drive, rest, ok := strings.Cut(name, ":"); ok {
		if !strings.EqualFold(drive, "C") {
			return "", fmt.Errorf("%s: there is no such drive", name)
		}
		name = rest
	}
	at := filepath.Clean(root)
	var depth int
	for part := range strings.SplitSeq(strings.ReplaceAll(name, `\`, "/"), "/") {
		switch part {
		case "", ".":
		case "..":
			if depth > 0 {
				at = filepath.Dir(at)
				depth--
			}
		default:
			next, err := child(at, part)
			if err != nil {
				return "", err
			}
			at = next
			depth++
		}
	}
	return at, nil
}

func child(dir, name string) (string, error) {
	exact := filepath.Join(dir, name)
	if _, err := os.Lstat(exact); err == nil {
		return exact, nil
	}
	entries, err := os.ReadDir(dir)
	if err == nil {
		for _, e := range entries {
			if strings.EqualFold(e.Name(), name) {
				return filepath.Join(dir, e.Name()), nil
			}
		}
	}
	return "", errNotFound
}

// toWindows returns the Windows path of a file below the root.
func toWindows(root, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == "." {
		return `C:\`
	}
	return `C:\` + strings.ReplaceAll(rel, "/", `\`)
}
