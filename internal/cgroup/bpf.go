// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// limitDevices lets the processes of a version 2 group use only the devices of a list. The program is attached until
// the group is removed. Groups below may have programs of their own, as runc makes them for containers.
func limitDevices(dir string, list []string) error {
	program, err := deviceProgram(list)
	if err != nil {
		return err
	}
	fd, err := loadProgram(program)
	if err != nil {
		return fmt.Errorf("load the program that limits devices (the kernel needs CONFIG_CGROUP_BPF): %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // the group holds the program
	group, err := os.Open(dir)
	if err != nil {
		return err
	}
	attr := struct{ target, program, kind, flags uint32 }{uint32(group.Fd()), uint32(fd),
		unix.BPF_CGROUP_DEVICE, unix.BPF_F_ALLOW_MULTI}
	_, err = bpf(unix.BPF_PROG_ATTACH, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return errors.Join(err, group.Close())
}

// loadProgram returns a file descriptor of the program.
func loadProgram(program []instruction) (int, error) {
	license := []byte("Apache-2.0\x00") // some helpers require the GPL; the program calls no helper
	// The first fields of union bpf_attr for BPF_PROG_LOAD (linux/bpf.h); the kernel takes the rest as 0.
	attr := struct {
		kind, count           uint32
		instructions, license uint64
	}{unix.BPF_PROG_TYPE_CGROUP_DEVICE, uint32(len(program)), uint64(uintptr(unsafe.Pointer(&program[0]))),
		uint64(uintptr(unsafe.Pointer(&license[0])))}
	fd, err := bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	runtime.KeepAlive(program)
	runtime.KeepAlive(license)
	return fd, err
}

// bpf is bpf(2).
func bpf(command uintptr, attr unsafe.Pointer, size uintptr) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attr), size)
	if errno != 0 {
		return 0, os.NewSyscallError("bpf", errno)
	}
	return int(r), nil
}
