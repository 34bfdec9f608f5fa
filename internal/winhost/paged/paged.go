// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package paged lays Windows executables out so that Linux can map them.
//
// The sections of a PE file usually begin at multiples of 512 bytes. mmap(2)
// wants multiples of a page, so Wine reads such sections into memory of its
// own (dlls/ntdll/unix/virtual.c, map_file_into_view): every kubelet.exe costs
// 80 MB that nobody shares. A paged copy has its sections at multiples of 4096:
// only the pages that are used are in memory, once for all hosts.
//
// What a program sees of itself in memory is the same, byte for byte, except
// for the file offsets in its headers; a test checks it. The file of the
// original is left alone.
package paged

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// page is the smallest page of x86-64, and the section alignment of PE files.
const page = 4096

// Offsets and sizes of Microsoft's "PE Format"
// (learn.microsoft.com/windows/win32/debug/pe-format, read 2026-11).
const (
	lfanew         = 0x3c // in the DOS header: where the PE header is
	coffSize       = 20
	sectionSize    = 40
	optMagic       = 0x20b // PE32+
	optFileAlign   = 36
	optHeadersSize = 60
	optDirectories = 112 // after NumberOfRvaAndSizes
	dirSecurity    = 4   // certificates: the one directory with a file offset
	dirDebug       = 6   // its entries have file offsets, too
)

// ErrUnsuitable is returned for files that are not laid out anew: no 64-bit
// programs, or ones with parts that are found by their place in the file.
var ErrUnsuitable = errors.New("not a plain 64-bit Windows program")

// Convert returns the paged form of a PE file.
func Convert(in []byte) ([]byte, error) {
	bad := func(why string) ([]byte, error) { return nil, fmt.Errorf("%w: %s", ErrUnsuitable, why) }
	le := binary.LittleEndian
	if len(in) < lfanew+4 || string(in[:2]) != "MZ" {
		return bad("no DOS header")
	}
	pe := uint64(le.Uint32(in[lfanew:]))
	if pe+4+coffSize > uint64(len(in)) || string(in[pe:pe+4]) != "PE\x00\x00" {
		return bad("no PE header")
	}
	coff := in[pe+4:]
	sections, optSize := uint64(le.Uint16(coff[2:])), uint64(le.Uint16(coff[16:]))
	opt := pe + 4 + coffSize
	table := opt + optSize
	headers := table + sections*sectionSize
	if optSize < optDirectories || headers > uint64(len(in)) || le.Uint16(in[opt:]) != optMagic {
		return bad("not PE32+")
	}
	if headers > page {
		return bad("the headers are longer than a page")
	}
	count := uint64(le.Uint32(in[opt+optDirectories-4:]))
	for _, dir := range []uint64{dirSecurity, dirDebug} {
		at := opt + optDirectories + dir*8
		if dir < count && (at+8 > table || le.Uint32(in[at+4:]) != 0) {
			return bad("it has certificates or debugging data")
		}
	}
	out := make([]byte, page, len(in)+int(sections+1)*page)
	copy(out, in[:headers])
	le.PutUint32(out[opt+optFileAlign:], page)
	le.PutUint32(out[opt+optHeadersSize:], page)
	// Symbols are for debuggers that read the file.
	le.PutUint32(out[pe+4+8:], 0)
	le.PutUint32(out[pe+4+12:], 0)
	for i := range sections {
		h := table + i*sectionSize
		size, from := uint64(le.Uint32(in[h+16:])), uint64(le.Uint32(in[h+20:]))
		if size == 0 {
			le.PutUint32(out[h+20:], 0)
			continue
		}
		if from+size > uint64(len(in)) {
			return bad("a section reaches beyond the file")
		}
		le.PutUint32(out[h+20:], uint32(len(out)))
		out = append(out, in[from:from+size]...)
		out = append(out, make([]byte, -len(out)&(page-1))...)
		le.PutUint32(out[h+16:], uint32((size+page-1)&^(page-1)))
	}
	return out, nil
}
