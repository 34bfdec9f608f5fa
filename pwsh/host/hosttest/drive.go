// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hosttest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// Drive is a FileSystem whose drive C: is a directory of the machine. Names have
// drives and backslashes, and their case does not matter, as on Windows.
type Drive struct{ Dir string }

// name returns the machine's name of a file. Elements that exist under another
// case are found by it.
func (d Drive) name(path string) (string, error) {
	rest, ok := strings.CutPrefix(strings.ToUpper(path[:min(2, len(path))])+path[min(2, len(path)):], "C:")
	if !ok {
		return "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	name := d.Dir
	for part := range strings.SplitSeq(rest, `\`) {
		if part == "" {
			continue
		}
		if entries, err := os.ReadDir(name); err == nil {
			for _, e := range entries {
				if strings.EqualFold(e.Name(), part) {
					part = e.Name()
				}
			}
		}
		name = filepath.Join(name, part)
	}
	return name, nil
}

// OpenFile opens a file.
func (d Drive) OpenFile(name string, flag int, perm fs.FileMode) (host.File, error) {
	n, err := d.name(name)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(n, flag, perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Stat describes a file, following links.
func (d Drive) Stat(name string) (fs.FileInfo, error) {
	n, err := d.name(name)
	if err != nil {
		return nil, err
	}
	return os.Stat(n)
}

// Lstat describes a file.
func (d Drive) Lstat(name string) (fs.FileInfo, error) {
	n, err := d.name(name)
	if err != nil {
		return nil, err
	}
	return os.Lstat(n)
}

// ReadDir lists a directory.
func (d Drive) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := d.name(name)
	if err != nil {
		return nil, err
	}
	return os.ReadDir(n)
}

// MkdirAll creates a directory and its parents.
func (d Drive) MkdirAll(name string, perm fs.FileMode) error {
	n, err := d.name(name)
	if err != nil {
		return err
	}
	return os.MkdirAll(n, perm)
}

// Remove removes a file or an empty directory.
func (d Drive) Remove(name string) error {
	n, err := d.name(name)
	if err != nil {
		return err
	}
	return os.Remove(n)
}

// RemoveAll removes a directory with its contents.
func (d Drive) RemoveAll(name string) error {
	n, err := d.name(name)
	if err != nil {
		return err
	}
	return os.RemoveAll(n)
}

// Rename moves a file.
func (d Drive) Rename(from, to string) error {
	f, err := d.name(from)
	if err != nil {
		return err
	}
	t, err := d.name(to)
	if err != nil {
		return err
	}
	return os.Rename(f, t)
}

// Symlink creates a link. The target is stored unchanged.
func (d Drive) Symlink(target, name string) error {
	t, err := d.name(target)
	if err != nil {
		return err
	}
	n, err := d.name(name)
	if err != nil {
		return err
	}
	return os.Symlink(t, n)
}

// Readlink returns the target of a link.
func (d Drive) Readlink(name string) (string, error) {
	n, err := d.name(name)
	if err != nil {
		return "", err
	}
	target, err := os.Readlink(n)
	if rest, ok := strings.CutPrefix(target, d.Dir); ok {
		target = "C:" + strings.ReplaceAll(rest, "/", `\`)
	}
	return target, err
}

// Chtimes changes the times of a file.
func (d Drive) Chtimes(name string, access, modify time.Time) error {
	n, err := d.name(name)
	if err != nil {
		return err
	}
	return os.Chtimes(n, access, modify)
}

// TempDir returns C:\Temp.
func (Drive) TempDir() string { return `C:\Temp` }

// Drives returns only C:\.
func (Drive) Drives() []string { return []string{`C:\`} }
