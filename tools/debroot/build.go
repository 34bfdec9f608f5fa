// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// maxTree limits the size of all unpacked files together in bytes, which have 0.4 GB.
	maxTree = 1 << 30
	// layout is increased when another directory comes out of the same list and rules.
	layout = 2
	// recordName is the file in the directory that lists what is inside.
	recordName = "packages.json"
)

// builder makes a directory out of packages.
type builder struct {
	list   list
	dir    string // to make
	cache  string // the directory for downloads, or "" for none
	mirror func() (mirror, error)
	keys   []byte // armored, of the archive
	out    io.Writer
	tty    bool // reports whether out is a terminal

	// successors are the packages of the mirror's index, after one of the list was not on the mirror.
	successors map[string]pkg
}

// record is the content of packages.json.
type record struct {
	Packages []pkg  `json:"packages"` // that are inside
	List     string `json:"list"`     // a checksum of the list and of the rules of this program
	Tree     string `json:"tree"`     // a checksum of the files' names, sizes and times
}

// build makes the directory, unless it is there already. Until the end it has its old content, or none. The directory
// above is locked, because it stays when this one is replaced.
func (b *builder) build(ctx context.Context) (err error) {
	above := filepath.Dir(b.dir)
	if err := os.MkdirAll(above, 0o755); err != nil {
		return err
	}
	locked, err := lock(ctx, above, b.out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locked.Close()) }()
	fresh := beside(b.dir, "new")
	for _, left := range []string{fresh, beside(b.dir, "old")} { // by a run that was killed
		if err := os.RemoveAll(left); err != nil {
			return err
		}
	}
	r, err := b.readRecord()
	if err != nil {
		return err
	}
	want := b.list.sum()
	if r.List == want {
		if tree, _, err := treeSum(b.dir); err == nil && tree == r.Tree {
			return nil
		}
	}
	if !b.tty {
		fmt.Fprintf(b.out, "debroot: making %s out of %d packages\n", b.dir, len(b.list.packages))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(fresh)) }()
	inside, err := b.unpackAll(ctx, fresh)
	b.progress("")
	if err != nil {
		return err
	}
	tree, size, err := treeSum(fresh)
	if err != nil {
		return err
	}
	r.Packages, r.List, r.Tree = inside, want, tree
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(fresh, recordName), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if err := replace(b.dir, fresh); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "debroot: %s has %d packages, %d MB\n", b.dir, len(inside), size/1e6)
	return nil
}

// beside returns a hidden name beside a directory.
func beside(dir, suffix string) string {
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+"."+suffix)
}

// readRecord returns what the directory has. It refuses a directory that this program has not made.
func (b *builder) readRecord() (record, error) {
	var r record
	text, err := os.ReadFile(filepath.Join(b.dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		if files, _ := os.ReadDir(b.dir); len(files) > 0 {
			return r, fmt.Errorf("replace %s: it has no %s, so debroot did not make it: remove it, or choose another",
				b.dir, recordName)
		}
		return r, nil
	}
	if err == nil && json.Unmarshal(text, &r) != nil {
		r = record{} // a damaged one is replaced
	}
	return r, err
}

// sum returns a checksum of the list and of the files that are kept of the packages.
func (l list) sum() string {
	h := sha256.New()
	fmt.Fprintln(h, layout, l.packages, kept(), skipped(), skippedUnix(), skippedPE())
	return hex.EncodeToString(h.Sum(nil))
}

// treeSum returns a checksum of the names, sizes, modes and times of a directory's files, and their size together.
func treeSum(dir string) (sum string, size int64, err error) {
	h := sha256.New()
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == filepath.Join(dir, recordName) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(name)
			fmt.Fprintf(h, "%q %q\n", rel, target)
			return err
		}
		size += info.Size()
		fmt.Fprintf(h, "%q %d %v %d\n", rel, info.Size(), info.Mode(), info.ModTime().Unix())
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// unpackAll unpacks the packages into a new directory and returns those that are inside.
func (b *builder) unpackAll(ctx context.Context, dir string) (inside []pkg, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	left := int64(maxTree)
	for i, p := range b.list.packages {
		b.progress("%d of %d: %s", i+1, len(b.list.packages), p.Name)
		p, data, err := b.obtain(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("download %s %s: %w", p.Name, p.Version, err)
		}
		if err := unpack(ctx, bytes.NewReader(data), root, &left); err != nil {
			return nil, fmt.Errorf("unpack %s %s: %w", p.Name, p.Version, err)
		}
		inside = append(inside, p)
	}
	// As in Debian, where all programs and libraries are below /usr; file-hierarchy(7).
	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		if err := root.Symlink("usr/"+name, name); err != nil {
			return nil, err
		}
	}
	if err := markBuiltin(root, zlibPlace); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("mark %s: %w", zlibPlace, err)
	}
	return inside, checkLibraries(root.FS())
}

// markBuiltin marks a DLL as a module of Wine, as Debian's libwine does with zlib1.dll when it is installed: Wine loads
// no other from its directory (server/mapping.c, get_image_params).
func markBuiltin(root *os.Root, name string) (err error) {
	const mark, at, size = "Wine builtin DLL\x00", 0x40, 32 // behind the DOS header, in place of its program
	f, err := root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	header := make([]byte, at)
	if _, err := io.ReadFull(f, header); err != nil {
		return err
	}
	if header[0] != 'M' || header[1] != 'Z' || binary.LittleEndian.Uint32(header[0x3c:]) < at+size {
		return errors.New("no room for the mark in the DOS header")
	}
	_, err = f.WriteAt(append([]byte(mark), make([]byte, size-len(mark))...), at)
	return err
}

// obtain returns a package and its content. If the package left the mirror, these are the ones of its successor.
func (b *builder) obtain(ctx context.Context, p pkg) (pkg, []byte, error) {
	data, gone := b.fetch(ctx, p.path, p.size, p.SHA256)
	if !errors.Is(gone, fs.ErrNotExist) {
		return p, data, gone
	}
	if b.successors == nil {
		var err error
		if b.successors, err = b.index(ctx); err != nil {
			return p, nil, fmt.Errorf("%w; find its successor: %w", gone, err)
		}
	}
	next := b.successors[p.Name]
	switch {
	case next.Name == "":
		return p, nil, fmt.Errorf("%w, and the index of %s has no package of this name", gone, suite)
	case next == p:
		return p, nil, fmt.Errorf("%w, but it is in the index: %s", gone, otherMirror)
	}
	b.progress("")
	fmt.Fprintf(b.out, "debroot: %s %s is no longer on the mirror: using %s\n", p.Name, p.Version, next.Version)
	data, err := b.fetch(ctx, next.path, next.size, next.SHA256)
	return next, data, err
}

// update replaces the packages of the list by those of the same names in the mirror's index, and writes the list.
func (b *builder) update(ctx context.Context, name string) error {
	found, err := b.index(ctx)
	if err != nil {
		return fmt.Errorf("update the list: %w", err)
	}
	for i, p := range b.list.packages {
		if b.list.packages[i] = found[p.Name]; found[p.Name].Name == "" {
			return fmt.Errorf("update the list: the index of %s has no package %s", suite, p.Name)
		}
	}
	return b.list.write(name)
}

// replace puts the directory fresh in the place of dir.
func replace(dir, fresh string) error {
	old := beside(dir, "old")
	if err := os.Rename(dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, dir); err != nil {
		return err
	}
	return os.RemoveAll(old)
}

// progress replaces the line at the end of a terminal.
func (b *builder) progress(format string, args ...any) {
	if b.tty {
		fmt.Fprintf(b.out, "\r\x1b[K"+format, args...)
	}
}
