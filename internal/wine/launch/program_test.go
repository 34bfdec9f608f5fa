// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

func TestCheckImage(t *testing.T) {
	amd64 := image(machineAMD64)
	changed := func(offset int, value uint16) []byte {
		out := bytes.Clone(amd64)
		binary.LittleEndian.PutUint16(out[dosHeaderSize+offset:], value)
		return out
	}
	section := append(changed(sections, 1), make([]byte, sectionSize)...)
	binary.LittleEndian.PutUint32(section[len(amd64)+rawOffset:], uint32(len(section)-1))
	whole := bytes.Clone(section)
	binary.LittleEndian.PutUint32(section[len(amd64)+rawSize:], 2)
	binary.LittleEndian.PutUint32(whole[len(amd64)+rawSize:], 1)
	for _, row := range []struct {
		name string
		data []byte
		want error
	}{
		{"a program", amd64, nil},
		{"a program with a section", whole, nil},
		{"empty", nil, errBadImage},
		{"a text", bytes.Repeat([]byte("a text "), 20), errBadImage},
		{"two letters", []byte("MZ"), errBadImage},
		{"for DOS", append([]byte("MZ"), make([]byte, 200)...), errOtherMachine},
		{"without a PE header", amd64[:dosHeaderSize], errOtherMachine},
		{"32 bits", image(0x14C), errOtherMachine},
		{"arm64", image(0xAA64), errOtherMachine},
		{"a header of 32 bits", changed(optionalMagic, 0x10B), errBadImage},
		{"a library", changed(features, featureDLL), errBadImage},
		{"without its table", changed(sections, 1), errBadImage},
		{"cut off in a section", section, errBadImage},
	} {
		if got := checkImage(bytes.NewReader(row.data), int64(len(row.data))); !errors.Is(got, row.want) {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

// FuzzCheckImage: the file is the image's.
func FuzzCheckImage(f *testing.F) {
	f.Add(image(machineAMD64))
	f.Add([]byte("MZ"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_ = checkImage(bytes.NewReader(data), int64(len(data)))
	})
}
