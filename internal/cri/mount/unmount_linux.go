// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Unmount takes everything down that is mounted at a directory; it is not an error
// if there is no mount. The mounts are detached even if they are in use, because
// all processes of the container are gone when this is called.
func Unmount(dir string) error {
	for {
		err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil
		case err != nil:
			return fmt.Errorf("unmount %s: %w", dir, err)
		}
	}
}

// UnmountBelow takes down everything that is mounted below a directory, so that
// the directory can be removed without touching the mounted content.
func UnmountBelow(dir string) error {
	mounts, err := Below(dir)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if err := Unmount(m); err != nil {
			return err
		}
	}
	if mounts, err = Below(dir); err == nil && len(mounts) > 0 {
		err = fmt.Errorf("unmount %s: still mounted: %v", dir, mounts)
	}
	return err
}

// Below lists the mount points below a directory, deepest first; see
// proc_pid_mountinfo(5).
func Below(dir string) ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return below(string(data), dir), nil
}

// below reads the content of mountinfo, whose lines may have any length: one that mounts many layers has more than
// 64 KiB.
func below(mountinfo, dir string) []string {
	var out []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		// Spaces and the like are written in octal.
		name := unescapeOctal(fields[4])
		if rel, err := filepath.Rel(dir, name); err == nil && rel != "." && filepath.IsLocal(rel) {
			out = append(out, name)
		}
	}
	slices.Reverse(out)
	return out
}

func unescapeOctal(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
