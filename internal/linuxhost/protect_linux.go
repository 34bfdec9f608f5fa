// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/host"
)

// ProtectCommand is the argument of this program that makes it a hook of runc, see Protect.
const ProtectCommand = "protect"

// protected are the mounts of a privileged container in the end: parameters of the machine's
// kernel are read-only, as in every other container. Parameters of the pod's own namespaces
// stay writable, and are bound before the directory that contains them: its network, its
// message queues, semaphores and shared memory, and its name.
func protected() []settled {
	const fixed = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | host.Inert
	list := []settled{{path: "sys/devices/virtual/net", bind: true}}
	for own := range strings.FieldsSeq(`net fs/mqueue kernel/hostname kernel/domainname kernel/msgmax kernel/msgmnb
		kernel/msgmni kernel/auto_msgmni kernel/msg_next_id kernel/sem kernel/sem_next_id kernel/shmall kernel/shmmax
		kernel/shmmni kernel/shm_next_id kernel/shm_rmid_forced`) {
		list = append(list, settled{path: "proc/sys/" + own, bind: true})
	}
	for shared := range strings.FieldsSeq(`proc/sys proc/irq proc/bus proc/fs proc/acpi proc/scsi proc/mtrr
		proc/sysrq-trigger sys`) {
		list = append(list, settled{path: shared, bind: true, flags: fixed})
	}
	return list
}

// specification is the part of an OCI specification that Protect uses.
type specification struct {
	Root struct {
		Path string `json:"path"`
	} `json:"root"`
	Linux struct {
		ReadonlyPaths []string          `json:"readonlyPaths"`
		UIDMappings   []json.RawMessage `json:"uidMappings"`
	} `json:"linux"`
}

// Protect is the createContainer hook of all containers (OCI runtime specification 1.0.2,
// config.md, "CreateContainer Hooks"): it runs in the mount namespace of a container, before the
// container has it for its root. runc mounts a new /proc and /sys in each; in a privileged one
// they would be writable, and with them the machine's kernel.
func Protect(state io.Reader) error {
	var container struct {
		Bundle string `json:"bundle"`
	}
	if err := json.NewDecoder(state).Decode(&container); err != nil {
		return fmt.Errorf("read the state of the container: %w", err)
	}
	content, err := os.ReadFile(filepath.Join(container.Bundle, "config.json"))
	var spec specification
	if err == nil {
		err = json.Unmarshal(content, &spec)
	}
	if err != nil {
		return fmt.Errorf("read the container's specification: %w", err)
	}
	// In a separate user namespace, root may not write the machine's parameters.
	if slices.Contains(spec.Linux.ReadonlyPaths, "/proc/sys") || len(spec.Linux.UIDMappings) > 0 {
		return nil
	}
	root := spec.Root.Path
	if !filepath.IsAbs(root) {
		root = filepath.Join(container.Bundle, root)
	}
	return settle(root, slices.DeleteFunc(protected(), func(p settled) bool { return !ofKernel(root, p.path) }))
}

// ofKernel reports whether a path below root exists on the file system that belongs there, and
// not on a volume, which may have links.
func ofKernel(root, path string) bool {
	var at unix.Statfs_t
	err := unix.Statfs(filepath.Join(root, path), &at)
	return err == nil && (at.Type == unix.PROC_SUPER_MAGIC || at.Type == unix.SYSFS_MAGIC)
}
