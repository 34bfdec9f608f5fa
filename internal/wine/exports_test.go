// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"debug/pe"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestExports compares each of our DLLs with the one that it replaces: programs find the same functions under the
// same names and ordinals. A DLL in front of Wine's forwards the others to it under their own names.
func TestExports(t *testing.T) {
	testenv.Need(t, testenv.Wine, testenv.Built)
	d, err := findDistribution(testenv.Bin(distributionDir))
	if err != nil {
		t.Fatal(err)
	}
	own, err := ownFiles(testenv.Bin("native"))
	if err != nil {
		t.Fatal(err)
	}
	compared := map[string]bool{}
	for _, dll := range own {
		name := filepath.Base(dll.to)
		if filepath.Ext(name) != ".dll" {
			continue
		}
		for _, e := range d.entries {
			if e.to != filepath.Join(pePath, name) {
				continue
			}
			ours, wines := readExports(t, dll.from), readExports(t, e.from)
			if len(wines) == 0 {
				t.Errorf("%s of Wine exports no names", name)
			}
			compared[name] = true
			for export, theirs := range wines {
				// Only modules of Wine import these.
				if strings.HasPrefix(export, "__wine") {
					continue
				}
				got, ok := ours[export]
				target := strings.TrimSuffix(name, ".dll") + "w." + export
				switch {
				case !ok:
					t.Errorf("%s does not export %s", name, export)
				case got.ordinal != theirs.ordinal:
					t.Errorf("%s: %s has the ordinal %d, in Wine %d", name, export, got.ordinal, theirs.ordinal)
				case got.forwarder != "" && got.forwarder != target:
					t.Errorf("%s: %s is forwarded to %s, want %s", name, export, got.forwarder, target)
				}
			}
		}
	}
	for _, name := range inFront() {
		if !compared[name] {
			t.Errorf("%s was not compared", name)
		}
	}
}

// TestExportsOfWinsock compares the ordinals of the functions that programs import by ordinal with those of
// Windows' ws2_32.dll, which Microsoft keeps since Winsock 1.1 (WS2_32.Lib of the Windows SDK).
func TestExportsOfWinsock(t *testing.T) {
	testenv.Need(t, testenv.Built)
	exports := readExports(t, testenv.Bin("native", "ws2_32.dll"))
	for name, ordinal := range map[string]uint32{
		"accept": 1, "bind": 2, "closesocket": 3, "connect": 4, "ioctlsocket": 10, "listen": 13, "ntohs": 15,
		"recv": 16, "select": 18, "send": 19, "setsockopt": 21, "shutdown": 22, "socket": 23, "gethostbyname": 52,
		"WSAGetLastError": 111, "WSASetLastError": 112, "WSAStartup": 115, "WSACleanup": 116, "__WSAFDIsSet": 151,
	} {
		if got := exports[name].ordinal; got != ordinal {
			t.Errorf("%s has the ordinal %d, on Windows %d", name, got, ordinal)
		}
	}
}

type export struct {
	ordinal   uint32
	forwarder string // MODULE.FUNCTION, or empty
}

// readExports returns the named exports of a DLL. See "The .edata Section" of Microsoft's "PE Format".
func readExports(t *testing.T, path string) map[string]export {
	t.Helper()
	f, err := pe.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	header, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok {
		t.Fatalf("%s is not a 64-bit module", path)
	}
	directory := header.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_EXPORT]
	at := func(rva uint32) []byte {
		for _, s := range f.Sections {
			if rva >= s.VirtualAddress && rva < s.VirtualAddress+s.VirtualSize {
				data, err := s.Data()
				if err != nil {
					t.Fatal(err)
				}
				return data[rva-s.VirtualAddress:]
			}
		}
		t.Fatal(fmt.Errorf("%s has no section at %#x: %w", path, rva, os.ErrNotExist))
		return nil
	}
	text := func(rva uint32) string {
		s, _, _ := strings.Cut(string(at(rva)[:min(len(at(rva)), 256)]), "\x00")
		return s
	}
	le := binary.LittleEndian
	table := at(directory.VirtualAddress)
	base, names := le.Uint32(table[16:]), le.Uint32(table[24:])
	functions, pointers, ordinals := at(le.Uint32(table[28:])), at(le.Uint32(table[32:])), at(le.Uint32(table[36:]))
	exports := map[string]export{}
	for i := range names {
		index := uint32(le.Uint16(ordinals[2*i:]))
		e := export{ordinal: base + index}
		if rva := le.Uint32(functions[4*index:]); rva-directory.VirtualAddress < directory.Size {
			e.forwarder = text(rva)
		}
		exports[text(le.Uint32(pointers[4*i:]))] = e
	}
	return exports
}
