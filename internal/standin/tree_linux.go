// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package standin

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cri/image"
)

// writeTree creates a layer directory. As root, all files belong to the user
// that containers run as, who may change all of Windows' files.
func writeTree(dir string, files map[string]file) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, full := files[name], filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		var err error
		switch {
		case f.whiteout:
			if err = unix.Mknod(full, unix.S_IFCHR, 0); err != nil {
				err = fmt.Errorf("whiteout %s: %w", full, err)
			}
		case f.dir:
			err = os.MkdirAll(full, 0o755)
		case f.link != "":
			err = os.Link(f.link, full)
		default:
			err = os.WriteFile(full, f.text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, image.DefaultID, image.DefaultID)
	})
}
