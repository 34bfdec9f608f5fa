// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// checkLibraries returns an error if a program or library needs a library that is not in the directory: the list of
// packages lacks one. A new version of a package may need another package.
func checkLibraries(dir fs.FS) error {
	return fs.WalkDir(dir, "usr", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if strings.HasPrefix(name, "usr/share/") || path.Dir(name) == pePath {
			return nil // neither has Linux programs
		}
		data, err := fs.ReadFile(dir, name)
		if err != nil || !bytes.HasPrefix(data, []byte(elf.ELFMAG)) {
			return err
		}
		file, err := elf.NewFile(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		libraries, err := file.ImportedLibraries()
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		for _, l := range libraries {
			_, err := fs.Stat(dir, libPath+"/"+l)
			if err != nil && path.Dir(name) == unixPath {
				_, err = fs.Stat(dir, unixPath+"/"+l)
			}
			if err != nil {
				return fmt.Errorf("%s needs %s, which no package of the list has: add the package with it", name, l)
			}
		}
		return nil
	})
}
