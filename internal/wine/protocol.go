// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
)

// firstRequest is the server request with number 0 (server/protocol.def).
const firstRequest = "new_process"

// requestNumber finds the number of a server request in the wineserver: the
// numbers follow the order of the requests and change with every version of
// Wine. For its traces the server has the requests' names in an array, in that
// order (server/trace.c, req_names).
func requestNumber(server, name string) (uint32, error) {
	fail := func(err error) (uint32, error) {
		return 0, fmt.Errorf("find server request %s in %s: %w", name, server, err)
	}
	f, err := elf.Open(server)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = f.Close() }() // opened for reading
	pointers, err := pointersTo(f, firstRequest, name)
	if err != nil {
		return fail(err)
	}
	for _, first := range pointers[0] {
		for _, wanted := range pointers[1] {
			// Thousands of requests would be another array.
			if n := (wanted - first) / 8; wanted > first && n < 4096 {
				return uint32(n), nil
			}
		}
	}
	return fail(fmt.Errorf("no array of names"))
}

// pointersTo lists for each text the addresses of the pointers to it.
func pointersTo(f *elf.File, texts ...string) ([][]uint64, error) {
	targets := map[uint64]int{}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_EXECINSTR != 0 {
			continue
		}
		data, err := s.Data()
		if err != nil {
			return nil, err
		}
		for i, text := range texts {
			// A whole string, not the end of another one.
			for at, from := 0, 0; ; from = at + 1 {
				n := bytes.Index(data[from:], append([]byte(text), 0))
				if n < 0 {
					break
				}
				if at = from + n; at == 0 || data[at-1] == 0 {
					targets[s.Addr+uint64(at)] = i
				}
			}
		}
	}
	found := make([][]uint64, len(texts))
	relocations := f.Section(".rela.dyn")
	if relocations == nil {
		return found, nil
	}
	data, err := relocations.Data()
	if err != nil {
		return nil, err
	}
	const size = 24 // Elf64_Rela: offset, info, addend
	for ; len(data) >= size; data = data[size:] {
		if i, ok := targets[binary.LittleEndian.Uint64(data[16:])]; ok {
			found[i] = append(found[i], binary.LittleEndian.Uint64(data))
		}
	}
	return found, nil
}
