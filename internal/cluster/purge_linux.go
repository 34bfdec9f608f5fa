// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/winhost"
)

// Purge removes the cluster's directory. It first detaches mounts below it, which
// a crash may have left: removing files through a mount would delete files that
// belong to others.
func Purge(l Layout) error {
	pid, err := durable.Holder(l.lock())
	if err != nil {
		return err
	}
	if pid != 0 {
		return fmt.Errorf("remove %s: the cluster runs (process %d)", l.Dir(), pid)
	}
	if err := unmountBelow(l.Dir()); err != nil {
		return err
	}
	if err := os.RemoveAll(l.Dir()); err != nil {
		return fmt.Errorf("remove data: %w", err)
	}
	return removeIfLast(l)
}

// removeIfLast removes the shared cache and the data directory itself if no
// cluster is left in it. It keeps a directory that contains foreign files.
func removeIfLast(l Layout) error {
	names, err := Names(l.DataDir)
	if err != nil || len(names) > 0 {
		return err
	}
	if err := unmountBelow(l.cache()); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(l.cache()), os.RemoveAll(l.clusters()), os.RemoveAll(l.staging())); err != nil {
		return fmt.Errorf("remove data: %w", err)
	}
	err = os.Remove(l.DataDir)
	// A file system of its own, such as a container's volume, stays mounted.
	for _, fine := range []error{unix.ENOTEMPTY, unix.EBUSY, os.ErrNotExist} {
		if errors.Is(err, fine) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("remove data: %w", err)
	}
	return nil
}

// PruneCache removes files of earlier versions of Wine or mullion from the shared
// cache if no host of any cluster uses them, and returns their names.
func PruneCache(l Layout) ([]string, error) {
	hosts, err := filepath.Glob(filepath.Join(l.clusters(), "*", "nodes", "*"))
	if err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	return winhost.PruneCache(l.cache(), hosts)
}

// unmountBelow detaches every mount at or below dir, the deepest first.
func unmountBelow(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	defer f.Close()
	var points []string
	for s := bufio.NewScanner(f); s.Scan(); {
		// Field 5 is the mount point, with blanks and the like as octal (proc(5)).
		fields := strings.Fields(s.Text())
		if len(fields) < 5 {
			continue
		}
		p := unescape(fields[4])
		if p == dir || strings.HasPrefix(p, dir+"/") {
			points = append(points, p)
		}
	}
	slices.SortFunc(points, func(a, b string) int { return len(b) - len(a) })
	for _, p := range points {
		if err := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", p, err)
		}
	}
	return nil
}

func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
