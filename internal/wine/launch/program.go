// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
)

// errOtherMachine is ERROR_EXE_MACHINE_TYPE_MISMATCH in Windows' own words, which Nano Server reports for 32-bit
// programs too. Server Core runs these.
var errOtherMachine = errors.New("This version of %1 is not compatible with " + //nolint:staticcheck // see above
	"the version of Windows you're running. Check your computer's system information and then contact " +
	"the software publisher.")

// Offsets and values of a program's headers, and their sizes: winnt.h.
const (
	dosHeaderSize, peOffset           = 64, 60
	peHeaderSize, optionalMagic       = 24, 24
	machine, sections                 = 4, 6
	optionalHeaderSize, features      = 20, 22
	sectionSize, rawSize, rawOffset   = 40, 16, 20
	machineAMD64, featureDLL, magic64 = 0x8664, 0x2000, 0x20B
)

// checkProgram fails for a file that is neither a batch file nor a program that can run. Wine would run a program of
// Linux, and print messages of its own about the others.
func checkProgram(file string) error {
	if isBatch(file) {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return windowsError(err)
	}
	defer func() { _ = f.Close() }() // opened for reading
	info, err := f.Stat()
	if err != nil {
		return windowsError(err)
	}
	return checkImage(f, info.Size())
}

// checkImage checks the headers of a program.
func checkImage(r io.ReaderAt, size int64) error {
	u16, u32 := binary.LittleEndian.Uint16, binary.LittleEndian.Uint32
	var dos [dosHeaderSize]byte
	if _, err := r.ReadAt(dos[:], 0); err != nil || string(dos[:2]) != "MZ" {
		return errBadImage
	}
	at := int64(u32(dos[peOffset:]))
	var h [peHeaderSize + 2]byte
	if _, err := r.ReadAt(h[:], at); err != nil || string(h[:4]) != "PE\x00\x00" || u16(h[machine:]) != machineAMD64 {
		return errOtherMachine // the others are for DOS or 16-bit Windows
	}
	if u16(h[optionalMagic:]) != magic64 || u16(h[features:])&featureDLL != 0 {
		return errBadImage
	}
	table := make([]byte, int(u16(h[sections:]))*sectionSize)
	if n, _ := r.ReadAt(table, at+peHeaderSize+int64(u16(h[optionalHeaderSize:]))); n < len(table) {
		return errBadImage
	}
	for s := range slices.Chunk(table, sectionSize) {
		if n := int64(u32(s[rawSize:])); n > 0 && int64(u32(s[rawOffset:]))+n > size {
			return errBadImage // the file is cut off
		}
	}
	return nil
}
