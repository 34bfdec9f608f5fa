// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// maxLinks is how many symbolic links one look-up follows. Windows stops at 63
// ("Symbolic Link Effects on File Systems Functions", learn.microsoft.com).
const maxLinks = 63

// Resolve finds the Unix path of a Windows path in a directory that stands for
// drive C. Names match whatever their case, an exact match first. Symbolic
// links are followed below the directory only; their targets may be relative,
// rooted, or begin with C:\, or be a Unix path into the directory, as Wine
// writes them. Elements that do not exist yet keep the given spelling, so that the
// caller can create it at the path returned.
func Resolve(root, p string) (string, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", p, err)
	}
	defer func() { _ = r.Close() }() // opened for reading
	rel, err := ResolveIn(r, p)
	if err != nil {
		return "", err
	}
	return filepath.Join(root, filepath.FromSlash(rel)), nil
}

// ResolveIn is Resolve for an open directory; the result is relative to it,
// with forward slashes, and names no symbolic link at the time of the call.
// os.Root's methods on it stay inside the directory whatever others do to
// the tree meanwhile.
func ResolveIn(root *os.Root, p string) (string, error) {
	elems, err := splitElements(p)
	if err != nil {
		return "", fmt.Errorf("resolve: %w", err)
	}
	w := walk{root: root, todo: elems}
	for len(w.todo) > 0 {
		if err := w.step(); err != nil {
			return "", fmt.Errorf("resolve %s: %w", p, err)
		}
	}
	return w.at(), nil
}

// walk is a look-up in progress.
type walk struct {
	root  *os.Root
	done  []string // real names, no links among them
	todo  []string
	links int
}

func (w *walk) at() string {
	if len(w.done) == 0 {
		return "."
	}
	return strings.Join(w.done, "/")
}

func (w *walk) step() error {
	name := w.todo[0]
	w.todo = w.todo[1:]
	switch name {
	case ".":
		return nil
	case "..":
		if len(w.done) > 0 {
			w.done = w.done[:len(w.done)-1]
		}
		return nil
	}
	name, info, err := w.look(name)
	if err != nil {
		return err
	}
	if info == nil || info.Mode()&fs.ModeSymlink == 0 {
		if info != nil && !info.IsDir() && len(w.todo) > 0 {
			return fmt.Errorf("%s: %w", path.Join(w.at(), name), errNotDirectory)
		}
		w.done = append(w.done, name)
		return nil
	}
	if w.links++; w.links > maxLinks {
		return fmt.Errorf("%s: more than %d symbolic links", path.Join(w.at(), name), maxLinks)
	}
	target, err := w.root.Readlink(path.Join(w.at(), name))
	if err != nil {
		return err
	}
	return w.follow(target)
}

var errNotDirectory = errors.New("not a directory")

// look finds the entry of the current directory that a name means. Its info is nil
// if it does not exist.
func (w *walk) look(name string) (string, fs.FileInfo, error) {
	info, err := w.root.Lstat(path.Join(w.at(), name))
	if err == nil {
		return name, info, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", nil, err
	}
	dir, err := w.root.Open(w.at())
	if errors.Is(err, fs.ErrNotExist) {
		return name, nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = dir.Close() }() // opened for reading
	entries, err := dir.Readdirnames(-1)
	if err != nil {
		return "", nil, err
	}
	// Two entries that differ only in case cannot come from Windows; the
	// first in order wins, so that the answer is the same each time.
	found := ""
	for _, n := range entries {
		if strings.EqualFold(n, name) && (found == "" || n < found) {
			found = n
		}
	}
	if found == "" {
		return name, nil, nil
	}
	info, err = w.root.Lstat(path.Join(w.at(), found))
	if errors.Is(err, fs.ErrNotExist) {
		return name, nil, nil
	}
	return found, info, err
}

// follow puts a link's target before the remaining elements.
func (w *walk) follow(target string) error {
	var elems []string
	base := filepath.ToSlash(w.root.Name())
	switch rest, inside := strings.CutPrefix(target, base); {
	case inside && base != "/" && (rest == "" || rest[0] == '/'):
		// A Unix path into the drive, as Wine's own links are.
		w.done = nil
		elems = names(rest)
	case KindOf(target) == Relative:
		elems = names(target)
	default:
		var err error
		if elems, err = splitElements(target); err != nil {
			return err
		}
		w.done = nil
	}
	for _, e := range elems {
		if strings.ContainsAny(e, "\x00:") {
			return fmt.Errorf("link to %q: %w", target, errInvalid)
		}
	}
	w.todo = append(append([]string{}, elems...), w.todo...)
	return nil
}

// names splits at both separators and keeps "..", which after a link means
// the parent of the link's target.
func names(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '\\' || r == '/' })
}
