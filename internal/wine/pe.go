// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// winemendDLL fixes Wine's differences from Windows inside each process
// (native/winemend).
const winemendDLL = "winemend.dll"

// patchedModule is the module that gets an import of winemendDLL in a runtime. It
// is the one that every Windows process loads and that is not ntdll.dll (which has
// no imports).
const patchedModule = "kernelbase.dll"

// Offsets in a PE32+ file, from Microsoft's "PE Format" specification.
const (
	peOffsetField     = 0x3c // of the DOS header: offset of the PE header
	fileHeaderSize    = 24   // signature and COFF header
	magicPE32Plus     = 0x20b
	sectionHeaderSize = 40
	importDescriptor  = 20 // size of an IMAGE_IMPORT_DESCRIPTOR
	// relative to the optional header:
	optSectionAlign  = 32
	optFileAlign     = 36
	optSizeOfImage   = 56
	optSizeOfHeaders = 60
	optChecksum      = 64
	optImportDir     = 112 + 1*8
	optBoundDir      = 112 + 11*8
	// flags of a section: initialised data, readable, writable (the loader
	// writes addresses into the import table)
	sectionFlags = 0x00000040 | 0x40000000 | 0x80000000
)

func peHeaderOffset(pe []byte) (int, error) {
	if len(pe) < 0x40 || pe[0] != 'M' || pe[1] != 'Z' {
		return 0, errors.New("no DOS header")
	}
	off := int(binary.LittleEndian.Uint32(pe[peOffsetField:]))
	if off < 0x40 || off+fileHeaderSize+optImportDir+8 > len(pe) || string(pe[off:off+4]) != "PE\x00\x00" {
		return 0, errors.New("no PE header")
	}
	return off, nil
}

// addImport copies the PE module from to to with one more import: the first
// export of dll, by its ordinal 1. The loader then loads dll into each process
// before the module itself is initialised.
func addImport(from, to, dll string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("add import: %w", err)
	}
	if data, err = withImport(data, dll); err != nil {
		return fmt.Errorf("add import of %s to %s: %w", dll, from, err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("add import: %w", err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		return fmt.Errorf("add import: %w", err)
	}
	return nil
}

// withImport appends a section that holds the module's import descriptors and
// a further one for dll, and points the import directory at it.
func withImport(pe []byte, dll string) ([]byte, error) {
	head, err := peHeaderOffset(pe)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	opt := head + fileHeaderSize
	if le.Uint16(pe[opt:]) != magicPE32Plus {
		return nil, errors.New("not a 64-bit module")
	}
	count := int(le.Uint16(pe[head+6:]))
	table := opt + int(le.Uint16(pe[head+20:]))
	end := table + count*sectionHeaderSize
	if end+sectionHeaderSize > int(le.Uint32(pe[opt+optSizeOfHeaders:])) || end+sectionHeaderSize > len(pe) {
		return nil, errors.New("no room for another section header")
	}
	for _, b := range pe[end : end+sectionHeaderSize] {
		if b != 0 {
			return nil, errors.New("the place of the next section header is in use")
		}
	}
	old, err := importDescriptors(pe, head, table, count)
	if err != nil {
		return nil, err
	}

	fileAlign, sectionAlign := le.Uint32(pe[opt+optFileAlign:]), le.Uint32(pe[opt+optSectionAlign:])
	rva := alignUp(le.Uint32(pe[opt+optSizeOfImage:]), sectionAlign)
	descriptors := len(old) + 2*importDescriptor // ours and the empty last one
	lookup := alignUp(uint32(descriptors), 8)
	// Lookup table, address table (each one entry and a zero), then the name.
	size := lookup + 4*8 + uint32(len(dll)) + 1
	body := make([]byte, alignUp(size, fileAlign))
	copy(body, old)
	d := body[len(old):]
	le.PutUint32(d[0:], rva+lookup)     // OriginalFirstThunk
	le.PutUint32(d[12:], rva+lookup+32) // Name
	le.PutUint32(d[16:], rva+lookup+16) // FirstThunk
	const byOrdinal = 1<<63 | 1
	le.PutUint64(body[lookup:], byOrdinal)
	le.PutUint64(body[lookup+16:], byOrdinal)
	copy(body[lookup+32:], dll)

	raw := alignUp(uint32(len(pe)), fileAlign)
	out := make([]byte, int(raw)+len(body))
	copy(out, pe)
	copy(out[raw:], body)
	s := out[end:]
	copy(s, ".winmend")
	le.PutUint32(s[8:], size)
	le.PutUint32(s[12:], rva)
	le.PutUint32(s[16:], uint32(len(body)))
	le.PutUint32(s[20:], raw)
	le.PutUint32(s[36:], sectionFlags)
	le.PutUint16(out[head+6:], uint16(count+1))
	le.PutUint32(out[opt+optSizeOfImage:], alignUp(rva+size, sectionAlign))
	le.PutUint32(out[opt+optImportDir:], rva)
	le.PutUint32(out[opt+optImportDir+4:], uint32(descriptors))
	le.PutUint64(out[opt+optBoundDir:], 0)
	le.PutUint32(out[opt+optChecksum:], 0) // Wine does not look at it
	return out, nil
}

// importDescriptors returns the module's descriptors without the empty last.
func importDescriptors(pe []byte, head, table, count int) ([]byte, error) {
	le := binary.LittleEndian
	rva := le.Uint32(pe[head+fileHeaderSize+optImportDir:])
	for i := range count {
		s := pe[table+i*sectionHeaderSize:]
		start, size, raw := le.Uint32(s[12:]), le.Uint32(s[16:]), le.Uint32(s[20:])
		if rva < start || rva >= start+size {
			continue
		}
		at := int(raw + rva - start)
		for end := at; end+importDescriptor <= len(pe); end += importDescriptor {
			if le.Uint32(pe[end+12:]) == 0 {
				return pe[at:end], nil
			}
		}
	}
	return nil, errors.New("no import table")
}

func alignUp(n, to uint32) uint32 { return (n + to - 1) / to * to }
