// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import "path/filepath"

// diskName is the directory of a host on which process 1 mounts the host's disk, and, with ".img",
// the file with that disk. All files that the host and its pods write are there, except a few of
// bounded size. A full disk affects neither the machine nor another host.
const diskName = "disk"

// Disk is where process 1 of a host finds the host's disk; dir is the host's directory.
func Disk(dir string) string { return filepath.Join(dir, diskName) }

// Sizes of disks, in bytes.
const (
	// leastDisk is the least that a host can work with: the images of a few programs.
	leastDisk = 1 << 30
	shareDisk = 2 << 30   // the minimum of a host without a size
	mostDisk  = 100 << 30 // and at most
	// leastFree is the room that the machine's disk must have for a host to run: data that
	// the kernel has not written back yet must find room there.
	leastFree = 192 << 20
)

// diskSize returns the size of the disk of a new host: all hosts together get three quarters of
// the machine's free space.
func diskSize(m Machine, hosts int) int64 {
	share := m.DiskBytes * 3 / 4 / int64(max(hosts, 1))
	return min(max(share>>30<<30, shareDisk), mostDisk)
}
