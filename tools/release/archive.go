// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// writeArchive writes a .tar.gz with all files below mullion/.
func (r release) writeArchive(name string, files []entry) error {
	below := slices.Clone(files)
	for i := range below {
		below[i].name = "mullion/" + below[i].name
	}
	return r.writeTarGz(name, below)
}

// writeTarGz writes a compressed archive of the files and their directories.
func (r release) writeTarGz(name string, files []entry) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewWriterLevel(f, r.level)
	if err != nil {
		return err
	}
	return errors.Join(r.tarTo(z, files), z.Close())
}

// writeTar writes an archive of files that are compressed already.
func (r release) writeTar(name string, files []entry) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return r.tarTo(f, files)
}

// tarTo writes the files and their directories as an archive.
func (r release) tarTo(w io.Writer, files []entry) error {
	t := tar.NewWriter(w)
	for _, e := range withDirectories(files) {
		if err := r.add(t, e); err != nil {
			return fmt.Errorf("write %s: %w", e.name, err)
		}
	}
	return t.Close()
}

// withDirectories puts the files in order, each directory before its content, and adds missing directories.
func withDirectories(files []entry) []entry {
	all := map[string]entry{}
	for _, e := range files {
		all[e.name] = e
	}
	for _, e := range files {
		for d := path.Dir(strings.TrimSuffix(e.name, "/")); d != "."; d = path.Dir(d) {
			if _, ok := all[d+"/"]; !ok {
				all[d+"/"] = entry{name: d + "/", mode: fs.ModeDir | 0o755}
			}
		}
	}
	sorted := make([]entry, 0, len(all))
	for _, e := range all {
		sorted = append(sorted, e)
	}
	slices.SortFunc(sorted, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return sorted
}

func (r release) add(t *tar.Writer, e entry) (err error) {
	h := &tar.Header{
		Name:     e.name,
		Mode:     int64(e.mode.Perm()),
		ModTime:  r.date,
		Typeflag: tar.TypeReg,
		Uname:    "root",
		Gname:    "root",
		Format:   tar.FormatPAX,
	}
	for special, bits := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000,
		fs.ModeSticky: 0o1000} {
		if e.mode&special != 0 {
			h.Mode |= bits
		}
	}
	switch e.mode.Type() {
	case fs.ModeDir:
		h.Typeflag = tar.TypeDir
		return t.WriteHeader(h)
	case fs.ModeSymlink:
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, string(e.text), 0o777
		return t.WriteHeader(h)
	}
	in, size, err := e.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	h.Size = size
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(t, in)
	return err
}
