// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// measure reads the machine's resources. dir is the host's directory.
func measure(dir string) (Machine, error) {
	var m Machine
	var err error
	if m.CPUs, err = affinity(); err != nil {
		return m, err
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return m, fmt.Errorf("measure machine: read size of memory: %w", err)
	}
	m.MemoryBytes = int64(info.Totalram) * int64(info.Unit)
	// Both bound processes and threads; proc_sys_kernel(5).
	for _, name := range []string{"pid_max", "threads-max"} {
		text, err := os.ReadFile("/proc/sys/kernel/" + name)
		if err != nil {
			return m, fmt.Errorf("measure machine: %w", err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return m, fmt.Errorf("measure machine: read %s: %w", name, err)
		}
		if m.Tasks == 0 || n < m.Tasks {
			m.Tasks = n
		}
	}
	m.DiskBytes, err = freeBytes(dir)
	return m, err
}

// freeBytes returns the free space of the disk on which a directory lies.
func freeBytes(dir string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("read free space of %s: %w", dir, err)
	}
	return int64(fs.Bavail) * fs.Bsize, nil
}
