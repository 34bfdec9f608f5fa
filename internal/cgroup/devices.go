// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cgroup

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Version 2 has no list of devices: the kernel runs programs that are attached to the group and to the groups above it,
// each of which must agree (Documentation/admin-guide/cgroup-v2.rst, "Device controller").

// instruction is one of the kernel's virtual machine, in the layout of struct bpf_insn (linux/bpf.h). Destination and
// source share a byte, the destination in the lower half.
type instruction struct {
	code      uint8
	registers uint8
	offset    int16 // of a jump: instructions to skip
	immediate int32
}

// The instructions that the program needs (linux/bpf_common.h and linux/bpf.h): class, size or operation, and where
// the operand comes from.
const (
	loadWord    = 0x61 // BPF_LDX | BPF_MEM | BPF_W
	moveNumber  = 0xb7 // BPF_ALU64 | BPF_MOV | BPF_K
	moveCopy    = 0xbf // BPF_ALU64 | BPF_MOV | BPF_X
	and         = 0x57 // BPF_ALU64 | BPF_AND | BPF_K
	shiftRight  = 0x77 // BPF_ALU64 | BPF_RSH | BPF_K
	jumpUnless  = 0x55 // BPF_JMP | BPF_JNE | BPF_K
	jumpUnequal = 0x5d // BPF_JMP | BPF_JNE | BPF_X
	exit        = 0x95 // BPF_JMP | BPF_EXIT
)

// Registers: the result, the context and the program's copies of its fields.
const (
	result = iota
	request
	kind
	access
	major
	minor
)

// registers returns how an instruction names the register that it reads and that it writes.
func registers(from, to uint8) uint8 { return from<<4 | to }

// wildcard stands for every number of a device.
const wildcard = math.MaxUint32

// device is one entry of a list in the words of version 1's devices controller.
type device struct {
	kind         int32 // BPF_DEVCG_DEV_…
	major, minor uint32
	access       int32 // BPF_DEVCG_ACC_… together
}

// parseDevice reads "c 136:* rwm".
func parseDevice(s string) (device, error) {
	bad := fmt.Errorf("device %q: want a type, numbers and rights, as %q", s, "c 1:3 rwm")
	f := strings.Fields(s)
	if len(f) != 3 {
		return device{}, bad
	}
	var d device
	switch f[0] {
	case "b":
		d.kind = unix.BPF_DEVCG_DEV_BLOCK
	case "c":
		d.kind = unix.BPF_DEVCG_DEV_CHAR
	default:
		return device{}, bad
	}
	first, second, ok := strings.Cut(f[1], ":")
	var ok1, ok2 bool
	d.major, ok1 = deviceNumber(first)
	d.minor, ok2 = deviceNumber(second)
	if !ok || !ok1 || !ok2 {
		return device{}, bad
	}
	for _, r := range f[2] {
		right, known := map[rune]int32{'m': unix.BPF_DEVCG_ACC_MKNOD, 'r': unix.BPF_DEVCG_ACC_READ,
			'w': unix.BPF_DEVCG_ACC_WRITE}[r]
		if !known {
			return device{}, bad
		}
		d.access |= right
	}
	return d, nil
}

// deviceNumber reads one number, or "*". The kernel has 12 bits for a major and 20 for a minor number.
func deviceNumber(s string) (uint32, bool) {
	if s == "*" {
		return wildcard, true
	}
	n, err := strconv.ParseUint(s, 10, 20)
	return uint32(n), err == nil
}

// deviceProgram returns the program that allows the devices on the list. Its context is struct bpf_cgroup_dev_ctx: type
// and access in the two halves of a word, then the numbers. A result of 1 allows.
func deviceProgram(list []string) ([]instruction, error) {
	load := func(to uint8, offset int16) instruction {
		return instruction{loadWord, registers(request, to), offset, 0}
	}
	program := []instruction{
		load(kind, 0),
		{and, kind, 0, 0xffff},
		load(access, 0),
		{shiftRight, access, 0, 16},
		load(major, 4),
		load(minor, 8),
	}
	for _, s := range list {
		d, err := parseDevice(s)
		if err != nil {
			return nil, err
		}
		program = append(program, d.check()...)
	}
	return append(program, instruction{moveNumber, result, 0, 0}, instruction{code: exit}), nil
}

// check returns the part of the program that allows a request for the device, and goes on otherwise.
func (d device) check() []instruction {
	// All requested access must be allowed.
	part := []instruction{
		{jumpUnless, kind, 0, d.kind},
		{moveCopy, registers(access, result), 0, 0},
		{and, result, 0, d.access},
		{jumpUnequal, registers(access, result), 0, 0},
	}
	if d.major != wildcard {
		part = append(part, instruction{jumpUnless, major, 0, int32(d.major)})
	}
	if d.minor != wildcard {
		part = append(part, instruction{jumpUnless, minor, 0, int32(d.minor)})
	}
	part = append(part, instruction{moveNumber, result, 0, 1}, instruction{code: exit})
	for i := range part {
		if c := part[i].code; c == jumpUnless || c == jumpUnequal {
			part[i].offset = int16(len(part) - i - 1)
		}
	}
	return part
}
